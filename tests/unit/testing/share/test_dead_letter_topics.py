"""The topics that get the dead letters of share groups (KIP-1191)."""

import pytest

from aiokafka_lite.errors import InvalidConfigurationError
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.configs.group_configs import check_group_configs
from aiokafka_lite.testing.share.dead_letters import DeadLetters, Undeliverable
from aiokafka_lite.testing.topics import Topic
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch

ACCEPTS = {"errors.deadletterqueue.group.enable": "true"}
AUTO_CREATE = {"errors.deadletterqueue.auto.create.topics.enable": "true"}
COUNT = 4


@pytest.fixture
def letters(broker: SocketlessBroker) -> DeadLetters:
    topic = broker.state.create_topic("orders", 3)
    batch = memoryview(make_batch(*[(NOW_MS, b"k", b"v%d" % index) for index in range(COUNT)]))
    topic.partitions[2].append(batch, BatchHeader.read(batch), -1, NOW_MS)
    return DeadLetters(
        broker.state.topics,
        lambda name, configs: broker.state.create_topic(name, configs=configs),
        broker.state.broker_config,
        broker.clock,
    )


def archived(broker: SocketlessBroker, *, rejected: bool = True) -> Undeliverable:
    """Read all records of partition 2, after their third delivery."""
    partition = broker.state.topics["orders"].partitions[2]
    return Undeliverable("g", partition, 0, COUNT - 1, 3, rejected)


def values_in(topic: Topic, partition: int) -> list[bytes | None]:
    log = topic.partitions[partition].log
    found = []
    records = RecordSet(bytes(log.read(0, 2**20)), topic.name, partition, 0)
    while not records.exhausted:
        found += records.read(100)
    return [one.value for one in found]


def configure_brokers(broker: SocketlessBroker, **configs: str) -> None:
    broker.state.configure(ConfigResource.BROKER, "", configs)


def test_letters_keep_the_partition_modulo(broker: SocketlessBroker, letters: DeadLetters) -> None:
    topic = broker.state.create_topic("dlq.orders", 2, configs=ACCEPTS)
    assert letters.write("dlq.orders", archived(broker), copies=True)
    assert values_in(topic, 0) == [b"v0", b"v1", b"v2", b"v3"]
    assert not values_in(topic, 1)


@pytest.mark.parametrize(
    ("name", "configs"),
    [("orders.dlq", ACCEPTS), ("__dlq.orders", ACCEPTS), ("dlq.orders", {})],
    ids=["prefix", "internal", "closed"],
)
def test_topics_that_get_no_letters(
    broker: SocketlessBroker, letters: DeadLetters, name: str, configs: dict[str, str]
) -> None:
    topic = broker.state.create_topic(name, 1, configs=configs)
    assert not letters.write(name, archived(broker), copies=True)
    assert not values_in(topic, 0)


def test_another_prefix(broker: SocketlessBroker, letters: DeadLetters) -> None:
    topic = broker.state.create_topic("orders.dlq", 1, configs=ACCEPTS)
    for prefix, is_written in (("orders.", True), ("", True), ("x", False)):
        configure_brokers(broker, **{"errors.deadletterqueue.topic.name.prefix": prefix})
        assert letters.write("orders.dlq", archived(broker), copies=False) is is_written
    assert len(values_in(topic, 0)) == 2 * COUNT


def test_brokers_create_the_topic_only_if_they_may(
    broker: SocketlessBroker, letters: DeadLetters
) -> None:
    assert not letters.write("dlq.orders", archived(broker), copies=True)
    assert "dlq.orders" not in broker.state.topics
    configure_brokers(broker, **AUTO_CREATE, **{"num.partitions": "5"})
    assert letters.write("dlq.orders", archived(broker), copies=True)
    topic = broker.state.topics["dlq.orders"]
    assert len(topic.partitions) == 5
    assert topic.config("errors.deadletterqueue.group.enable") == "true"
    assert len(values_in(topic, 2)) == COUNT
    assert not letters.write("dlq.a b", archived(broker), copies=True)


def test_letters_are_split_at_the_size_of_a_batch(
    broker: SocketlessBroker, letters: DeadLetters
) -> None:
    topic = broker.state.create_topic(
        "dlq.orders", 1, configs={**ACCEPTS, "max.message.bytes": "500"}
    )
    assert letters.write("dlq.orders", archived(broker), copies=True)
    log = topic.partitions[0].log
    assert len(list(log.batches())) > 1
    assert values_in(topic, 0) == [b"v0", b"v1", b"v2", b"v3"]
    small = broker.state.create_topic(
        "dlq.small", 1, configs={**ACCEPTS, "max.message.bytes": "100"}
    )
    assert not letters.write("dlq.small", archived(broker), copies=True)
    assert not values_in(small, 0)


def test_a_groups_topic_must_not_have_the_name_of_an_internal_one(
    broker: SocketlessBroker,
) -> None:
    with pytest.raises(InvalidConfigurationError, match="must not start with '__'"):
        check_group_configs(
            {"errors.deadletterqueue.topic.name": "__letters"}, broker.state.broker_config
        )
