"""Signatures and fields compared with the installed aiokafka: none is missing or misplaced."""

import re
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from inspect import Parameter, iscoroutinefunction, signature
from pathlib import Path
from typing import Any

import pytest

import aiokafka_lite
from aiokafka_lite import abc, structs
from aiokafka_lite.net.connection_arguments import connection_options

aiokafka: Any = pytest.importorskip("aiokafka", reason="the interop extra is not installed")

OURS = {
    "batches",
    "client",
    "client_instance_id",
    "enforce_rebalance",
    "group_metadata",
    "health",
    "metrics",
    "node_metrics",
    "partition_metrics",
    "register_metric_for_subscription",
    "unregister_metric_from_subscription",
}
"""Methods and properties of the consumer that are not in aiokafka; the docs mark each."""

OUR_ARGUMENTS = {
    "allow_auto_create_topics",
    "bootstrap_timeout_ms",
    "buffer_memory",
    "default_api_timeout_ms",
    "enable_metrics_push",
    "group_protocol",
    "group_remote_assignor",
    "interceptors",
    "receive_buffer_bytes",
    "reconnect_backoff_max_ms",
    "reconnect_backoff_ms",
    "retry_backoff_max_ms",
    "send_buffer_bytes",
    "socket_connection_setup_timeout_max_ms",
    "socket_connection_setup_timeout_ms",
}

CONNECTION_ARGUMENTS = set(signature(connection_options).parameters)
"""All clients have these; the pages on security and options describe those that aiokafka lacks."""

OTHER_DEFAULTS = {"client_id", "partition_assignment_strategy"}
"""Its version, and a class that only aiokafka exports."""

OUR_KEYWORDS = {"stop": {"leave_group"}}
"""Keyword arguments of methods that aiokafka has without them."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def shape(function: Callable[..., object]) -> list[tuple[str, Any, object]]:
    """Names, kinds and defaults of arguments."""
    return [(p.name, p.kind, p.default) for p in signature(function).parameters.values()]


def test_methods_of_the_consumer() -> None:
    theirs, ours = aiokafka.AIOKafkaConsumer, aiokafka_lite.AIOKafkaConsumer
    assert public(ours) - public(theirs) == OURS
    assert public(theirs) <= public(ours)
    for name in sorted(public(theirs)):
        method, known = getattr(ours, name), getattr(theirs, name)
        ours_only = OUR_KEYWORDS.get(name, set())
        assert [argument for argument in shape(method) if argument[0] not in ours_only] == shape(
            known
        ), name
        assert iscoroutinefunction(method) == iscoroutinefunction(known), name
    for name in ("__aenter__", "__aexit__", "__aiter__", "__anext__", "__del__"):
        assert hasattr(ours, name), name


def test_arguments_of_the_consumer() -> None:
    theirs = signature(aiokafka.AIOKafkaConsumer).parameters
    ours = signature(aiokafka_lite.AIOKafkaConsumer).parameters
    added = ours.keys() - theirs.keys()
    assert added - CONNECTION_ARGUMENTS == OUR_ARGUMENTS - CONNECTION_ARGUMENTS | {"unknown"}
    for name, argument in theirs.items():
        assert ours[name].kind == argument.kind, name
        assert name in OTHER_DEFAULTS or ours[name].default == argument.default, name
    (strategy,) = ours["partition_assignment_strategy"].default
    assert [strategy.__name__] == [
        kind.__name__ for kind in theirs["partition_assignment_strategy"].default
    ]
    assert all(ours[name].kind is not Parameter.POSITIONAL_OR_KEYWORD for name in added)


def test_additions_to_aiokafka_are_in_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "consumer.md").read_text()
    names = set(re.findall(r"\b[a-z_]+\b", guide))
    assert not (OURS | OUR_ARGUMENTS) - names
    reference = (Path(__file__).parents[3] / "docs" / "reference.md").read_text()
    arguments = signature(aiokafka_lite.AIOKafkaConsumer).parameters.keys()
    missing = {name for name in arguments - {"topics", "unknown"} if f"`{name}`" not in reference}
    assert not missing


def test_listeners() -> None:
    theirs, ours = aiokafka.abc.ConsumerRebalanceListener, abc.ConsumerRebalanceListener
    assert public(ours) - public(theirs) == {"on_partitions_lost"}
    for name in public(theirs):
        assert shape(getattr(ours, name)) == shape(getattr(theirs, name)), name


@pytest.mark.parametrize(
    "name", ["TopicPartition", "OffsetAndTimestamp", "OffsetAndMetadata", "RecordMetadata"]
)
def test_pairs_and_tuples(name: str) -> None:
    theirs, ours = getattr(aiokafka.structs, name), getattr(structs, name)
    assert ours._fields == theirs._fields
    values = range(len(theirs._fields))
    assert tuple(ours(*values)) == tuple(theirs(*values))


def test_records() -> None:
    """Its fields, in the same order, as the constructor's arguments."""
    names = [field.name for field in fields(aiokafka.ConsumerRecord)]
    values: dict[str, Any] = {name: number for number, name in enumerate(names)}
    values |= {"topic": "t", "headers": (("h", b"v"),)}
    ours, theirs = structs.ConsumerRecord(**values), aiokafka.ConsumerRecord(**values)
    assert {name: getattr(ours, name) for name in names} == values
    assert ours == structs.ConsumerRecord(*values.values())
    assert (ours == theirs) is (theirs == ours)


@pytest.mark.parametrize(
    "module",
    [
        "range.RangePartitionAssignor",
        "roundrobin.RoundRobinPartitionAssignor",
        "sticky.sticky_assignor.StickyPartitionAssignor",
        "abstract.AbstractPartitionAssignor",
    ],
)
def test_assignors(module: str) -> None:
    path, _, name = module.rpartition(".")
    theirs: Any
    ours: Any
    theirs, ours = (
        getattr(import_module(f"{package}.coordinator.assignors.{path}"), name)
        for package in ("aiokafka", "aiokafka_lite")
    )
    for method in ("assign", "metadata", "on_assignment", "name"):
        assert hasattr(ours, method), method
        assert callable(getattr(theirs, method)) == callable(getattr(ours, method)), method
    for method in ("assign", "metadata", "on_assignment"):
        assert list(signature(getattr(ours, method)).parameters) == list(
            signature(getattr(theirs, method)).parameters
        ), method
    if name != "AbstractPartitionAssignor":
        assert ours.name == theirs.name
