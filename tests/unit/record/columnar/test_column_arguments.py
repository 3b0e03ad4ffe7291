"""`send_columns` accepts Arrow arrays and pairs of buffers; other errors name the argument."""

import array
import ctypes
from types import SimpleNamespace

import pytest

from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.columnar.arrow_import import _Array, _pointer_of
from aiokafka_lite.record.columnar.column_arguments import columns_to_send
from aiokafka_lite.record.record_set import RecordSet


def read(values, keys=None, timestamps=None):
    """The (timestamp, key, value) of the records of these columns."""
    rows = columns_to_send(values, keys, timestamps).rows
    builder = BatchBuilder(10_000, bytearray(10_000))
    assert rows.fill(builder, None, 0, rows.count) == rows.count
    if not rows.count:
        return []
    records = RecordSet(builder.seal(), "t", 0, 0).read(1000)
    return [(record.timestamp, record.key, record.value) for record in records]


def pair(data=b"abcdef", offsets=(0, 1, 3, 6), kind="i"):
    return data, array.array(kind, offsets)


def test_pairs_of_buffers_are_accepted() -> None:
    for kind in "iq":
        found = read(pair(kind=kind), pair(b"xyz", (0, 1, 1, 3), kind), array.array("q", [1, 2, 3]))
        assert found == [(1, b"x", b"a"), (2, b"", b"bc"), (3, b"yz", b"def")]
    assert read((*pair(), b"\x05"), timestamps=9) == [
        (9, None, b"a"),
        (9, None, None),
        (9, None, b"def"),
    ]
    assert read((bytearray(b"ab"), memoryview(array.array("i", [0, 2])), None), timestamps=0)
    assert read(pair(b"", (0,))) == []
    assert read(pair(b"", (0, 0, 0)), timestamps=5) == [(5, None, b""), (5, None, b"")]


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ((5,), TypeError, "`values` should be an Arrow array"),
        ((["a", "b"],), TypeError, "`values`: the data should be a buffer, not str"),
        (((b"a",),), TypeError, "`values` should be"),
        ((b"abc",), TypeError, "`values` should be"),
        (((b"a", [0, 1]),), TypeError, "the offsets should be a buffer, not list"),
        (((b"a", b"\x00" * 8),), TypeError, "should be int32 or int64"),
        (((b"a", array.array("f", [0, 1])),), TypeError, "not 'f'"),
        (((b"a", array.array("I", [0, 1])),), TypeError, "not 'I'"),
        (((b"a", array.array("i", [])),), IllegalArgumentError, "one more offset"),
        ((pair(offsets=(0, 2, 1)),), IllegalArgumentError, "row 1"),
        ((pair(offsets=(0, 7)),), IllegalArgumentError, "row 0"),
        ((pair(offsets=(-1, 6)),), IllegalArgumentError, "row 0"),
        (((b"abc", array.array("i", [0] * 10), b"\xff"),), IllegalArgumentError, "9 bits"),
        (
            ((b"abc", memoryview(array.array("i", [0, 1, 2, 3]))[::2]),),
            IllegalArgumentError,
            "contiguous",
        ),
        ((pair(), pair(b"k", (0, 1))), IllegalArgumentError, "`keys` has 1 rows, `values` has 3"),
        ((pair(), 5), TypeError, "`keys`"),
        ((pair(), None, array.array("q", [1])), IllegalArgumentError, "`timestamps` has 1 rows"),
        ((pair(), None, array.array("i", [1, 2, 3])), TypeError, "int64"),
        ((pair(), None, array.array("q", [1, -2, 3])), IllegalArgumentError, "row 1 is -2"),
        ((pair(), None, -1), IllegalArgumentError, "timestamp_ms"),
        ((pair(), None, "now"), TypeError, "`timestamps`"),
    ],
)
def test_errors_of_bad_columns_name_the_argument(arguments, error, why) -> None:
    with pytest.raises(error, match=why):
        columns_to_send(*(*arguments, None, None)[:3])


class TestArrow:
    pa = pytest.importorskip("pyarrow")

    @pytest.mark.parametrize("kind", ["binary", "large_binary", "string", "large_string"])
    def test_arrays_of_bytes_and_text_are_accepted(self, kind) -> None:
        pa = self.pa
        texts = ["a", None, "", "longer", "ü"]
        found = [None if text is None else text.encode() for text in texts]
        items = texts if "string" in kind else found
        values = pa.array(items, getattr(pa, kind)())
        assert read(values, timestamps=1) == [(1, None, value) for value in found]
        assert read(values.slice(1, 3), values.slice(2), 1) == [
            (1, key, value) for key, value in zip(found[2:], found[1:4], strict=True)
        ]
        assert read(values.slice(5)) == []
        assert read(pa.array([], getattr(pa, kind)())) == []

    @pytest.mark.parametrize("kind", ["binary", "large_binary"])
    def test_an_empty_array_may_have_no_offset(self, kind) -> None:
        """Its buffer of offsets has no bytes; the bytes that follow in memory do not belong to
        it."""
        pa = self.pa
        nothing = pa.py_buffer(b"\xff" * 32).slice(8, 0)
        buffers = [None, nothing, pa.py_buffer(b"data")]
        values = pa.Array.from_buffers(getattr(pa, kind)(), 0, buffers)
        assert read(values) == []
        assert read(pa.record_batch({"value": values, "key": values})) == []

    def test_nulls_beyond_the_first_byte_of_the_bitmap_are_read(self) -> None:
        items = [None if i % 3 == 0 else b"%d" % i for i in range(100)]
        values = self.pa.array(items, self.pa.binary())
        for start in (0, 1, 7, 8, 9, 63):
            assert [each[2] for each in read(values.slice(start))] == items[start:]

    @pytest.mark.parametrize(("unit", "number"), [("s", 7), ("ms", 7000), ("us", 7000999)])
    def test_timestamps_of_all_units_are_accepted(self, unit, number) -> None:
        pa = self.pa
        for zone in (None, "Europe/Berlin"):
            stamps = pa.array([1, number], pa.timestamp(unit, zone)).slice(1)
            assert read(pa.array([b"v"]), None, stamps) == [(7000, None, b"v")]
        assert read(pa.array([b"v"]), None, pa.array([7]))[0][0] == 7
        assert read(pa.array([b"v"]), None, pa.array([None], pa.int64()))[0][0] > 10**12

    def test_record_batches_and_their_slices_are_accepted(self) -> None:
        pa = self.pa
        batch = pa.record_batch(
            {
                "timestamp": pa.array([1, 2, 3]),
                "value": pa.array(["a", None, "c"]),
                "key": pa.array([b"k", b"", None]),
            }
        )
        rows = [(1, b"k", b"a"), (2, b"", None), (3, None, b"c")]
        assert read(batch) == rows
        assert read(batch.slice(1, 1)) == rows[1:2]
        assert read(batch.slice(1)) == rows[1:]
        assert read(batch.to_struct_array().slice(2)) == rows[2:]
        assert columns_to_send(batch, None, None).keyed
        assert not columns_to_send(batch.select(["value"]), None, None).keyed
        with pytest.raises(IllegalArgumentError, match="`keys` is given"):
            read(batch, pa.array([b"1", b"2", b"3"]))
        with pytest.raises(IllegalArgumentError, match="without a column value"):
            read(batch.select(["key"]))
        with pytest.raises(IllegalArgumentError, match="column 'price'"):
            read(pa.record_batch({"value": pa.array([b""]), "price": pa.array([1])}))
        with pytest.raises(TypeError, match=r"`values.key`"):
            read(pa.record_batch({"value": pa.array([b""]), "key": pa.array([1])}))
        with pytest.raises(TypeError, match=r"`values.timestamp`"):
            read(pa.record_batch({"value": pa.array([b""]), "timestamp": pa.array([b""])}))
        twice = [pa.array([b""])] * 2
        with pytest.raises(IllegalArgumentError, match="two columns"):
            read(pa.RecordBatch.from_arrays(twice, names=["value", "value"]))
        with pytest.raises(IllegalArgumentError, match="should not be null"):
            read(pa.array([{"value": b""}, None]))

    def test_other_types_are_refused(self) -> None:
        pa = self.pa
        for wrong in (
            pa.array([1]),
            pa.array([1.5]),
            pa.array([[b"x"]]),
            pa.array([b"x"]).dictionary_encode(),
            pa.array([b"x"], pa.binary(1)),
        ):
            with pytest.raises(TypeError, match="`values`"):
                read(wrong)
        with pytest.raises(TypeError, match="`keys`"):
            read(pa.array([b"v"]), pa.array([1]))
        assert read(pa.array([b"v"]), pa.nulls(1), 1) == [(1, None, b"v")]
        assert read(pa.nulls(2), None, 1) == [(1, None, None)] * 2

    def test_too_many_rows_are_refused_before_they_are_looked_at(self) -> None:
        pa = self.pa
        for count in (10**6, 2**31 - 1, 2**31, 2**40):
            schema, made = pa.nulls(1).__arrow_c_array__()
            _Array.from_address(_pointer_of(made, b"arrow_array")).length = count
            fake = SimpleNamespace(__arrow_c_array__=lambda c=(schema, made): c)
            if count < 2**31:
                assert columns_to_send(fake, None, 1).rows.count == count
                continue
            with pytest.raises(IllegalArgumentError, match="at most 2147483647 rows"):
                columns_to_send(fake, None, 1)

    def test_record_batches_with_hostile_structs_are_refused(self) -> None:
        for change in ({"n_buffers": 0}, {"offset": -1}, {"length": -1}):
            batch = self.pa.RecordBatch.from_pylist([{"value": b"x"}])
            schema, made = batch.__arrow_c_array__()
            struct = _Array.from_address(_pointer_of(made, b"arrow_array"))
            for name, number in change.items():
                setattr(struct, name, number)
            fake = SimpleNamespace(__arrow_c_array__=lambda c=(schema, made): c)
            with pytest.raises(IllegalArgumentError, match="not a valid Arrow record batch"):
                columns_to_send(fake, None, 1)
        batch = self.pa.RecordBatch.from_pylist([{"value": b"x"}] * 3)
        schema, made = batch.__arrow_c_array__()
        struct = _Array.from_address(_pointer_of(made, b"arrow_array"))
        struct.offset, struct.length = 2, 1
        struct.children[0].contents.offset = -1
        fake = SimpleNamespace(__arrow_c_array__=lambda: (schema, made))
        with pytest.raises(IllegalArgumentError, match="not a valid Arrow array"):
            columns_to_send(fake, None, 1)

    def test_invalid_arrays_are_refused(self) -> None:
        pa = self.pa

        def changed(row, offset):
            """An array whose offset changes after pyarrow has checked it."""
            offsets = array.array("i", [0, 1, 2, 3])
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")]
            made = pa.Array.from_buffers(pa.binary(), 3, buffers)
            offsets[row] = offset
            return made

        for row, offset in ((1, 3), (1, -1), (2, 2**30), (0, 2)):
            with pytest.raises(IllegalArgumentError, match="row"):
                read(changed(row, offset))
        for offset in (2**30, -5):
            with pytest.raises(IllegalArgumentError, match="not a valid Arrow array"):
                read(changed(3, offset))

    def test_the_memory_lives_as_long_as_the_rows(self) -> None:
        pa = self.pa
        before = pa.total_allocated_bytes()
        columns = columns_to_send(pa.array([b"x" * 1000] * 100), None, 1)
        assert pa.total_allocated_bytes() >= before + 100_000
        builder = BatchBuilder(200_000, bytearray(200_000))
        assert columns.rows.fill(builder, None, 0, 100) == 100
        del columns
        assert pa.total_allocated_bytes() == before


def test_wrong_capsules_are_refused() -> None:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    memory = ctypes.create_string_buffer(200)  # zeroed, like a released struct
    for name in (b"arrow_schema", b"other"):
        capsule = new(ctypes.addressof(memory), name, None)
        array_capsule = new(ctypes.addressof(memory), b"arrow_array", None)
        fake = SimpleNamespace(__arrow_c_array__=lambda c=capsule, a=array_capsule: (c, a))
        with pytest.raises((TypeError, IllegalArgumentError), match="`values`"):
            columns_to_send(fake, None, None)
    for returned in (None, 5, (1,), (1, 2)):
        fake = SimpleNamespace(__arrow_c_array__=lambda returned=returned: returned)
        with pytest.raises(TypeError, match="`values`"):
            columns_to_send(fake, None, None)
