"""Elects leaders of partitions.

Source: ElectLeadersRequest.json v0-v2, KIP-183, KIP-460.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from aiokafka_lite._arguments import as_partitions
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.core.retried_errors import FinalError, raise_to_retry
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.retry import CONTROLLER, raise_error_code
from aiokafka_lite.errors import BrokerResponseError, ElectionNotNeededError, KafkaError
from aiokafka_lite.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["ElectionType", "elect_leaders"]

_TYPES_FROM: Final = 1
"""The version that has types of elections (KIP-460)."""


class ElectionType(enum.IntEnum):
    """Which replica becomes the leader; the values are Kafka's."""

    PREFERRED = 0
    """The first of the partition's replicas, if it is in sync."""
    UNCLEAN = 1
    """Any live replica, if none that is in sync is alive: this can lose records."""


async def elect_leaders(
    dispatcher: Dispatcher,
    election_type: ElectionType,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: float | None,
) -> Results[TopicPartition, bool]:
    """See `AIOKafkaAdminClient.elect_leaders`."""
    deadline = dispatcher.deadline(timeout_ms)
    if not isinstance(election_type, ElectionType):
        raise TypeError(f"`election_type` should be an ElectionType, not {election_type!r}")
    unclean = election_type is not ElectionType.PREFERRED
    oldest = _TYPES_FROM if unclean else 0
    feature = "Unclean elections of leaders" if unclean else "Electing leaders"

    def request(topics: list[TopicPartitions] | None) -> ElectLeadersRequest:
        timeout = dispatcher.broker_timeout_ms(deadline)
        return ElectLeadersRequest(election_type, topics, timeout)

    retriable = only_controller_errors(False)

    def check(response: ElectLeadersResponse) -> None:
        try:
            raise_error_code(response)
        except BrokerResponseError as error:
            raise_to_retry(error, again=retriable(error))

    if partitions is None:
        try:
            answer = await dispatcher.ask(
                PerVersion(ElectLeadersRequest, lambda version: request(None)),
                CONTROLLER,
                deadline,
                check=check,  # a repeated election does not report what the first one did
                oldest=oldest,
                feature=feature,
            )
        except FinalError as final:
            raise final.error from None
        return Results(
            {
                tp: outcome
                for tp, code, message in _each(answer)
                if (outcome := _outcome(tp, code, message)) is not False
            }
        )
    outcomes: Outcomes[TopicPartition, bool] = Outcomes(
        as_partitions(partitions), _label, retriable=retriable
    )

    def build(version: int, pending: list[TopicPartition]) -> ElectLeadersRequest:
        topics: dict[str, list[int]] = {}
        for tp in pending:
            topics.setdefault(tp.topic, []).append(tp.partition)
        return request([TopicPartitions(topic, indexes) for topic, indexes in topics.items()])

    def read(response: ElectLeadersResponse, outcomes: Outcomes[TopicPartition, bool]) -> None:
        raise_error_code(response)
        for tp, code, message in _each(response):
            outcome = _outcome(tp, code, message)
            if isinstance(outcome, KafkaError):
                outcomes.on_error(tp, outcome)
            else:
                outcomes.on_value(tp, outcome)

    return await dispatcher.settle(
        outcomes,
        ElectLeadersRequest,
        build,
        read,
        CONTROLLER,
        deadline,
        oldest=oldest,
        feature=feature,
    )


def _each(response: ElectLeadersResponse) -> Iterable[tuple[TopicPartition, int, str | None]]:
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            tp = TopicPartition(topic.topic, each.partition_id)
            yield tp, each.error_code, each.error_message


def _outcome(tp: TopicPartition, code: int, message: str | None) -> bool | KafkaError:
    """True: a leader was elected; False: no election was needed."""
    if code == ElectionNotNeededError.errno:
        return False
    return item_error(code, _label(tp), message) if code else True


def _label(tp: TopicPartition) -> str:
    return f"partition {tp.topic}-{tp.partition}"
