"""A client without permissions changes nothing and learns nothing, in every API."""

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.protocol.framing import encode_request
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.registry import ApiKey, request_class
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.context import CloseConnection, Delayed
from aiokafka_lite.testing.security.authorizer import Authorizer
from tests.fuzz.request_maker import RequestMaker
from tests.unit.testing.raw import SocketlessBroker, make_batch

SECRETS = (b"z-topic", b"z-group", b"z-transaction", b"z-value", b"z-metadata", b"z-member")
NAMES = {
    **dict.fromkeys(("group_id", "group", "groups"), ("z-group", "z-classic")),
    **dict.fromkeys(("transactional_id", "transactional_ids"), ("z-transaction",)),
    **dict.fromkeys(("name", "topic", "topic_name", "topic_names"), ("z-topic", "open")),
    **dict.fromkeys(("key", "coordinator_keys"), ("z-group", "z-transaction")),
    "member_id": ("z-member", ""),
}
PARTS = (
    *("topics", "topics_by_id", "configs", "features", "groups", "transactions", "quotas"),
    *("users", "authorizer", "nodes", "broker_config"),
)


@pytest.fixture
def secret(broker: SocketlessBroker) -> SocketlessBroker:
    for name in ("z-topic", "open"):
        broker.state.create_topic(name, 2)
    data = PartitionProduceData(0, make_batch((1, b"z-value", None)))
    broker.ask(ProduceRequest(None, -1, 5, [TopicProduceData("z-topic", partition_data=[data])]), 9)
    offset = OffsetCommitRequestPartition(0, 1, committed_metadata="z-metadata")
    topic = OffsetCommitRequestTopic("z-topic", partitions=[offset])
    broker.ask(OffsetCommitRequest("z-classic", topics=[topic]), 8)
    joining = ConsumerGroupHeartbeatRequest("z-group", "z-member", topic_partitions=[])
    joining.rebalance_timeout_ms, joining.subscribed_topic_names = 60_000, ["z-topic"]
    assert broker.ask(joining, 1).error_code == 0
    assert broker.ask(InitProducerIdRequest("z-transaction", 60_000), 4).error_code == 0
    broker.state.authorizer = Authorizer()
    return broker


def facts(thing: Any, seen: set[int], path: str = "") -> Iterator[tuple[str, object]]:
    """All values reachable from an object of the broker."""
    if isinstance(thing, int | float | str | bytes | bytearray | UUID | None):
        yield path, thing
    elif isinstance(thing, set | frozenset):
        yield path, sorted(map(repr, thing))
    elif id(thing) not in seen:
        seen.add(id(thing))
        if isinstance(thing, dict):
            parts = list(thing.items())
        elif isinstance(thing, list | tuple):
            parts = list(enumerate(thing))
        elif type(thing).__module__.startswith("aiokafka_lite"):
            names = [
                name for kind in type(thing).__mro__ for name in vars(kind).get("__slots__", ())
            ]
            parts = [(name, getattr(thing, name)) for name in names if hasattr(thing, name)]
            parts += list(vars(thing).items()) if hasattr(thing, "__dict__") else []
        else:
            parts = []
        for name, part in parts:
            yield from facts(part, seen, f"{path}.{name}")


def everything(broker: SocketlessBroker) -> list[tuple[str, object]]:
    seen = {id(broker.state), id(broker.clock)}
    return [fact for part in PARTS for fact in facts(getattr(broker.state, part), seen, part)]


@pytest.mark.parametrize("api_key", sorted(SERVED), ids=lambda key: ApiKey(key).name)
def test_requests_without_rights_change_and_reveal_nothing(
    secret: SocketlessBroker, api_key: int
) -> None:
    ids = [topic.topic_id for topic in secret.state.topics.values()]
    maker = RequestMaker(Random(api_key), 0.02, NAMES)
    maker.learn_value("topic_id", *ids)
    secret.session.principal = "User:mallory"
    before = everything(secret)
    first, last = SERVED[api_key]
    for version in [*range(first, last + 1)] * 4:
        request = maker.request(request_class(api_key), version)
        frame = bytes(encode_request(request, version, 7, "c"))[4:]
        try:
            exchange = secret.dispatchers[0].receive(frame, secret.session, 0.0)
            answer = exchange.handle()
        except CloseConnection:
            answer = None
        if isinstance(answer, Delayed):
            answer = answer.take_now()
        told = b"" if answer is None else bytes(exchange.encode(answer))
        hidden = (*SECRETS, *(topic_id.bytes for topic_id in ids))
        leaked = [word for word in hidden if word in told and word not in frame]
        assert leaked == [], (request, version, answer)
        assert everything(secret) == before, (request, version, answer)


def test_a_topic_by_its_id_is_not_named(secret: SocketlessBroker) -> None:
    topic_id = secret.state.topics["z-topic"].topic_id
    data = [TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(0, b"")])]
    (answer,) = secret.ask(ProduceRequest(None, -1, 5, data), 13).responses
    (refused,) = answer.partition_responses
    assert refused.error_code == 29
    assert "z-topic" not in refused.error_message


def test_a_topic_named_twice_does_not_reveal_its_id(secret: SocketlessBroker) -> None:
    twice = [DeleteTopicState("z-topic"), DeleteTopicState("z-topic")]
    (answer,) = secret.ask(DeleteTopicsRequest(twice), 6).responses
    assert (answer.error_code, answer.topic_id) == (42, UUID(int=0))
