"""Creating, deleting and listing topics."""

import logging
from typing import Any
from uuid import UUID, uuid4

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka_lite.errors import (
    IllegalArgumentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NotControllerError,
    PolicyViolationError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried


async def test_topics_are_created_as_described(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    result = await admin.create_topics(
        [
            NewTopic("plain", 4, 3),
            NewTopic("placed", -1, -1, {0: [2, 1], 1: [0, 2]}),
            NewTopic("configured", 1, 1, topic_configs={"retention.ms": 1000}),
            NewTopic("defaults"),
        ]
    )
    created = result.raise_for_errors()
    assert created["plain"].num_partitions == 4
    assert created["plain"].replication_factor == 3
    assert isinstance(created["plain"].topic_id, UUID)
    assert brokers.partition("placed", 1).replicas == [0, 2]
    configs = created["configured"].configs
    assert configs is not None
    assert configs["retention.ms"].value == "1000"
    assert configs["retention.ms"].source == 1
    assert created["defaults"].num_partitions == 1
    assert result.topic_errors == [
        (name, 0, None) for name in ("plain", "placed", "configured", "defaults")
    ]
    assert result.to_object()["topic_errors"][0] == {
        "topic": "plain",
        "error_code": 0,
        "error_message": None,
    }
    assert {"plain", "placed", "configured", "defaults"} <= set(await admin.list_topics())


async def test_item_errors_are_returned_and_logged(
    admin: AIOKafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        result = await admin.create_topics(
            [NewTopic("orders", 1, 1), NewTopic("new", 1, 1), NewTopic("wide", 1, 9)]
        )
    assert set(result.valid()) == {"new"}
    assert isinstance(result["orders"], TopicAlreadyExistsError)
    assert isinstance(result["wide"], InvalidReplicationFactorError)
    for topic, code, *message in result.topic_errors:  # as applications of aiokafka do
        if code:
            assert isinstance(result[topic], for_code(code))
            assert message[0]
            assert str(result[topic]).endswith(message[0])
    assert "create_topics: [Error 36] TopicAlreadyExistsError: topic 'orders'" in caplog.text
    assert "'new'" not in caplog.text
    with pytest.raises(TopicAlreadyExistsError) as raised:
        result.raise_for_errors()
    assert "InvalidReplicationFactorError" in raised.value.__notes__[0]


async def test_raise_errors_raises_item_errors(
    admin: AIOKafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        await admin.create_topics([NewTopic("orders", 1, 1)], raise_errors=True)
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.delete_topics(["none"], raise_errors=True)
    assert not caplog.records


async def test_validate_only_creates_nothing(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    result = await admin.create_topics([NewTopic("new", 2, 1)], validate_only=True)
    assert "new" in result.valid()
    assert "new" not in await admin.list_topics()


async def test_no_topics_send_no_request(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    assert dict(await admin.create_topics([])) == {}
    assert dict(await admin.delete_topics([])) == {}
    assert brokers.count(ApiKey.CREATE_TOPICS) == brokers.count(ApiKey.DELETE_TOPICS) == 0


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda: NewTopic("a", 0, 1), IllegalArgumentError),
        (lambda: NewTopic("a", -2, 1), IllegalArgumentError),
        (lambda: NewTopic("a", 1, 2**15), IllegalArgumentError),
        (lambda: NewTopic("a", 2, 1, {0: [0]}), IllegalArgumentError),
        (lambda: NewTopic("a", -1, -1, {0: [-1]}), IllegalArgumentError),
        (lambda: NewTopic("a" * 40_000, 1, 1), InvalidTopicError),
        (lambda: NewTopic(7, 1, 1), TypeError),
        (lambda: NewTopic("a", "1", 1), TypeError),
        (lambda: NewTopic("a", 1, 1, topic_configs=["retention.ms"]), TypeError),
    ],
)
def test_a_bad_new_topic_is_refused(bad: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        bad()


async def test_bad_arguments_are_refused_before_a_request_is_sent(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    before = len(brokers.requests)
    with pytest.raises(IllegalArgumentError, match="'a' is in new_topics twice"):
        await admin.create_topics([NewTopic("a", 1, 1), NewTopic("a", 2, 1)])
    with pytest.raises(TypeError, match="NewTopic"):
        await admin.create_topics(["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="validate_only"):
        await admin.create_topics([], validate_only=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="collection of names"):
        await admin.delete_topics("orders")
    with pytest.raises(ValueError, match="timeout_ms"):
        await admin.delete_topics(["orders"], timeout_ms=-1)
    assert len(brokers.requests) == before


async def test_topics_are_deleted_by_name_and_by_id(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    listed = await admin.list_topics(typed=True)
    topic_id = listed["payments"].topic_id
    assert topic_id is not None
    unknown = uuid4()
    result = await admin.delete_topics(["orders", topic_id, unknown, "none"])
    assert result["orders"] is None
    assert result[topic_id] is None
    assert isinstance(result[unknown], UnknownTopicIdError)
    assert isinstance(result["none"], UnknownTopicOrPartitionError)
    assert result.topic_error_codes == [
        ("orders", 0),
        (str(topic_id), 0),
        (str(unknown), UnknownTopicIdError.errno),
        ("none", UnknownTopicOrPartitionError.errno),
    ]
    assert await admin.list_topics() == []


async def test_deleting_by_id_needs_a_newer_broker() -> None:
    async with (
        FakeCluster(1, ["a"], version="2.7") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(
            UnsupportedVersionError, match=r"Deleting topics by id requires Kafka 2\.8 or newer"
        ):
            await admin.delete_topics([uuid4()])
        assert (await admin.delete_topics(["a"]))["a"] is None


async def test_only_throttled_topics_are_retried(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(
        ApiKey.CREATE_TOPICS, error=ThrottlingQuotaExceededError, partitions=[("slow", None)]
    )
    result = await admin.create_topics([NewTopic("slow", 1, 1), NewTopic("quick", 1, 1)])
    result.raise_for_errors()
    asked = [
        [topic.name for topic in seen.body.topics]
        for seen in brokers.requests
        if seen.api_key == ApiKey.CREATE_TOPICS
    ]
    assert asked == [["slow", "quick"], ["slow"]]


async def test_a_quota_that_lasts_is_the_topics_error(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    fault = brokers.control(
        ApiKey.CREATE_TOPICS,
        error=ThrottlingQuotaExceededError,
        partitions=[("slow", None)],
        times=None,
    )
    result = await admin.create_topics(
        [NewTopic("slow", 1, 1), NewTopic("quick", 1, 1)], timeout_ms=300
    )
    assert isinstance(result["slow"], ThrottlingQuotaExceededError)
    assert "quick" in result.valid()
    assert fault.hits > 1
    hits = fault.hits
    result = await admin.create_topics([NewTopic("slow", 1, 1)], retry_on_quota_violation=False)
    assert isinstance(result["slow"], ThrottlingQuotaExceededError)
    assert fault.hits == hits + 1


@pytest.mark.parametrize(
    ("api", "call"),
    [
        (
            ApiKey.CREATE_TOPICS,
            lambda admin, **o: admin.create_topics([NewTopic("new", 1, 1)], **o),
        ),
        (ApiKey.DELETE_TOPICS, lambda admin, **o: admin.delete_topics(["orders"], **o)),
        (
            ApiKey.CREATE_PARTITIONS,
            lambda admin, **o: admin.create_partitions({"orders": NewPartitions(9)}, **o),
        ),
    ],
)
async def test_the_error_of_a_quota_says_how_long_the_broker_throttles(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, api: ApiKey, call: Any
) -> None:
    def throttle(response: Any) -> None:
        response.throttle_time_ms = 700

    brokers.control(api, error=ThrottlingQuotaExceededError, edit=throttle, after_handling=True)
    result = await call(admin, retry_on_quota_violation=False, raise_errors=False)
    [error] = result.errors().values()
    assert isinstance(error, ThrottlingQuotaExceededError)
    assert error.throttle_time_ms == 700
    with pytest.raises(ThrottlingQuotaExceededError) as caught:
        result.raise_for_errors()  # a copy
    assert caught.value.throttle_time_ms == 700


async def test_a_quota_that_throttles_beyond_the_deadline_is_the_topics_error(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def throttle(response: Any) -> None:
        response.throttle_time_ms = 30_000

    brokers.control(
        ApiKey.CREATE_TOPICS,
        error=ThrottlingQuotaExceededError,
        edit=throttle,
        after_handling=True,
    )
    result = await admin.create_topics([NewTopic("slow", 1, 1)], timeout_ms=500)
    error = result["slow"]
    assert isinstance(error, ThrottlingQuotaExceededError)
    assert error.throttle_time_ms == 30_000
    assert brokers.count(ApiKey.CREATE_TOPICS) == 1


async def test_the_controller_is_looked_up_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.CREATE_TOPICS, error=NotControllerError)
    before = brokers.count(ApiKey.METADATA)
    (await admin.create_topics([NewTopic("new", 1, 1)])).raise_for_errors()
    assert brokers.count(ApiKey.CREATE_TOPICS) == 2
    assert brokers.count(ApiKey.METADATA) > before


async def test_a_lost_response_is_mentioned_in_the_error_of_the_next_attempt(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.CREATE_TOPICS, after_handling=True, disconnect=True)
    result = await admin.create_topics([NewTopic("new", 1, 1)])
    with pytest.raises(TopicAlreadyExistsError, match="an earlier attempt of this call got no"):
        result.raise_for_errors()
    [error] = result.topic_errors
    assert "an earlier attempt of this call" in (error.error_message or "")

    brokers.control(ApiKey.CREATE_PARTITIONS, after_handling=True, disconnect=True)
    grown = await admin.create_partitions({"new": NewPartitions(2)}, raise_errors=False)
    [error] = grown.topic_errors
    assert "may have added it" in (error.error_message or "")


async def test_a_topic_missing_from_the_response_fails(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(
        ApiKey.CREATE_TOPICS, after_handling=True, edit=lambda response: response.topics.pop()
    )
    result = await admin.create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)])
    assert "a" in result.valid()
    assert isinstance(result["b"], KafkaProtocolError)
    assert result.topic_errors[1][:2] == ("b", -1)


@pytest.mark.parametrize("error", [PolicyViolationError, TopicAuthorizationFailedError])
async def test_other_errors_are_final(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, error: type[Exception]
) -> None:
    brokers.control(
        ApiKey.CREATE_TOPICS,
        after_handling=True,
        edit=lambda response: [
            (
                setattr(each, "error_code", error.errno),  # type: ignore[attr-defined]
                setattr(each, "error_message", "the policy's words"),
            )
            for each in response.topics
        ],
    )
    result = await admin.create_topics([NewTopic("a", 1, 1)])
    assert brokers.count(ApiKey.CREATE_TOPICS) == 1
    with pytest.raises(error, match="topic 'a': the policy's words"):
        result.raise_for_errors()


async def test_silent_brokers_end_the_call_at_its_deadline(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.CREATE_TOPICS, drop=True, times=None)
    with pytest.raises(KafkaTimeoutError, match="CreateTopics timed out"):
        await admin.create_topics([NewTopic("a", 1, 1)], timeout_ms=200)


async def test_the_broker_gets_the_time_that_remains(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    await admin.create_topics([NewTopic("a", 1, 1)], timeout_ms=5000)
    await admin.create_topics([NewTopic("b", 1, 1)])
    asked = [
        seen.body.timeout_ms for seen in brokers.requests if seen.api_key == ApiKey.CREATE_TOPICS
    ]
    assert 0 < asked[0] <= 5000
    assert 5000 < asked[1] <= 40_000  # within one response's time


async def test_internal_topics_are_listed_on_request(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.create_topic("__consumer_offsets")
    assert set(await admin.list_topics()) == {"orders", "payments", "__consumer_offsets"}
    assert set(await admin.list_topics(list_internal=False)) == {"orders", "payments"}
    listed = await admin.list_topics(typed=True)
    assert listed["__consumer_offsets"].is_internal
    assert not listed["orders"].is_internal


async def test_old_brokers_without_defaults_are_named() -> None:
    async with (
        FakeCluster(1, version="2.3") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"\(-1\) requires Kafka 2\.4 or newer"):
            await admin.create_topics([NewTopic("a")])
        created = (await admin.create_topics([NewTopic("a", 2, 1)])).value("a")
        assert (created.topic_id, created.num_partitions, created.configs) == (None, None, None)
        assert (await admin.list_topics(typed=True))["a"].topic_id is None
