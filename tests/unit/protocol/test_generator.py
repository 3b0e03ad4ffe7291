"""The parts of the generator, with small test schemas; no jar is needed."""

from pathlib import Path
from typing import Any

import pytest

from tools.protocol_gen import __main__ as command
from tools.protocol_gen import jars, types
from tools.protocol_gen.emit_module import by_module, emit_module
from tools.protocol_gen.merge import merge
from tools.protocol_gen.schema import NO_VERSIONS, Message, Versions, load, snake_case


def schema(fields: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "name": "ThingRequest",
        "type": "request",
        "apiKey": 7000,
        "listeners": ["broker"],
        "validVersions": "0-5",
        "flexibleVersions": "3+",
        "fields": fields,
        **more,
    }


def field(name: str, kind: str = "int32", versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **more}


def names(message: Message) -> list[str]:
    return [item.name for item in message.root.fields]


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0+", Versions(0, 32767)),
        ("3", Versions(3, 3)),
        ("2-7", Versions(2, 7)),
        ("none", NO_VERSIONS),
        (None, NO_VERSIONS),
    ],
)
def test_version_ranges(text: str | None, versions: Versions) -> None:
    assert Versions.parse(text) == versions


def test_arithmetic_of_version_ranges() -> None:
    assert Versions(0, 5) & Versions(3, 9) == Versions(3, 5)
    assert not Versions(0, 2) & Versions(3, 9)
    assert Versions(0, 2).hull(Versions(4, 5)) == Versions(0, 5)
    assert NO_VERSIONS.hull(Versions(4, 5)) == Versions(4, 5)
    assert Versions(0, 5).covers(Versions(2, 3))
    assert Versions(2, 3).covers(NO_VERSIONS)
    assert 2 in Versions(2, 3)
    assert str(Versions(2, 2)) == "2"


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("timeoutMs", "timeout_ms"),
        ("ISRNodes", "isr_nodes"),
        ("TopicId", "topic_id"),
        ("From", "from_"),
    ],
)
def test_names(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_comments_are_removed_from_json() -> None:
    text = '// head\n{"a": "http://x", // why\n "b": 1}'
    assert jars.strip_comments(text) == '\n{"a": "http://x", \n "b": 1}'


def test_dropped_versions_and_fields_come_from_the_older_release() -> None:
    newest = schema(
        [field("A"), field("C", versions="2+"), field("Name", "string", "0-4", ignorable=True)],
        validVersions="2-5",
    )
    oldest = schema(
        [
            field("A"),
            field("B", "[]int64", "0"),
            field("C", versions="2+"),
            field("Name", "string"),
            field("Renamed", versions="2+"),
        ],
        validVersions="0-3",
    )
    message = load(merge(newest, oldest))
    assert message.versions == Versions(0, 5)
    assert names(message) == ["a", "b", "c", "name"]
    assert message.root.fields[1].versions == Versions(0, 0)
    assert message.root.fields[3].versions == Versions(0, 4)
    assert message.root.fields[3].ignorable


def test_dropped_api_comes_from_the_older_release() -> None:
    oldest = schema([field("A")])
    assert merge(schema([], validVersions="none"), oldest) is oldest


def test_effective_versions_intersect_those_of_all_parents() -> None:
    inner = field("Inner", "[]Part", "2+", fields=[field("X"), field("Y", versions="4+")])
    message = load(schema([inner]))
    (part,) = message.structs
    assert part.versions == Versions(2, 5)
    assert [item.versions for item in part.fields] == [Versions(2, 5), Versions(4, 5)]


def test_schemas_without_a_size_bound_are_rejected() -> None:
    empty = field("Parts", "[]Part", fields=[field("X", versions="1+")])
    with pytest.raises(ValueError, match="Part takes no bytes in version 0"):
        load(schema([empty]))
    nested = schema(
        [field("Parts", "[]Part")],
        commonStructs=[{"name": "Part", "versions": "0+", "fields": [field("Parts", "[]Part")]}],
    )
    with pytest.raises(ValueError, match="Part contains itself"):
        load(nested)


@pytest.mark.parametrize(
    ("versions", "condition", "negation"),
    [
        (Versions(0, 5), "", None),
        (Versions(2, 5), "version >= 2", "version < 2"),
        (Versions(0, 3), "version <= 3", "version > 3"),
        (Versions(2, 3), "2 <= version <= 3", "not 2 <= version <= 3"),
        (Versions(0, 0), "version == 0", "version > 0"),
    ],
)
def test_conditions(versions: Versions, condition: str, negation: str | None) -> None:
    within = Versions(0, 5)
    assert types.condition(versions, within) == condition
    if negation is not None:
        assert types.negation(versions, within) == negation


def test_ambiguous_struct_name_is_prefixed_by_the_message() -> None:
    request = load(schema([field("Parts", "[]Part", fields=[field("X")])]))
    answer = schema(
        [
            field("Parts", "[]Part", fields=[field("Y")]),
            field("Same", "[]Same", fields=[field("Z")]),
        ],
        name="ThingResponse",
        type="response",
    )
    members = by_module([request, load(answer)])["thing"]
    source = emit_module(members)
    for name in ("ThingRequestPart(Struct)", "ThingResponsePart(Struct)", "Same(Struct)"):
        assert f"class {name}:" in source
    assert "ThingRequest.response = ThingResponse" in source
    compile(source, "thing.py", "exec")


def test_check_without_jars_fails_or_is_skipped_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_jars(release: str) -> Path:
        raise jars.JarsUnavailable("there is no Maven")

    monkeypatch.setattr(jars, "clients_jar", no_jars)
    monkeypatch.setattr("sys.argv", ["protocol_gen", "--check"])
    with pytest.raises(SystemExit, match="there is no Maven"):
        command.main()
    monkeypatch.setattr("sys.argv", ["protocol_gen", "--check", "--if-available"])
    assert command.main() == 0
    assert "SKIPPED" in capsys.readouterr().err


def test_stale_files_are_reported(tmp_path: Path) -> None:
    for folder, text in (("fresh", "new"), ("committed", "old")):
        (tmp_path / folder / "messages").mkdir(parents=True)
        (tmp_path / folder / "messages" / "a.py").write_text(text)
        (tmp_path / folder / "messages" / f"{folder}.py").write_text("")
    stale = command.compare(tmp_path / "fresh", tmp_path / "committed")
    assert stale == ["messages/a.py", "messages/committed.py", "messages/fresh.py"]
