"""Metadata in every version: all topics or some, auto-created or not, by name or by id."""

from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.testing.configs.config_store import ConfigResource
from tests.unit.testing.raw import SocketlessBroker


def ask(broker: SocketlessBroker, version: int, *names: str, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return broker.ask(MetadataRequest(topics=topics, **fields), version)


@pytest.mark.parametrize("version", range(14))
def test_topics_and_brokers(three_brokers: SocketlessBroker, version: int) -> None:
    broker = three_brokers
    topic = broker.state.create_topic("orders", 4, 2)
    response = ask(broker, version, "orders")
    assert [(node.node_id, node.port) for node in response.brokers] == [
        (0, 9092),
        (1, 9093),
        (2, 9094),
    ]
    (told,) = response.topics
    assert (told.error_code, told.name) == (0, "orders")
    partitions = told.partitions
    assert [partition.leader_id for partition in partitions] == [0, 1, 2, 0]
    assert [partition.replica_nodes for partition in partitions][:3] == [[0, 1], [1, 2], [2, 0]]
    if version >= 2:
        assert response.cluster_id == broker.state.cluster_id
    if version >= 7:
        assert partitions[0].leader_epoch == 0
    if version >= 10:
        assert told.topic_id == topic.topic_id


def test_all_topics_or_none(broker: SocketlessBroker) -> None:
    for name in ("a", "b"):
        broker.state.create_topic(name)

    def names(version: int, topics: list[MetadataRequestTopic] | None) -> list[str]:
        response = broker.ask(MetadataRequest(topics=topics), version)
        return [topic.name for topic in response.topics]

    assert names(0, []) == ["a", "b"]
    assert names(1, []) == []
    assert names(1, None) == names(9, None) == ["a", "b"]


@pytest.mark.parametrize("version", [0, 4, 12])
def test_creates_requested_topics(broker: SocketlessBroker, version: int) -> None:
    broker.state.configs.replace(ConfigResource.BROKER, "", {"num.partitions": "3"})
    (first,) = ask(broker, version, "new").topics
    assert (first.error_code, first.partitions) == (3, [])  # as KRaft answers meanwhile
    (topic,) = ask(broker, version, "new").topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)


def test_a_topic_that_is_being_created_on_zookeeper() -> None:
    broker = SocketlessBroker(version="2.8")
    assert [ask(broker, 4, "new").topics[0].error_code for _ in range(2)] == [5, 0]


def test_creates_topics_only_if_client_and_broker_permit_it(broker: SocketlessBroker) -> None:
    (topic,) = ask(broker, 4, "new", allow_auto_topic_creation=False).topics
    assert topic.error_code == 3
    fixed = {"auto.create.topics.enable": "false"}
    broker.state.configs.replace(ConfigResource.BROKER, "", fixed)
    assert ask(broker, 4, "new").topics[0].error_code == 3
    assert not broker.state.topics


def test_an_invalid_name(broker: SocketlessBroker) -> None:
    assert ask(broker, 4, "a/b").topics[0].error_code == 17
    assert ask(broker, 4, "", allow_auto_topic_creation=False).topics[0].error_code == 17


def test_asked_twice(broker: SocketlessBroker) -> None:
    assert [topic.name for topic in ask(broker, 4, "a", "b", "a").topics] == ["a", "b"]


def test_by_id(broker: SocketlessBroker) -> None:
    known = broker.state.create_topic("orders")
    unknown = UUID(int=77)
    asked = [
        MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (known.topic_id, unknown)
    ]
    found, missing = broker.ask(MetadataRequest(topics=asked), 12).topics
    assert (found.name, found.topic_id, found.error_code) == ("orders", known.topic_id, 0)
    assert (missing.name, missing.topic_id, missing.error_code) == (None, unknown, 100)
    asked[0].name = ""
    assert broker.ask(MetadataRequest(topics=asked[:1]), 10).topics[0].error_code == 42


def test_a_dead_broker(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    broker.state.create_topic("single", 3, 1)
    broker.state.create_topic("double", 3, 2)
    broker.state.on_node_down(0)
    response = ask(broker, 7, "single", "double")
    assert [node.node_id for node in response.brokers] == [1, 2]
    assert response.controller_id == 1
    single, double = (topic.partitions[0] for topic in response.topics)
    assert (single.error_code, single.leader_id, single.offline_replicas) == (5, -1, [0])
    assert single.isr_nodes == []  # KIP-966: it is an eligible leader, but not in sync
    assert (double.error_code, double.leader_id, double.leader_epoch) == (0, 1, 1)
    assert (double.replica_nodes, double.isr_nodes) == ([0, 1], [1])

    broker.state.on_node_up(0)
    single, double = (topic.partitions[0] for topic in ask(broker, 7, "single", "double").topics)
    assert (single.error_code, single.leader_id, single.leader_epoch) == (0, 0, 2)
    assert (double.leader_id, double.isr_nodes) == (1, [0, 1])
