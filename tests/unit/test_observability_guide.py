"""Every Python block of docs/observability.md runs unchanged, and its rows match the log."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiokafka_lite
from tests.unit.guides import Guide

GUIDE = Guide("observability.md")
PACKAGE = Path(aiokafka_lite.__file__).parent


def test_there_are_no_other_blocks() -> None:
    GUIDE.check_blocks("yaml", "bash")


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)


LOGGED = tuple(
    f"{name}.{level}"
    for name in ("log", "_log", "logger")
    for level in ("warning", "error", "exception", "critical")
)
PLACEHOLDER = re.compile(r"\.\.\.|'[^' ]*X'|\b(?:KAFKA_DATA_LOSS\.CONDITION|T/0|N|M|T|X)\b")


def patterns(section: str) -> list[re.Pattern[str]]:
    """The messages in the first column of a section's table; "...", N, T and X are placeholders."""
    _, found, rest = GUIDE.text.partition(f"\n### {section}\n")
    assert found, section
    rest, _, _ = rest.partition("\n#")
    cells = [line.split("|")[1] for line in rest.splitlines() if line.startswith("| `")]
    texts = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    return [
        re.compile(".*".join(re.escape(each) for each in PLACEHOLDER.split(text))) for text in texts
    ]


def literal(node: ast.expr) -> str:
    """The text of a string, with "%" in place of each non-literal part."""
    if isinstance(node, ast.Constant):
        return re.sub(r"%[sdrg]", "%", str(node.value))
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(each) for each in node.values)
    return "%"


def calls(folder: str, names: tuple[str, ...], argument: int) -> Iterator[tuple[str, str]]:
    """The location of each call of one of these functions, and the text of an argument."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and len(node.args) > argument
                and ast.unparse(node.func) in names
            ):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                yield where, literal(node.args[argument])


def test_each_warning_of_spark_has_a_row() -> None:
    rows = patterns("Log messages of Spark")
    logged = dict(calls("spark", LOGGED, 0))
    assert len(logged) > 10
    missing = {
        where: text for where, text in logged.items() if not any(each.search(text) for each in rows)
    }
    assert not missing
    unused = [each.pattern for each in rows if not any(map(each.search, logged.values()))]
    assert not unused


def test_each_problem_of_the_command_line_has_a_row() -> None:
    """Exceptions are omitted: each has its own message."""
    rows = patterns("Messages of the command line")
    texts = dict(calls("cli", ("complain",), 1))
    said = {where: text for where, text in texts.items() if text.strip("%")}
    assert len(said) > 8
    missing = {
        where: text for where, text in said.items() if not any(each.search(text) for each in rows)
    }
    assert not missing
