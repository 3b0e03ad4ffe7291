"""Creates and deletes topics.

Source: CreateTopicsRequest.json v0-v7, DeleteTopicsRequest.json v0-v6, KIP-4, KIP-464, KIP-516,
KIP-525, KIP-599.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from aiokafka_lite._arguments import topic_name
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import (
    code_of,
    message_of,
    only_controller_errors,
    perhaps_ours,
    report,
)
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.new_topic import NewTopic
from aiokafka_lite.cluster.retry import CONTROLLER
from aiokafka_lite.errors import (
    IllegalArgumentError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from aiokafka_lite.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID

__all__ = [
    "CreateTopicsResult",
    "CreatedTopic",
    "CreatedTopicConfig",
    "DeleteTopicsResult",
    "TopicError",
    "TopicErrorCode",
    "create_topics",
    "delete_topics",
    "topics_by_name",
]

_DEFAULTS_FROM = 4
"""The version of CreateTopics that takes -1 for the broker's defaults (KIP-464)."""
_IDS_FROM = 6
"""The version of DeleteTopics that takes topic ids (KIP-516)."""


class TopicError(NamedTuple):
    """aiokafka's entry of `CreateTopicsResult.topic_errors`."""

    topic: str
    error_code: int
    """0: no error."""
    error_message: str | None


class TopicErrorCode(NamedTuple):
    """aiokafka's entry of `DeleteTopicsResult.topic_error_codes`."""

    topic: str
    error_code: int
    """0: no error."""


@dataclass(frozen=True, slots=True)
class CreatedTopicConfig:
    """A configuration of a topic that was created.

    Attributes:
        value: None if it is sensitive.
        source: Kafka's number of where the value comes from; 1: the topic's own, 5: Kafka's
            default.
    """

    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or that would have been (`validate_only`).

    Attributes:
        topic_id: None from brokers before 2.8, and with `validate_only`.
        num_partitions, replication_factor, configs: None from brokers before 2.4 (KIP-525), and if
            the client may not describe the topic's configurations.
    """

    name: str
    topic_id: UUID | None = None
    num_partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, CreatedTopicConfig] | None = field(default=None, repr=False)


class CreateTopicsResult(Results[str, CreatedTopic]):
    """The outcome of `create_topics` for each topic, with the attributes of aiokafka's response."""

    __slots__ = ("_messages", "throttle_time_ms")

    def __init__(
        self,
        outcomes: Mapping[str, CreatedTopic | KafkaError],
        messages: Mapping[str, str | None],
        throttle_time_ms: int,
    ) -> None:
        super().__init__(outcomes)
        self._messages = dict(messages)
        self.throttle_time_ms = throttle_time_ms

    @property
    def topic_errors(self) -> list[TopicError]:
        """(topic, error code, message) of each topic; the code is 0 for those without an error."""
        return [
            TopicError(topic, code_of(outcome), self._message(topic, outcome))
            for topic, outcome in self.items()
        ]

    def to_object(self) -> dict[str, Any]:
        """Return the outcome as nested dicts and lists, as in aiokafka."""
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "topic_errors": [each._asdict() for each in self.topic_errors],
        }

    def _message(self, topic: str, outcome: CreatedTopic | KafkaError) -> str | None:
        message = self._messages.get(topic)
        return message_of(outcome, _label(topic)) if message is None else message


class DeleteTopicsResult(Results["str | UUID", None]):
    """The outcome of `delete_topics` for each topic: None, or the error it failed with."""

    __slots__ = ("throttle_time_ms",)

    def __init__(
        self, outcomes: Mapping[str | UUID, KafkaError | None], throttle_time_ms: int
    ) -> None:
        super().__init__(outcomes)
        self.throttle_time_ms = throttle_time_ms

    @property
    def topic_error_codes(self) -> list[TopicErrorCode]:
        """(topic, error code) of each topic; the code is 0 for those without an error."""
        return [TopicErrorCode(str(topic), code_of(outcome)) for topic, outcome in self.items()]

    def to_object(self) -> dict[str, Any]:
        """Return the outcome as nested dicts and lists, as in aiokafka."""
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "topic_error_codes": [each._asdict() for each in self.topic_error_codes],
        }


async def create_topics(
    dispatcher: Dispatcher,
    new_topics: Iterable[NewTopic],
    timeout_ms: float | None,
    *,
    validate_only: bool,
    retry_on_quota_violation: bool,
    raise_errors: bool,
    quiet: bool = False,
) -> CreateTopicsResult:
    """See `AIOKafkaAdminClient.create_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    topics = topics_by_name(new_topics)
    oldest = 1 if validate_only else 0
    if any(_uses_defaults(topic) for topic in topics.values()):
        oldest = _DEFAULTS_FROM
    outcomes: Outcomes[str, CreatedTopic] = Outcomes(
        topics, _label, retriable=only_controller_errors(retry_on_quota_violation)
    )
    messages: dict[str, str | None] = {}
    throttled_ms = 0

    def build(version: int, names: list[str]) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            topics=[_creatable(topics[name]) for name in names],
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
            validate_only=validate_only,
        )

    def read(response: CreateTopicsResponse, outcomes: Outcomes[str, CreatedTopic]) -> None:
        nonlocal throttled_ms
        throttled_ms = response.throttle_time_ms
        for each in response.topics:
            messages[each.name] = message = each.error_message
            if not each.error_code:
                outcomes.on_value(each.name, _created(each))
                continue
            if each.error_code == TopicAlreadyExistsError.errno:
                message = perhaps_ours(outcomes, each.name, "created", message)
                messages[each.name] = message
            outcomes.on_code(each.name, each.error_code, message, throttle_time_ms=throttled_ms)

    settled = await dispatcher.settle(
        outcomes,
        CreateTopicsRequest,
        build,
        read,
        CONTROLLER,
        deadline,
        oldest=oldest,
        feature="Creating topics with the broker's default partitions or replicas (-1)"
        if oldest == _DEFAULTS_FROM
        else "validate_only",
    )
    result = CreateTopicsResult(settled, messages, throttled_ms)
    if not quiet:
        report(result, "create_topics", raise_errors)
    return result


async def delete_topics(
    dispatcher: Dispatcher,
    topics: Iterable[str | UUID],
    timeout_ms: float | None,
    *,
    retry_on_quota_violation: bool,
    raise_errors: bool,
) -> DeleteTopicsResult:
    """See `AIOKafkaAdminClient.delete_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = _names_or_ids(topics)
    by_id = any(isinstance(topic, UUID) for topic in wanted)
    outcomes: Outcomes[str | UUID, None] = Outcomes(
        wanted, _label, retriable=only_controller_errors(retry_on_quota_violation)
    )
    throttled_ms = 0

    def build(version: int, pending: list[str | UUID]) -> DeleteTopicsRequest:
        timeout = dispatcher.broker_timeout_ms(deadline)
        if version < _IDS_FROM:
            return DeleteTopicsRequest(
                topic_names=[str(each) for each in pending], timeout_ms=timeout
            )
        states = [
            DeleteTopicState(topic_id=each) if isinstance(each, UUID) else DeleteTopicState(each)
            for each in pending
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout)

    def read(response: DeleteTopicsResponse, outcomes: Outcomes[str | UUID, None]) -> None:
        nonlocal throttled_ms
        throttled_ms = response.throttle_time_ms
        for each in response.responses:
            # The response also has the name of a topic that was requested by id.
            topic: str | UUID | None = each.topic_id
            if topic == ZERO_UUID or not outcomes.is_pending(each.topic_id):
                topic = each.name
            if topic is None:
                continue
            if not each.error_code:
                outcomes.on_value(topic, None)
                continue
            message = each.error_message
            if each.error_code in _GONE:
                message = perhaps_ours(outcomes, topic, "deleted", message)
            outcomes.on_code(topic, each.error_code, message, throttle_time_ms=throttled_ms)

    settled = await dispatcher.settle(
        outcomes,
        DeleteTopicsRequest,
        build,
        read,
        CONTROLLER,
        deadline,
        oldest=_IDS_FROM if by_id else 0,
        feature="Deleting topics by id" if by_id else None,
    )
    result = DeleteTopicsResult(settled, throttled_ms)
    report(result, "delete_topics", raise_errors)
    return result


_GONE = (UnknownTopicOrPartitionError.errno, UnknownTopicIdError.errno)


def _label(topic: object) -> str:
    return f"topic {str(topic)!r}"


def topics_by_name(new_topics: Iterable[NewTopic]) -> dict[str, NewTopic]:
    """Check the topics to create.

    Raises:
        TypeError: An item is not a NewTopic.
        IllegalArgumentError: A name occurs twice.
    """
    topics: dict[str, NewTopic] = {}
    for topic in new_topics:
        if not isinstance(topic, NewTopic):
            raise TypeError(f"new_topics should be NewTopic objects, not {topic!r}")
        if topic.name in topics:
            raise IllegalArgumentError(f"topic {topic.name!r} is in new_topics twice")
        topics[topic.name] = topic
    return topics


def _names_or_ids(topics: object) -> list[str | UUID]:
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"`topics` should be a collection of names or ids, not {topics!r}")
    return [each if isinstance(each, UUID) else topic_name(each) for each in topics]


def _uses_defaults(topic: NewTopic) -> bool:
    return not topic.replica_assignments and -1 in (topic.num_partitions, topic.replication_factor)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(node_ids))
            for partition, node_ids in topic.replica_assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in topic.topic_configs.items()
        ],
    )


def _created(result: CreatableTopicResult) -> CreatedTopic:
    configs = None
    if result.configs is not None and result.num_partitions >= 0:
        configs = {
            each.name: CreatedTopicConfig(
                each.value, each.config_source, each.read_only, each.is_sensitive
            )
            for each in result.configs
        }
    return CreatedTopic(
        name=result.name,
        topic_id=None if result.topic_id == ZERO_UUID else result.topic_id,
        num_partitions=result.num_partitions if result.num_partitions >= 0 else None,
        replication_factor=result.replication_factor if result.replication_factor >= 0 else None,
        configs=configs,
    )
