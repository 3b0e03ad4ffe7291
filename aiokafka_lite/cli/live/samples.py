"""Takes samples of a cluster: the ends of its partitions, and what its groups committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    GroupListing,
    OffsetSpec,
    TopicDescription,
)
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.structs import TopicPartition

__all__ = ["GroupSample", "Problem", "Sample", "take_sample"]

_DEAD: Final = "Dead"


@dataclass(frozen=True, slots=True)
class Problem:
    """A partition without a leader, or with replicas out of sync."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    missing: tuple[int, ...]

    @property
    def text(self) -> str:
        """The problem."""
        return "no leader" if self.leader is None else "out of sync"


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group in a sample.

    Attributes:
        positions: By partition, the first offset that the group has not finished.
        lags: By partition, the records that it has not finished.
    """

    state: str
    type: str
    positions: Mapping[TopicPartition, int]
    lags: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """A cluster at one moment.

    Attributes:
        at: When, on the loop's clock, in seconds.
        ends: By partition, the offset after its last record.
        partitions: How many partitions each topic has.
        problems: Partitions that are not healthy, those of internal topics included.
        errors: What could not be looked up.
    """

    at: float
    ends: Mapping[TopicPartition, int]
    groups: Mapping[str, GroupSample]
    partitions: Mapping[str, int]
    problems: tuple[Problem, ...]
    errors: tuple[str, ...] = field(default=())


async def take_sample(
    admin: AIOKafkaAdminClient, *, internal: bool = False, timeout: float
) -> Sample:
    """Take a sample of all topics and groups.

    Args:
        admin: Asks the cluster.
        internal: Include Kafka's own topics.
        timeout: Seconds for each request.

    Raises:
        KafkaError: The cluster did not answer, or refused to describe its topics or groups.
    """
    timeout_ms = timeout * 1000
    topics, listed = await asyncio.gather(
        admin.describe_topics(typed=True, timeout_ms=timeout_ms),
        admin.list_groups(timeout_ms=timeout_ms),
    )
    described = list(topics.valid().values())
    shown = [topic for topic in described if internal or not topic.is_internal]
    errors = [str(error) for error in (*topics.errors().values(), *listed.errors().values())]
    led = {
        TopicPartition(topic.name, each.partition)
        for topic in described
        for each in topic.partitions.values()
        if each.leader is not None
    }
    at = asyncio.get_running_loop().time()
    counted = {TopicPartition(topic.name, number) for topic in shown for number in topic.partitions}
    ends, positions = await asyncio.gather(
        _offsets(admin, counted & led, OffsetSpec.LATEST, timeout_ms, errors),
        _positions(admin, listed.valid(), timeout_ms, errors),
    )
    groups = await _groups(admin, listed.valid(), positions, ends, led, timeout_ms, errors)
    return Sample(
        at,
        ends,
        groups,
        {topic.name: len(topic.partitions) for topic in shown},
        tuple(_problems(described)),
        tuple(dict.fromkeys(errors)),
    )


_Positions = dict[str, dict[TopicPartition, tuple[int, int | None]]]
"""By group and partition: the position, and the lag if the coordinator reports it."""


async def _positions(
    admin: AIOKafkaAdminClient,
    groups: Iterable[GroupListing],
    timeout_ms: float,
    errors: list[str],
) -> _Positions:
    found: _Positions = {}
    share = [each.group_id for each in groups if each.type == "share"]
    others = [each.group_id for each in groups if each.type != "share" and each.state != _DEAD]
    if others:
        offsets = await admin.list_consumer_groups_offsets(others, timeout_ms=timeout_ms)
        errors += map(str, offsets.errors().values())
        for group, each in offsets.valid().items():
            found[group] = {
                tp: (at.offset, None) for tp, at in each.valid().items() if at is not None
            }
    if share:
        starts = await admin.list_share_group_offsets(share, timeout_ms=timeout_ms)
        errors += map(str, starts.errors().values())
        for group, started in starts.valid().items():
            found[group] = {
                tp: (at.start_offset, at.lag)
                for tp, at in started.valid().items()
                if at is not None
            }
    return found


async def _groups(
    admin: AIOKafkaAdminClient,
    listed: Iterable[GroupListing],
    positions: _Positions,
    ends: Mapping[TopicPartition, int],
    led: set[TopicPartition],
    timeout_ms: float,
    errors: list[str],
) -> dict[str, GroupSample]:
    read = {tp for each in positions.values() for tp in each} & led
    others = read - ends.keys()  # internal topics that are not shown
    starts, more = await asyncio.gather(
        _offsets(admin, read, OffsetSpec.EARLIEST, timeout_ms, errors),
        _offsets(admin, others, OffsetSpec.LATEST, timeout_ms, errors),
    )
    all_ends = {**ends, **more}
    groups = {}
    for each in listed:
        found = positions.get(each.group_id, {})
        lags = {}
        for tp, (position, lag) in found.items():
            if lag is not None:
                lags[tp] = lag
            elif tp in all_ends:
                lags[tp] = max(0, all_ends[tp] - max(position, starts.get(tp, 0)))
        groups[each.group_id] = GroupSample(
            each.state or "",
            each.type or "",
            {tp: position for tp, (position, _) in found.items()},
            lags,
        )
    return groups


async def _offsets(
    admin: AIOKafkaAdminClient,
    partitions: Iterable[TopicPartition],
    spec: OffsetSpec,
    timeout_ms: float,
    errors: list[str],
) -> dict[TopicPartition, int]:
    wanted = dict.fromkeys(partitions, spec)
    if not wanted:
        return {}
    try:
        found = await admin.list_offsets(wanted, timeout_ms=timeout_ms)
    except KafkaError as error:
        errors.append(str(error))
        return {}
    errors += map(str, found.errors().values())
    return {tp: each.offset or 0 for tp, each in found.valid().items()}


def _problems(topics: Iterable[TopicDescription]) -> list[Problem]:
    return [
        Problem(
            topic.name,
            each.partition,
            each.leader,
            tuple(each.replicas),
            tuple(sorted(set(each.replicas) - set(each.isr))),
        )
        for topic in topics
        for each in topic.partitions.values()
        if each.leader is None or set(each.replicas) - set(each.isr)
    ]
