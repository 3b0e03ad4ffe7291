"""Adds partitions to topics.

Source: CreatePartitionsRequest.json v0-v3, KIP-195, KIP-599.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from aiokafka_lite.admin.new_partitions import NewPartitions
from aiokafka_lite.admin.topics.creation import TopicError
from aiokafka_lite.cluster.retry import CONTROLLER
from aiokafka_lite.errors import InvalidPartitionsError, KafkaError
from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)

__all__ = ["CreatePartitionsResult", "create_partitions"]


class CreatePartitionsResult(Results[str, None]):
    """The outcome of `create_partitions` for each topic, with the attributes of aiokafka's
    response."""

    __slots__ = ("_messages", "throttle_time_ms")

    def __init__(
        self,
        outcomes: Mapping[str, KafkaError | None],
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
            TopicError(
                topic,
                code_of(outcome),
                self._messages.get(topic) or message_of(outcome, _label(topic)),
            )
            for topic, outcome in self.items()
        ]

    def to_object(self) -> dict[str, Any]:
        """Return the outcome as nested dicts and lists, as in aiokafka."""
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "topic_errors": [each._asdict() for each in self.topic_errors],
        }


async def create_partitions(
    dispatcher: Dispatcher,
    topic_partitions: Mapping[str, NewPartitions],
    timeout_ms: float | None,
    *,
    validate_only: bool,
    retry_on_quota_violation: bool,
    raise_errors: bool,
) -> CreatePartitionsResult:
    """See `AIOKafkaAdminClient.create_partitions`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = _checked(topic_partitions)
    outcomes: Outcomes[str, None] = Outcomes(
        wanted,
        _label,
        retriable=only_controller_errors(retry_on_quota_violation),
    )
    messages: dict[str, str | None] = {}
    throttled_ms = 0

    def build(version: int, names: list[str]) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(
            topics=[_topic(name, wanted[name]) for name in names],
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
            validate_only=validate_only,
        )

    def read(response: CreatePartitionsResponse, outcomes: Outcomes[str, None]) -> None:
        nonlocal throttled_ms
        throttled_ms = response.throttle_time_ms
        for each in response.results:
            messages[each.name] = message = each.error_message
            if each.error_code == InvalidPartitionsError.errno:
                message = perhaps_ours(outcomes, each.name, "added", message)
                messages[each.name] = message
            if not outcomes.on_code(
                each.name, each.error_code, message, throttle_time_ms=throttled_ms
            ):
                outcomes.on_value(each.name, None)

    settled = await dispatcher.settle(
        outcomes, CreatePartitionsRequest, build, read, CONTROLLER, deadline
    )
    result = CreatePartitionsResult(settled, messages, throttled_ms)
    report(result, "create_partitions", raise_errors)
    return result


def _label(topic: str) -> str:
    return f"topic {topic!r}"


def _checked(given: object) -> dict[str, NewPartitions]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`topic_partitions` should be a mapping, not {given!r}")
    for each in given.values():
        if not isinstance(each, NewPartitions):
            raise TypeError(f"topic_partitions should have NewPartitions values, not {each!r}")
    return {topic_name(name): each for name, each in given.items()}


def _topic(name: str, wanted: NewPartitions) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(
        name=name,
        count=wanted.total_count,
        assignments=None
        if wanted.new_assignments is None
        else [
            CreatePartitionsAssignment(broker_ids=list(node_ids))
            for node_ids in wanted.new_assignments
        ],
    )
