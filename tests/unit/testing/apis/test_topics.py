"""CreateTopics and DeleteTopics in every version."""

from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.errors import for_code
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.unit.testing.raw import SocketlessBroker


def create(broker: SocketlessBroker, version: int, *topics: CreatableTopic, **fields: Any) -> Any:
    return broker.ask(CreateTopicsRequest(topics=list(topics), **fields), version).topics


@pytest.mark.parametrize("version", range(8))
def test_create(broker: SocketlessBroker, version: int) -> None:
    config = CreatableTopicConfig(name="max.message.bytes", value="2000")
    wanted = CreatableTopic(name="orders", num_partitions=3, replication_factor=1, configs=[config])
    (made,) = create(broker, version, wanted)
    topic = broker.state.topics["orders"]
    assert (made.name, made.error_code, made.error_message or None) == ("orders", 0, None)
    assert (len(topic.partitions), topic.max_message_bytes) == (3, 2000)
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        configs = {config.name: (config.value, config.config_source) for config in made.configs}
        assert configs["max.message.bytes"] == ("2000", 1)
        assert configs["cleanup.policy"] == ("delete", 5)
    if version >= 7:
        assert made.topic_id == topic.topic_id


def test_only_validated(broker: SocketlessBroker) -> None:
    wanted = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1)
    assert create(broker, 4, wanted, validate_only=True)[0].error_code == 0
    assert not broker.state.topics


def test_assigned_replicas(three_brokers: SocketlessBroker) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=1, broker_ids=[0, 2]),
        CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 1]),
    ]
    wanted = CreatableTopic(
        name="orders", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    assert create(three_brokers, 5, wanted)[0].error_code == 0
    partitions = three_brokers.state.topics["orders"].partitions
    assert [partition.replicas for partition in partitions] == [[2, 1], [0, 2]]


def assigned(*assignments: tuple[int, list[int]], **fields: Any) -> CreatableTopic:
    return CreatableTopic(
        name="orders",
        **{"num_partitions": -1, "replication_factor": -1, **fields},
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in assignments
        ],
    )


def plain(name: str = "orders", partitions: int = 1, factor: int = 1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (plain("there"), "TOPIC_ALREADY_EXISTS"),
        (plain("a_b"), "INVALID_TOPIC_EXCEPTION"),
        (plain(".."), "INVALID_TOPIC_EXCEPTION"),
        (plain(""), "INVALID_TOPIC_EXCEPTION"),
        (plain("x" * 250), "INVALID_TOPIC_EXCEPTION"),
        (plain("a b"), "INVALID_TOPIC_EXCEPTION"),
        (plain(partitions=0), "INVALID_PARTITIONS"),
        (plain(partitions=-2), "INVALID_PARTITIONS"),
        (plain(factor=0), "INVALID_REPLICATION_FACTOR"),
        (plain(factor=4), "INVALID_REPLICATION_FACTOR"),
        (assigned((1, [0])), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, [0, 0])), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, [])), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, [0]), (1, [0, 1])), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, [7])), "INVALID_REPLICA_ASSIGNMENT"),
        (assigned((0, [0]), num_partitions=1), "INVALID_REQUEST"),
    ],
)
def test_refused(three_brokers: SocketlessBroker, topic: CreatableTopic, error: str) -> None:
    for name in ("there", "a.b"):
        three_brokers.state.create_topic(name)
    refused = create(three_brokers, 5, topic)[0]
    assert for_code(refused.error_code).message == error
    assert refused.error_message
    assert set(three_brokers.state.topics) == {"there", "a.b"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.thing", "1"),
        ("cleanup.policy", "burn"),
        ("max.message.bytes", "many"),
        ("min.insync.replicas", "0"),
        ("max.message.bytes", None),
    ],
)
def test_a_configuration_that_kafka_refuses(
    broker: SocketlessBroker, name: str, value: str | None
) -> None:
    topic = plain()
    topic.configs = [CreatableTopicConfig(name=name, value=value)]
    assert create(broker, 5, topic)[0].error_code == 40


def test_named_twice(broker: SocketlessBroker) -> None:
    (answer,) = create(broker, 5, plain(), plain())
    assert answer.error_code == 42
    assert not broker.state.topics


@pytest.mark.parametrize("version", range(7))
def test_delete(broker: SocketlessBroker, version: int) -> None:
    old = broker.state.create_topic("orders")
    request = (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="orders"), DeleteTopicState(name="none")])
        if version >= 6
        else DeleteTopicsRequest(topic_names=["orders", "none"])
    )
    gone, unknown = broker.ask(request, version).responses
    assert (gone.name, gone.error_code) == ("orders", 0)
    assert (unknown.name, unknown.error_code) == ("none", 3)
    assert not broker.state.topics
    assert broker.state.create_topic("orders").topic_id != old.topic_id


def test_delete_by_id(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders")
    wanted = [
        DeleteTopicState(topic_id=topic.topic_id),
        DeleteTopicState(topic_id=UUID(int=9)),
        DeleteTopicState(),
        DeleteTopicState(name="orders", topic_id=topic.topic_id),
    ]
    answers = broker.ask(DeleteTopicsRequest(topics=wanted), 6).responses
    assert [answer.error_code for answer in answers] == [0, 100, 42, 42]
    assert answers[0].name == "orders"


def test_delete_twice(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders")
    (answer,) = broker.ask(DeleteTopicsRequest(topic_names=["orders", "orders"]), 4).responses
    assert answer.error_code == 42
    assert "orders" in broker.state.topics
