"""The format language in both directions, and JSON lines, which lose nothing."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.cli.failures import CommandError, UsageError
from aiokafka_lite.cli.formats.encodings import unpacker
from aiokafka_lite.cli.formats.format_grammar import parse_format
from aiokafka_lite.cli.formats.input_record import InputRecord
from aiokafka_lite.cli.formats.json_lines import json_line_reader, json_line_writer
from aiokafka_lite.cli.formats.reading import FormatReader, MalformedInput, ValueReader
from aiokafka_lite.cli.formats.record_filters import parse_filters
from aiokafka_lite.cli.formats.writing import Record, format_writer
from aiokafka_lite.structs import ConsumerRecord

Headers = tuple[tuple[str, bytes | None], ...]


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Headers = (),
    *,
    offset: int = 7,
    timestamp: int = 1_700_000_000_123,
    timestamp_type: int = 0,
) -> Record:
    sizes = [-1 if each is None else len(each) for each in (key, value)]
    return ConsumerRecord(
        "orders", 3, offset, timestamp, timestamp_type, key, value, None, *sizes, headers
    )


def written(text: str, *records: Record) -> bytes:
    return format_writer(parse_format(text))(records)


def read(text: str, data: bytes, chunk: int = 1000) -> list[InputRecord | ValueError]:
    reader = FormatReader(parse_format(text))
    items = []
    for at in range(0, len(data), chunk):
        items += reader.feed(data[at : at + chunk])
    return items + reader.finish()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%v\n", b"v\n"),
        ("%s|", b"v|"),
        (r"%t/%p@%o %k=%v\x00", b"orders/3@7 k=v\0"),
        ("%K %V %S %H", b"1 1 1 2"),
        ("%K{big32}%V{little16}%R", b"\0\0\0\x01\x01\0\0\0\0\x01"),
        ("%o{hex8} %o{byte}", b"07 \x07"),
        ("%d %T", b"1700000000123 1700000000123"),
        ("%d{strftime[%F %T]}", b"2023-11-14 22:13:20"),
        ("%h", b"a=1,b="),
        ("%h{%k:%v;}", b"a:1;b:;"),
        ("%h{%K{big8}%k%V{big8}%v}", b"\x01a\x011\x01b\xff"),
        ("%k{hex} %v{base64} %v{base64raw}", b"6b dg== dg"),
        ("%a %e %i", b"CreateTime -1 1"),
        ("%% %{%}", b"% {}"),
    ],
)
def test_verbs_write_their_fields(text: str, expected: bytes) -> None:
    assert written(text, record(headers=(("a", b"1"), ("b", None)))) == expected


def test_null_is_written_as_nothing_and_its_size_as_minus_one() -> None:
    null = record(None, None)
    assert written(r"%v\n", null, null) == b"\n\n"
    assert written("[%k %K %v{hex} %V]", null) == b"[ -1  -1]"


def test_record_that_does_not_fit_has_no_number() -> None:
    write = format_writer(parse_format("%i:%v{unpack[h]} "))
    records = [record(value=b"\0\1"), record(value=b"\0\2"), record(value=b"")]
    with pytest.raises(ValueError, match="the data ends"):
        write(records)
    assert write(records[:2]) == b"1:1 2:2 "


def test_record_number_counts_across_calls() -> None:
    write = format_writer(parse_format("%i "))
    assert write([record(), record()]) + write([record()]) == b"1 2 3 "


@pytest.mark.parametrize(
    "text", ["%y", "%v{nope}", "%k{hex", r"\q", "%d{hex}", "%v{unpack[z]}", "%"]
)
def test_invalid_format_is_a_usage_error_that_shows_it(text: str) -> None:
    with pytest.raises(UsageError):
        format_writer(parse_format(text))


def test_unpack_writes_numbers() -> None:
    assert unpacker(">hb<H cx$")(b"\0\x01\xff\x02\x01zX") == b"1-1258 z"
    assert unpacker("q s")(b"\0" * 7 + b"\x05text") == b"5 text"
    with pytest.raises(ValueError, match="the data ends after 1 bytes"):
        unpacker("h")(b"a")
    with pytest.raises(ValueError, match="1 bytes are left over"):
        unpacker("b$")(b"ab")


def test_value_that_cannot_be_unpacked_names_its_record() -> None:
    with pytest.raises(ValueError, match="orders/3 at offset 7: unpack"):
        written("%v{unpack[q]}", record())


@pytest.mark.parametrize("chunk", [1, 2, 3, 1000])
def test_format_reads_records_from_chunks_of_any_size(chunk: int) -> None:
    expected = [InputRecord(b"k1", b"a\nb", partition=2), InputRecord(b"", None, partition=0)]
    data = b"2:2k1:3a\nb;0:0:-1;"
    assert read("%p:%K%k:%V%v;", data, chunk) == expected
    assert read("%k{hex} %v\n", b"6b value\n", chunk) == [InputRecord(b"k", b"value")]
    headers = [("a", b"1"), ("b", None)]
    assert read("%v %H %h{%K %k=%V %v,}", b"x 2 1 a=1 1,1 b=-1 ,", chunk) == [
        InputRecord(None, b"x", headers)
    ]
    assert read(r"%d{strftime[%Y-%m-%d]} %v\n", b"1970-01-02 x\n", chunk) == [
        InputRecord(None, b"x", timestamp=86_400_000)
    ]


def test_last_record_may_lack_its_delimiter() -> None:
    assert read(r"%k:%v\n", b"a:b\nc:d") == [InputRecord(b"a", b"b"), InputRecord(b"c", b"d")]
    reader = ValueReader(b"\n")
    assert [*reader.feed(b"a\nb"), *reader.feed(b"c\n\nd"), *reader.finish()] == [
        b"a",
        b"bc",
        b"",
        b"d",
    ]


def test_field_that_cannot_be_decoded_fails_one_record() -> None:
    first, second = read(r"%v{hex}\n", b"zz\n61\n")
    assert isinstance(first, ValueError)
    assert second == InputRecord(None, b"a")


@pytest.mark.parametrize(
    ("text", "data"), [("%K%k:%v\n", b"x:"), ("%p %v\n", b"-"), ("%K{big32}%k", b"\0\0\0\x09ab")]
)
def test_input_that_does_not_fit_the_format_ends_the_reading(text: str, data: bytes) -> None:
    with pytest.raises(CommandError, match="record 1"):
        read(text, data)


def test_records_before_malformed_input_are_not_lost() -> None:
    reader = FormatReader(parse_format(r"%V:%v\n"))
    with pytest.raises(MalformedInput, match="record 3") as malformed:
        reader.feed(b"1:a\n2:bb\nx:c\n1:d\n")
    assert malformed.value.before == [InputRecord(None, b"a"), InputRecord(None, b"bb")]


@pytest.mark.parametrize("text", ["%k%v\n", "%v{unpack[q]}\n", "%h{%k=%v,}", ""])
def test_format_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        FormatReader(parse_format(text))


fields = st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode))
header_lists = st.lists(st.tuples(st.text(max_size=5), fields), max_size=4).map(tuple)


@given(st.lists(st.tuples(fields, fields, header_lists), max_size=5), st.integers(1, 50))
def test_sized_format_loses_nothing(rows: list[tuple[bytes, bytes, Headers]], chunk: int) -> None:
    text = "%p %d %K{big32}%k%V{big32}%v%H{big16}%h{%K{big32}%k%V{big32}%v}"
    records = [record(*row) for row in rows]
    assert read(text, written(text, *records), chunk) == [
        InputRecord(key, value, list(headers), 3, 1_700_000_000_123) for key, value, headers in rows
    ]


@given(fields, fields, header_lists)
def test_json_lines_lose_nothing(key: bytes | None, value: bytes | None, headers: Headers) -> None:
    line = json_line_writer()([record(key, value, headers)])
    assert line.count(b"\n") == 1
    assert json_line_reader()(line) == InputRecord(key, value, list(headers), 3, 1_700_000_000_123)


def test_json_line_holds_every_field() -> None:
    line = json_line_writer()([record(b"k", b"\xff", (("a", b"1"), ("a", None)), timestamp_type=1)])
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "timestamp_type": "log_append",
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["a", "1"], ["a", None]],
    }


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("json", b'{"a": 1}', {"a": 1}),
        ("hex", b"a", {"hex": "61"}),
        ("base64", b"a", {"base64": "YQ=="}),
        ("text", b"a\xff", "a\ufffd"),
        ("unpack:>h", b"\0\x01", "1"),
    ],
)
def test_value_kinds(kind: str, value: bytes, expected: object) -> None:
    assert json.loads(json_line_writer(kind)([record(value=value)]))["value"] == expected


def test_embedded_json_is_written_back_compactly() -> None:
    assert json_line_reader("json")(b'{"value": {"a": [1, "x"]}}').value == b'{"a":[1,"x"]}'


@pytest.mark.parametrize(
    "line",
    [
        b"nope",
        b"[]",
        b'{"value": 3}',
        b'{"value": {"base64": "!"}}',
        b'{"valeu": "a"}',
        b'{"partition": -1}',
        b'{"timestamp": true}',
        b'{"headers": {"a": "b"}}',
        b'{"headers": [["a"]]}',
        b'{"key": "\\ud800"}',
    ],
)
def test_invalid_json_line_raises_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        json_line_reader()(line)


@pytest.mark.parametrize(
    ("texts", "keeps"),
    [
        (["k:^a"], [1]),
        (["!k:^a"], [2, 3]),
        (["v:x", "k:b"], [2]),
        (["h:name=^1$"], [3]),
        (["!h:name="], [1, 2]),
        (["t:^orders$"], [1, 2, 3]),
        (["!t:^ord"], []),
    ],
)
def test_filters_keep_matching_records(texts: list[str], keeps: list[int]) -> None:
    keep = parse_filters(texts)
    assert keep is not None
    records = [
        record(b"ab", b"y", offset=1),
        record(b"b", b"x", offset=2),
        record(None, None, (("name", b"1"), ("name", None)), offset=3),
    ]
    assert [each.offset for each in keep(records)] == keeps


@pytest.mark.parametrize("text", ["x:a", "k", "h:name", "k:("])
def test_invalid_filter_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--grep"):
        parse_filters([text])


def test_no_filter_costs_nothing() -> None:
    nothing: Callable[..., object] | None = parse_filters([])
    assert nothing is None


@pytest.mark.parametrize("value", [b"NaN", b"[1e999]", b"[" * 100_000])
def test_value_that_json_cannot_hold_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="orders/3 at offset 7: "):
        json_line_writer("json")([record(value=value)])
    with pytest.raises(ValueError, match="JSON"):
        json_line_reader("json")(b'{"value": ' + value + b"}")


def test_bytes_of_the_command_line_that_are_no_utf8_are_kept() -> None:
    assert written("\udcff%v", record()) == b"\xffv"
    keep = parse_filters(["k:^\udcff$"])
    assert keep is not None
    assert keep([record(key=b"\xff"), record(key=b"k")]) == [record(key=b"\xff")]
