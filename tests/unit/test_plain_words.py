"""The prose that users see avoids words that read as translated; each has a plain replacement.

Checked are the texts of raised errors, log lines, command-line help, docstrings of public objects,
README.md and the pages of docs/. CONTRIBUTING.md, "Prose", has examples.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]

WORDS: Final = (
    (r"\btells\b|\b(?:is|are|was|were|be|been|being) told\b", "reports, returns, raises"),
    (r"\bwho(?:ever|m|mever)\b", "the caller, the member, the client"),
    (r"\b(?:no|some|every)body\b", "no caller, another member, all clients"),
    (r"\(ours\)|\b(?:of|is|are) ours\b", '"Not in aiokafka", or the subject by name'),
    (r"\bis through\b|\bare through\b", "has completed, has returned"),
    (r"\bheirs?\b", "subclass"),
    (r"\A\s*Whether ", "True if ..."),
    (r"\b(?:can|cannot|could|to) be had\b", "is available"),
    (r"\bpassing errors?\b|\bwhat passes\b", "retriable error"),
    (r"\bmember no more\b|\bno more a\b", "no longer"),
    (r"\bnot done in time\b", "timed out"),
    (r"\bmistakes? of (?:ours|its|a)\b", "a bug in ..."),
    (r"\bgoes on\b|\bwent on\b", "continues"),
    (r"\bof (?:its|their|one's) own choice\b", "manually assigned"),
    (r"\bexcludes? each other\b", "cannot be combined"),
    (r"\bfor ever\b", "forever"),
    (r"\bthe begin of\b", "the start of"),
)
"""Pattern and replacement. The patterns match case-insensitively, except where they anchor."""

LOGGERS: Final = ("debug", "info", "warning", "error", "exception", "critical", "log")
HELP: Final = ("help", "description", "epilog")


class Text(NamedTuple):
    """A text that users see, with its place."""

    path: str
    line: int
    text: str


def modules() -> Iterator[Path]:
    for path in sorted((ROOT / "aiokafka_lite").rglob("*.py")):
        generated = path.parent.name == "messages" and path.parent.parent.name == "protocol"
        if not generated:
            yield path
    yield ROOT / "pytest_aiokafka_lite.py"
    yield ROOT / "pyspark_aiokafka_lite.py"


def literals(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The string constants in an expression, including the parts of f-strings."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.lineno, part.value


def is_error(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    return name.endswith(("Error", "Exception", "Warning", "Exit"))


def is_log(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in LOGGERS
        and ast.unparse(function.value).rpartition(".")[2] in ("log", "_log", "logger")
    )


def is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


def docstrings(node: ast.AST, *, public: bool = True) -> Iterator[tuple[int, str]]:
    """Docstrings of public modules, classes and functions, and of public attributes."""
    body: list[ast.stmt] = getattr(node, "body", [])
    for before, statement in zip([None, *body], body, strict=False):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if is_public(statement.name):
                yield from docstrings(statement)
            continue
        text = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
            continue
        target = before.target if isinstance(before, ast.AnnAssign) else None
        documented = before is None or (isinstance(target, ast.Name) and is_public(target.id))
        if documented:
            yield text.lineno, text.value


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    yield from docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from literals(node.exc)
        elif isinstance(node, ast.Call):
            if is_error(node) or is_log(node):
                yield from literals(node)
            for keyword in node.keywords:
                if keyword.arg in HELP:
                    yield from literals(keyword.value)


def texts() -> Iterator[Text]:
    for path in modules():
        for line, text in python_texts(path.read_text()):
            yield Text(str(path.relative_to(ROOT)), line, text)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield Text(str(path.relative_to(ROOT)), 1, path.read_text())


def findings(text: Text) -> Iterator[str]:
    for pattern, instead in WORDS:
        for found in re.finditer(pattern, text.text, re.IGNORECASE):
            line = text.line + text.text.count("\n", 0, found.start())
            words = " ".join(found[0].split())
            if words.isupper():
                continue  # the name of a constant
            yield f"{text.path}:{line}: {words!r}: better: {instead}"


def test_user_visible_text_uses_plain_words() -> None:
    found = {finding for text in texts() for finding in findings(text)}
    assert not found, "\n".join(sorted(found))


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError(f"{name} was told twice")',
        'future.set_exception(KafkaError("nobody answers"))',
        'log.warning("%s: it goes on", name)',
        'add("--x", help="whoever may")',
        '"""A thing that tells it."""',
        'class A:\n    """Whether it is open."""',
        'class A:\n    x: int\n    """Known to whom."""',
        'def f():\n    """(ours)"""',
    ],
)
def test_each_kind_of_text_is_checked(source: str) -> None:
    found = [text for _, text in python_texts(source)]
    assert any(list(findings(Text("x.py", 1, text))) for text in found), found


@pytest.mark.parametrize(
    "source",
    [
        'def _f():\n    """Nobody calls it."""',
        'x = "nobody"',
        'raise ValueError("the group has no members")',
        '"""True if more records exist."""',
    ],
)
def test_other_text_is_not_checked(source: str) -> None:
    for _, text in python_texts(source):
        assert not list(findings(Text("x.py", 1, text)))
