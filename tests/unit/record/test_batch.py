"""The batch builder in both builds: sizes, limits, buffers, sealing and errors."""

import pytest

from aiokafka_lite.errors import IllegalStateError, KafkaConfigurationError
from aiokafka_lite.record.compression import Compression, decompress
from aiokafka_lite.record.header import BatchHeader, crc_matches
from tests.unit.record.record_batches import T0


def records_of(build, data, offset=0):
    return build.RecordSet(data, "t", 0, offset).read(10**6)


def test_the_size_is_exact_after_each_append(build):
    builder = build.BatchBuilder(100_000)
    assert builder.size == 61
    for value in (None, b"", b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192):
        for headers in ((), [("h", None), ("h", b""), ("ü" * 40, b"v" * 100)]):
            alone = build.BatchBuilder(100_000)
            alone.append(T0, b"key", value, headers)
            before = builder.size
            assert builder.append(T0, b"key", value, headers) == builder.count - 1
            assert builder.size == before + alone.size - 61  # offset deltas below 64 are one byte
    assert len(builder.seal()) == builder.size


def test_upper_bound_holds_for_any_record_index_and_timestamp(build):
    builder = build.BatchBuilder(10**7)
    builder.append(2**63 - 1, None, None)
    for i in range(9000):
        builder.append(i, None, None)
    for args in ((None, None, ()), (b"k" * 70, b"v" * 20000, [("a", b"b"), ("c", None)])):
        bound = build.record_size_upper_bound(*args)
        before = builder.size
        builder.append(-1, *args)
        added = builder.size - before
        assert added <= bound <= added + 21


def test_record_over_the_limit_is_rejected(build):
    builder = build.BatchBuilder(200)
    assert builder.append(T0, None, b"x" * 100) == 0
    before = builder.size
    assert builder.append(T0, None, b"x" * 100) == -1
    assert (builder.size, builder.count) == (before, 1)
    overhead = 7  # of a short record without key and headers
    assert builder.append(T0, None, b"y" * (200 - before - overhead)) == 1
    assert builder.size == 200
    assert builder.append(T0, None, None) == -1


def test_first_record_is_accepted_at_any_size(build):
    builder = build.BatchBuilder(100)
    assert builder.append(T0, None, b"x" * 5000) == 0
    assert builder.append(T0, None, None) == -1
    (record,) = records_of(build, builder.seal())
    assert record.value == b"x" * 5000


def test_pooled_buffer_is_used_in_place_and_never_resized(build):
    pooled = bytearray(300)
    with memoryview(pooled):  # a resize would raise BufferError
        builder = build.BatchBuilder(300, pooled)
        builder.append(T0, b"k", b"v")
        sealed = builder.seal()
        assert pooled[: builder.size] == bytes(sealed)
        again = build.BatchBuilder(300, pooled)
        assert again.append(T0, None, b"other") == 0


def test_oversize_first_record_does_not_use_the_pooled_buffer(build):
    pooled = bytearray(b"\xee" * 100)
    builder = build.BatchBuilder(100, pooled)
    builder.append(T0, None, b"x" * 1000)
    assert pooled == b"\xee" * 100
    (record,) = records_of(build, builder.seal())
    assert record.value == b"x" * 1000


def test_memory_grows_with_the_records_not_the_limit(build):
    builder = build.BatchBuilder(2**31 - 1)
    values = [b"%d" % i * 1000 for i in range(100)]
    for value in values:
        builder.append(T0, None, value)
    sealed = builder.seal()
    assert [r.value for r in records_of(build, sealed)] == values
    assert builder.size <= len(sealed.obj) < 2 * builder.size


def test_shrunk_pooled_buffer_raises(native):
    pooled = bytearray(1000)
    builder = native.BatchBuilder(1000, pooled)
    builder.append(T0, None, b"v")
    pooled.clear()
    with pytest.raises(IllegalStateError, match="resized"):
        builder.append(T0, None, b"v")
    with pytest.raises(IllegalStateError, match="resized"):
        builder.seal()


def test_missing_arguments_raise(native):
    for cls in (native.BatchBuilder, native.RecordSet):
        with pytest.raises(TypeError):
            cls.__new__(cls)


def test_buffer_smaller_than_the_limit_raises(build):
    with pytest.raises(ValueError, match="cannot hold 101"):
        build.BatchBuilder(101, bytearray(100))


@pytest.mark.parametrize("codec", list(Compression))
def test_header_fields_of_a_sealed_batch(build, codec):
    builder = build.BatchBuilder(10_000)
    for stamp in (T0 + 5, T0, T0 + 9, T0 + 1):
        builder.append(stamp, None, b"v" * 100)
    data = bytes(
        builder.seal(
            codec, producer_id=5, producer_epoch=6, base_sequence=2**31 - 1, transactional=True
        )
    )
    header = BatchHeader.read(data)
    assert header.size == len(data)
    assert (header.base_offset, header.leader_epoch, header.magic) == (0, -1, 2)
    assert (header.codec, header.transactional, header.control) == (codec, True, False)
    assert (header.record_count, header.last_offset_delta) == (4, 3)
    assert (header.base_timestamp, header.max_timestamp) == (T0 + 5, T0 + 9)
    assert (builder.first_timestamp, builder.max_timestamp) == (T0 + 5, T0 + 9)
    assert (header.producer_id, header.producer_epoch) == (5, 6)
    assert header.base_sequence == 2**31 - 1
    assert crc_matches(data, 0, len(data))
    assert [r.timestamp for r in records_of(build, data)] == [T0 + 5, T0, T0 + 9, T0 + 1]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_sealing_again_after_an_epoch_bump(build, codec):
    builder = build.BatchBuilder(1000)
    builder.append(T0, b"k", b"v")
    first = bytes(builder.seal(codec, producer_id=1, producer_epoch=0, base_sequence=10))
    second = bytes(builder.seal(codec, producer_id=1, producer_epoch=1, base_sequence=0))
    assert first[61:] == second[61:]
    assert BatchHeader.read(second)[-4:] == (1, 1, 0, 1)
    assert crc_matches(second, 0, len(second))


def test_the_records_are_compressed_once(build):
    pooled = bytearray(10_000)
    builder = build.BatchBuilder(10_000, pooled)
    builder.append(T0, None, b"v" * 5000)
    sealed = bytes(builder.seal(Compression.ZSTD, 1))
    assert decompress(sealed[61:], Compression.ZSTD).endswith(b"v" * 5000 + b"\x00")
    pooled[:] = bytes(10_000)
    assert bytes(builder.seal(Compression.ZSTD, 1)) == sealed
    assert len(builder.seal(Compression.ZSTD, 2)) < len(sealed), "at another level, again"


def test_sealed_builder_accepts_no_more_records(build):
    builder = build.BatchBuilder(1000)
    builder.append(T0, None, None)
    assert not builder.sealed
    builder.seal()
    assert builder.sealed
    assert builder.append(T0, None, None) == -1


def test_sealing_empty_or_with_an_invalid_level_raises(build):
    builder = build.BatchBuilder(1000)
    with pytest.raises(IllegalStateError, match="empty"):
        builder.seal()
    builder.append(T0, None, None)
    with pytest.raises(KafkaConfigurationError, match="gzip level 10"):
        builder.seal(Compression.GZIP, 10)
    assert not builder.sealed


@pytest.mark.parametrize(
    "field", ["text", 1, 1.5, ["a"], object()], ids=["str", "int", "float", "list", "object"]
)
def test_wrong_types_raise_at_once(build, field):
    builder = build.BatchBuilder(1000)
    builder.append(T0, None, None)
    for key, value, headers in (
        (field, b"", ()),
        (b"", field, ()),
        (None, None, [("a", b"fine"), ("b", field)]),
        (None, None, [(b"name", b"")]),
        (None, None, [(None, b"")]),
        (None, None, [("name",)]),
        (None, None, [field]),
    ):
        with pytest.raises(TypeError):
            builder.append(T0, key, value, headers)
        with pytest.raises(TypeError):
            build.record_size_upper_bound(key, value, headers)
    assert builder.count == 1
    assert len(records_of(build, builder.seal())) == 1


def test_unencodable_header_name_raises(build):
    builder = build.BatchBuilder(1000)
    with pytest.raises(ValueError, match="cannot be encoded"):
        builder.append(T0, None, None, [("\ud800", b"")])
    assert (builder.count, builder.size) == (0, 61)


@pytest.mark.parametrize("stamp", [-2, 2**63, -(2**70), 2**70])
def test_timestamps_out_of_range_raise(build, stamp):
    builder = build.BatchBuilder(1000)
    with pytest.raises(ValueError, match="timestamp"):
        builder.append(stamp, None, None)
    assert builder.count == 0


def test_extreme_timestamps_survive_in_any_order(build):
    stamps = [-1, 2**63 - 1, 0, T0, -1]
    builder = build.BatchBuilder(1000)
    for stamp in stamps:
        builder.append(stamp, None, None)
    assert [r.timestamp for r in records_of(build, builder.seal())] == stamps


def test_any_bytes_like_is_accepted_and_null_is_not_empty(build):
    builder = build.BatchBuilder(10_000)
    wide = memoryview(b"\x01\x02\x03\x04").cast("H")
    sliced = memoryview(b"abcdef")[::2]
    fields = [None, b"", b"x", bytearray(b"y"), memoryview(b"zz")[1:], wide, sliced]
    expected = [None, b"", b"x", b"y", b"z", b"\x01\x02\x03\x04", b"ace"]
    for field in fields:
        builder.append(T0, field, field, (("n", field), ("n", field)))
    records = records_of(build, builder.seal())
    assert [r.key for r in records] == expected
    assert [r.value for r in records] == expected
    assert [r.headers for r in records] == [(("n", e), ("n", e)) for e in expected]
    assert [r.serialized_value_size for r in records] == [-1, 0, 1, 1, 1, 4, 3]


def test_headers_may_come_from_any_iterable(build):
    builder = build.BatchBuilder(1000)
    builder.append(T0, None, None, (pair for pair in [("a", b"1"), ["b", None]]))
    builder.append(T0, None, None, iter(()))
    builder.append(T0, None, None, None)
    records = records_of(build, builder.seal())
    assert [r.headers for r in records] == [(("a", b"1"), ("b", None)), (), ()]


def test_record_appended_by_a_headers_iterator_comes_after(build):
    builder = build.BatchBuilder(100_000)

    class Acting(list):
        def __iter__(self):
            builder.append(T0, None, b"inner")
            return super().__iter__()

    assert builder.append(T0 + 5, None, b"outer", Acting([("name", b"value")])) == 1
    records = build.RecordSet(builder.seal(), "t", 0, 0).read(10)
    assert [(r.offset, r.timestamp, r.value) for r in records] == [
        (0, T0, b"inner"),
        (1, T0 + 5, b"outer"),
    ]


def test_record_is_rejected_if_its_headers_seal_the_batch(build):
    builder = build.BatchBuilder(100_000)
    builder.append(T0, None, b"first")

    class Sealing(list):
        def __iter__(self):
            builder.seal()
            return super().__iter__()

    assert builder.append(T0, None, b"late", Sealing([("name", b"value")])) == -1
    assert builder.count == 1


def test_fake_buffer_objects_raise(native):
    class Claims:
        __class__ = memoryview

        def tobytes(self):
            return None

    builder = native.BatchBuilder(1000)
    for key, value, headers in (
        (Claims(), None, ()),
        (None, Claims(), ()),
        (None, None, [("name", Claims())]),
    ):
        with pytest.raises(TypeError, match="bytes"):
            builder.append(T0, key, value, headers)
        with pytest.raises(TypeError, match="bytes"):
            native.record_size_upper_bound(key, value, headers)
    assert builder.count == 0
