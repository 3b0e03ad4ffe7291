"""Every log line of a consumer begins with its client id and its group."""

import ast
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import aiokafka_lite.consumer
from aiokafka_lite.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.consumer_arguments import consumer_options

PACKAGE = Path(aiokafka_lite.consumer.__file__).parent
LEVELS = ("debug", "info", "warning", "error", "exception", "log")


def log_calls() -> Iterator[tuple[str, list[str]]]:
    """Each call of a logger: its location, and its literal and named arguments as source text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name == "commits":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "log"
                and node.func.attr in LEVELS
            ):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                arguments = node.args[1:] if node.func.attr == "log" else node.args
                yield where, [ast.unparse(each) for each in arguments]


def test_every_log_line_begins_with_the_name_of_the_consumer() -> None:
    calls = dict(log_calls())
    assert len(calls) > 15
    bad = {
        where: arguments
        for where, arguments in calls.items()
        if not (arguments[0].startswith("'%s: ") and arguments[1].endswith("log_name"))
    }
    assert not bad


@pytest.mark.parametrize(
    ("client_id", "group_id", "name"),
    [
        ("reader-1", None, "reader-1"),
        ("reader-1", "orders", "reader-1 (group orders)"),
        (None, None, "consumer"),
        ("", "orders", "consumer (group orders)"),
    ],
)
def test_the_name_is_the_client_id_and_the_group(
    client_id: str | None, group_id: str | None, name: str
) -> None:
    options: dict[str, Any] = {
        name: parameter.default
        for name, parameter in signature(AIOKafkaConsumer).parameters.items()
        if name in signature(consumer_options).parameters
    }
    options.update(client_id=client_id, group_id=group_id)
    assert consumer_options(**options).log_name == name
