"""Looks up offsets at the leaders of partitions: their ends, and records by time.

Non-obvious:

- One request is sent per leader. A partition without a leader waits alone and delays no other; the
  partitions of an unknown topic wait for the topic together.

Source: ListOffsetsRequest.json v0-v11, KIP-79 (search by time), KIP-207, KIP-320.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Final, NamedTuple

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.large_metadata import Slices
from aiokafka_lite.cluster.pace import Pace
from aiokafka_lite.cluster.retry import LeaderOf, call
from aiokafka_lite.consumer.consumer_options import IsolationLevel
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.errors import (
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
    for_code,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokafka_lite.structs import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
"""Times that mean the ends of a partition."""

NO_OFFSET: Final = -1
"""Offset of a search by time that finds no record; timestamp of an end."""

_BY_TIME_FROM: Final = 1
"""First version that finds a record by its time (Kafka 0.10.1)."""

_ISOLATION_FROM: Final = 2
_TIMEOUT_FROM: Final = 10

_CONSUMER: Final = -1
"""Replica id of a client."""


class _RetryLookup(KafkaError):
    """An error code after which the lookup is retried. Java's consumer retries after all but two,
    and refreshes the metadata: the leader epoch may be that of a topic that was recreated since."""

    retriable = True
    invalid_metadata = True


class Found(NamedTuple):
    """The result of an offset lookup.

    Attributes:
        offset: The offset, or -1 if no record has that timestamp or a later one.
        timestamp: The record's timestamp in milliseconds since the epoch; -1 for an end.
        leader_epoch: The record's leader epoch; for an end, that of the leader; -1 if unknown.
        asked_epoch: The epoch of the leader that was asked; -1 if unknown.
    """

    offset: int
    timestamp: int
    leader_epoch: int = UNKNOWN_EPOCH
    asked_epoch: int = UNKNOWN_EPOCH


async def list_offsets(
    cluster: Cluster,
    times: Mapping[TopicPartition, int],
    deadline: float,
    *,
    isolation: IsolationLevel,
    on_found: Callable[[TopicPartition, Found | KafkaError], None],
    search: bool = False,
) -> None:
    """Look up an offset in each partition.

    Args:
        times: Milliseconds since the epoch, `EARLIEST` or `LATEST`, by partition.
        deadline: In loop time.
        isolation: With READ_COMMITTED the latest offset is the last stable offset.
        on_found: Called once for each partition as the responses arrive; with a KafkaTimeoutError
            for those without a response in time.
        search: True if the brokers must support searching by time.

    Cancellation: ends the lookup; `on_found` is not called for the remaining partitions.
    """
    pending = dict(times)

    def settle(tp: TopicPartition, found: Found | KafkaError) -> None:
        if pending.pop(tp, None) is not None:
            on_found(tp, found)

    asks: dict[asyncio.Future[None], Collection[TopicPartition]] = {}
    turn = asyncio.Lock()
    pace = Pace()
    loop = asyncio.get_running_loop()

    async def ask(partitions: Collection[TopicPartition]) -> None:
        known, unknown = await _by_leader(cluster, partitions)
        search_from = _BY_TIME_FROM if search else 0
        for group in known:
            if cluster.metadata.leader(*group[0]) is not None:  # otherwise no request is sent yet
                await asyncio.sleep(pace.next_delay(loop.time()))
            asking = _ask(cluster, group, pending, deadline, isolation, settle, search_from, turn)
            asks[asyncio.ensure_future(asking)] = group
        for topic, group in unknown.items():
            learning = _wait_for_topic(cluster, topic, group, deadline, settle)
            asks[asyncio.ensure_future(learning)] = group

    try:
        await ask(list(pending))
        while asks:
            done, _ = await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
            again: list[TopicPartition] = []
            for each in done:
                again += [tp for tp in asks.pop(each) if tp in pending]
                each.result()
            # Unsettled partitions have another leader by now, and unknown ones have one.
            await ask(again)
    finally:
        for each in asks:
            each.cancel()


async def _by_leader(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> tuple[list[list[TopicPartition]], dict[str, list[TopicPartition]]]:
    """Group partitions by leader, and those of unknown topics by topic.

    A partition without a leader forms its own group. Yields to the event loop if there are many.
    """
    metadata = cluster.metadata
    slices = Slices()
    led: dict[int, list[TopicPartition]] = {}
    alone: list[list[TopicPartition]] = []
    unknown: dict[str, list[TopicPartition]] = {}
    for tp in partitions:
        if slices.over():
            await slices.pause()
        leader = metadata.leader(*tp)
        if leader is not None:
            led.setdefault(leader.node_id, []).append(tp)
            continue
        topic = metadata.topics.get(tp.topic)
        if topic is None or topic.error is not None or not topic.partitions:
            unknown.setdefault(tp.topic, []).append(tp)
        else:
            alone.append([tp])
    return [*led.values(), *alone], unknown


async def _wait_for_topic(
    cluster: Cluster,
    topic: str,
    group: Collection[TopicPartition],
    deadline: float,
    settle: Callable[[TopicPartition, Found | KafkaError], None],
) -> None:
    """Wait until a topic, and with it the leaders of its partitions, is known."""
    try:
        await cluster.partitions_of(topic, deadline)
    except KafkaTimeoutError as error:
        for tp in group:
            settle(tp, _timed_out(tp, error))
    except KafkaError as error:
        for tp in group:
            settle(tp, copy(error))


async def _ask(
    cluster: Cluster,
    group: Collection[TopicPartition],
    pending: Mapping[TopicPartition, int],
    deadline: float,
    isolation: IsolationLevel,
    settle: Callable[[TopicPartition, Found | KafkaError], None],
    oldest: int,
    turn: asyncio.Lock,
) -> None:
    """Request offsets from the leader of a group's first partition until that partition is settled.

    Each request includes the other pending partitions of the group.

    Args:
        turn: Held while a response is applied in slices, so that responses take turns.
    """
    first = next(iter(group))
    results: list[tuple[TopicPartition, Found | KafkaError]] = []
    asked: dict[TopicPartition, int] = {}

    def build(version: int) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp in group:
            if tp in pending:
                topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic, partitions=[]))
                known = cluster.metadata.partition(*tp)
                epoch = UNKNOWN_EPOCH if known is None else known.leader_epoch
                asked[tp] = epoch
                topic.partitions.append(
                    ListOffsetsPartition(
                        partition_index=tp.partition,
                        # Lets a broker that is no longer the leader report that.
                        current_leader_epoch=epoch,
                        timestamp=pending[tp],
                    )
                )
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=isolation.value if version >= _ISOLATION_FROM else 0,
            topics=list(topics.values()),
            timeout_ms=_left_ms(deadline) if version >= _TIMEOUT_FROM else 0,
        )

    def check(response: ListOffsetsResponse) -> None:
        results.clear()
        for topic in response.topics:
            for answer in topic.partitions:
                tp = TopicPartition(topic.name, answer.partition_index)
                if not answer.error_code:
                    results.append((tp, _found(tp, answer, asked.get(tp, UNKNOWN_EPOCH))))
                    continue
                error = for_code(answer.error_code)(tp.topic)
                if isinstance(error, TopicAuthorizationFailedError):
                    results.append((tp, error))
                elif isinstance(error, UnsupportedForMessageFormatError) and oldest:
                    # This log format has no timestamps.
                    results.append((tp, Found(NO_OFFSET, NO_OFFSET)))
                elif tp == first:
                    for known in results:
                        settle(*known)  # now, because the next attempt may take a long time
                    raise error if error.invalid_metadata else _RetryLookup(str(error)) from error
        # The response lacks the first partition; retrying at once could loop forever.
        missing = KafkaProtocolError(f"The leader of {named(first)} returned no offset for it")
        results.append((first, missing))

    try:
        await call(
            cluster,
            PerVersion(ListOffsetsRequest, build),
            LeaderOf(*first),
            deadline,
            check=check,
            oldest=oldest,
        )
    except KafkaTimeoutError as error:
        for tp in group:
            settle(tp, _timed_out(tp, error))
    except KafkaError as error:
        settle(first, error)
    else:
        async with turn:
            slices = Slices()
            for result in results:
                settle(*result)
                if slices.over():
                    await slices.pause()


def _timed_out(tp: TopicPartition, error: KafkaTimeoutError) -> KafkaTimeoutError:
    timeout = KafkaTimeoutError(f"no offset of {named(tp)} was found: {error.args[0]}")
    timeout.__cause__ = error
    return timeout


def _found(
    tp: TopicPartition, answer: ListOffsetsPartitionResponse, asked_epoch: int
) -> Found | KafkaProtocolError:
    epoch = max(answer.leader_epoch, UNKNOWN_EPOCH)
    found = Found(answer.offset, answer.timestamp, epoch, asked_epoch)
    if answer.offset == NO_OFFSET and answer.old_style_offsets:  # version 0 returns a list
        found = Found(answer.old_style_offsets[0], NO_OFFSET)
    if found.offset < NO_OFFSET:
        return KafkaProtocolError(
            f"The leader of {named(tp)} returned the invalid offset {found.offset}"
        )
    return found


def named(tp: TopicPartition) -> str:
    """Format a partition for errors."""
    return f"{tp.topic}-{tp.partition}"


def _left_ms(deadline: float) -> int:
    return max(int((deadline - asyncio.get_running_loop().time()) * 1000), 1)
