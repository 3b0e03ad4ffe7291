"""Deletes records, and looks up offsets, at the leaders of partitions.

Source: DeleteRecordsRequest.json v0-v2, ListOffsetsRequest.json v1-v11, KIP-107, KIP-79, KIP-734,
KIP-405, KIP-1005, KIP-1023.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import as_partition, whole
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.records_to_delete import RecordsToDelete
from aiokafka_lite.errors import IllegalArgumentError, KafkaError
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["OffsetInfo", "OffsetSpec", "delete_records", "list_offsets"]

_CLIENT: Final = -1  # replica id of a request that does not come from a follower
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}
_READ_COMMITTED_FROM: Final = 2
_OLDEST: Final = 1
"""Version 0 returns offsets of segments, not of records (before 0.10.1)."""


class OffsetSpec(enum.IntEnum):
    """Which offset of a partition to look up; the values are Kafka's.

    A timestamp in milliseconds, an int from 0 on, asks for the first record with it or a later one.
    """

    LATEST = -1
    """The offset after the last record that the isolation level shows."""
    EARLIEST = -2
    """The first offset that the partition still has."""
    MAX_TIMESTAMP = -3
    """The record with the largest timestamp (KIP-734, Kafka 3.0)."""
    EARLIEST_LOCAL = -4
    """The first offset on the broker's own disk (KIP-405, Kafka 3.4)."""
    LATEST_TIERED = -5
    """The last offset in tiered storage (KIP-1005, Kafka 3.9)."""
    EARLIEST_PENDING_UPLOAD = -6
    """The first offset that is not in tiered storage yet (KIP-1023, Kafka 4.2)."""


_SINCE: Final[dict[int, int]] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""The version of ListOffsets that has a spec."""


@dataclass(frozen=True, slots=True)
class OffsetInfo:
    """The offset that was looked up.

    Attributes:
        offset: None if the partition has no such record.
        timestamp: Of the record, in milliseconds; None for LATEST and EARLIEST.
        leader_epoch: Of the record; None from brokers before 2.1, and if there is none.
    """

    offset: int | None
    timestamp: int | None = None
    leader_epoch: int | None = None


async def delete_records(
    dispatcher: Dispatcher,
    records_to_delete: Mapping[TopicPartition, RecordsToDelete],
    timeout_ms: float | None,
) -> Results[TopicPartition, int]:
    """See `AIOKafkaAdminClient.delete_records`."""
    deadline = dispatcher.deadline(timeout_ms)
    before = _offsets_to_delete(records_to_delete)
    outcomes: Outcomes[TopicPartition, int] = Outcomes(before, _label)

    def build(version: int, partitions: list[TopicPartition]) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp])
                        for tp in group
                    ],
                )
                for topic, group in _by_topic(partitions).items()
            ],
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
        )

    def read(response: DeleteRecordsResponse, outcomes: Outcomes[TopicPartition, int]) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if not outcomes.on_code(tp, each.error_code):
                    outcomes.on_value(tp, each.low_watermark)

    return await dispatcher.settle_on_leaders(outcomes, DeleteRecordsRequest, build, read, deadline)


async def list_offsets(
    dispatcher: Dispatcher,
    partitions: Mapping[TopicPartition, OffsetSpec | int],
    timeout_ms: float | None,
    *,
    isolation_level: str,
) -> Results[TopicPartition, OffsetInfo]:
    """See `AIOKafkaAdminClient.list_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    specs = _specs(partitions)
    isolation = _ISOLATION.get(isolation_level)
    if isolation is None:
        raise IllegalArgumentError(
            f"`isolation_level` should be one of {', '.join(_ISOLATION)}, not {isolation_level!r}"
        )
    least = _READ_COMMITTED_FROM if isolation else _OLDEST
    by_version: dict[int, list[TopicPartition]] = {}
    for tp, spec in specs.items():
        by_version.setdefault(max(_SINCE.get(spec, 0), least), []).append(tp)

    def build(version: int, asked: list[TopicPartition]) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=_CLIENT,
            isolation_level=isolation,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=tp.partition, timestamp=specs[tp])
                        for tp in group
                    ],
                )
                for topic, group in _by_topic(asked).items()
            ],
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
        )

    async def look_up(oldest: int, group: list[TopicPartition]) -> None:
        outcomes: Outcomes[TopicPartition, OffsetInfo] = Outcomes(group, _label)
        names = [OffsetSpec(spec).name for spec, since in _SINCE.items() if since == oldest]
        feature = f"OffsetSpec.{names[0]}" if names else "Looking up offsets"
        try:
            results = await dispatcher.settle_on_leaders(
                outcomes,
                ListOffsetsRequest,
                build,
                _read_offsets,
                deadline,
                oldest=oldest,
                feature=feature,
            )
            found.update(results)
        except KafkaError as error:
            failures.append(error)
            found.update(dict.fromkeys(group, error))

    found: dict[TopicPartition, OffsetInfo | KafkaError] = {}
    failures: list[KafkaError] = []
    async with asyncio.TaskGroup() as tasks:
        for oldest, group in by_version.items():
            tasks.create_task(look_up(oldest, group), name="look up offsets")
    if failures and len(failures) == len(by_version):
        raise failures[0]
    return Results({tp: found[tp] for tp in specs})


def _read_offsets(
    response: ListOffsetsResponse, outcomes: Outcomes[TopicPartition, OffsetInfo]
) -> None:
    for topic in response.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if not outcomes.on_code(tp, each.error_code):
                info = OffsetInfo(
                    None if each.offset < 0 else each.offset,
                    timestamp=None if each.timestamp < 0 else each.timestamp,
                    leader_epoch=None if each.leader_epoch < 0 else each.leader_epoch,
                )
                outcomes.on_value(tp, info)


def _label(tp: TopicPartition) -> str:
    return f"partition {tp.topic}-{tp.partition}"


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp)
    return topics


def _offsets_to_delete(given: object) -> dict[TopicPartition, int]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`records_to_delete` should be a mapping, not {given!r}")
    for each in given.values():
        if not isinstance(each, RecordsToDelete):
            raise TypeError(f"records_to_delete should have RecordsToDelete values, not {each!r}")
    return {as_partition(tp): each.before_offset for tp, each in given.items()}


def _specs(given: object) -> dict[TopicPartition, OffsetSpec | int]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`partitions` should be a mapping to OffsetSpec, not {given!r}")
    return {
        as_partition(tp): spec if isinstance(spec, OffsetSpec) else whole("timestamp", spec)
        for tp, spec in given.items()
    }
