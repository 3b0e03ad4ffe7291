"""Exactly-once writes: one transaction per task, which includes a marker of the epoch.

Spark replays a micro-batch with the same query, epoch and task. Each task of a query has its own
name (see `Place.name`), which is its transactional id and the group whose committed offset is the
marker: the epoch after the last written one. Rows and marker are committed together, so:

1. `open` acquires the transactional id: an earlier attempt has committed, or is fenced and aborted.
2. It reads the marker, after waiting for transactions that are ending, so it sees every commit.
3. If the marker is of this epoch, the rows are stored already: they are compared, not written.
4. Otherwise rows and marker are written in one transaction.

Step 2 handles attempts that fail, run twice, hang, lose responses or die at any point. No
transaction outlives its task by more than `transaction.timeout.ms`.

This assumes that a replayed epoch gives the same rows to the same task. The marker contains the
number of rows and their digest, so that a violation is reported, although after the fact.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from aiokafka_lite import AIOKafkaClient, AIOKafkaProducer
from aiokafka_lite._build import NATIVE
from aiokafka_lite.errors import IllegalStateError, KafkaError, KafkaTimeoutError, for_code
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "MARK_LAYOUT",
    "Marker",
    "Place",
    "ReplayError",
    "TaskTransaction",
    "TaskWritten",
    "check_marks",
]

MARK_LAYOUT: Final = 2
"""Layout of new markers. The digest of layout 1 covers only keys and values; a replayed epoch may
still find such markers."""

_AT_ONCE: Final = 32
"""Number of groups queried concurrently."""


_LIST_TIMEOUT: Final = 60.0
_PAUSE: Final = 0.5
"""Timeout in seconds for listing groups, and the pause between two requests."""

_CLOSE_WITHIN: Final = 10.0
"""Timeout in seconds for ending an attempt."""


class ReplayError(IllegalStateError):
    """A replayed epoch differs from the one written before."""


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a task in a query.

    Attributes:
        prefix: The option `transactionalIdPrefix`.
        query: Id of the streaming query, a UUID, the same for the life of its checkpoint; "" for a
            batch write outside a query.
        epoch: The micro-batch; 0 for a batch write outside a query.
        task: Number of the task in its stage.
        run: Id of the query's run, which changes with each restart. "" for a batch write, or if
            Spark does not provide it: then each run counts as a different one.
        write: The `writeId` of a batch write, given or generated; None for a stream's own sink.
        topic: The option `topic` of a batch write; None if each row names its topic.
    """

    prefix: str
    query: str
    epoch: int
    task: int
    run: str
    write: str | None = None
    topic: str | None = None

    @property
    def name(self) -> str:
        """The transactional id, and the group of the marker.

        `PREFIX-QUERY-TASK` for a stream, `PREFIX/WRITE/TOPIC/TASK` for a batch write, with
        `TOPIC@QUERY` within `foreachBatch` and `*` if each row names its topic. No two places share
        a name, whatever their prefixes and write ids: parsed from its end, a name has only one
        meaning, because the parts after the prefix contain no "/" and a query's id is a UUID.
        """
        return f"{self._family}{self.task}"

    def is_of_same_write(self, group: str) -> bool:
        """Return True if a group holds the marker of a task of this write, in any of its epochs."""
        task = group.removeprefix(self._family)
        return task != group and task.isascii() and task.isdigit()

    @property
    def _family(self) -> str:
        """The common prefix of the names of all tasks of this write."""
        if self.write is None:
            return f"{self.prefix}-{self.query}-"
        where = "*" if self.topic is None else quote(self.topic, safe="")
        if self.query:
            where = f"{where}@{self.query}"
        return f"{self.prefix}/{quote(self.write, safe='')}/{where}/"


@dataclass(frozen=True, slots=True)
class Marker:
    """The last write of a task.

    Attributes:
        epoch: The micro-batch.
        rows: Number of rows.
        digest: Digest of the rows; see `rows.RowDigest`.
        run: The run of the query that wrote it.
        layout: Layout of the marker's text, and so of the digest.
        topic: The topic of the marker; "" for one that is not written yet.
    """

    epoch: int
    rows: int
    digest: int
    run: str
    layout: int = MARK_LAYOUT
    topic: str = field(default="", compare=False)

    def committed(self) -> OffsetAndMetadata:
        """Encode the marker as a committed offset, which is the next epoch."""
        text = json.dumps(
            {
                "v": self.layout,
                "epoch": self.epoch,
                "rows": self.rows,
                "digest": f"{self.digest:016x}",
                "run": self.run,
            },
            separators=(",", ":"),
        )
        return OffsetAndMetadata(self.epoch + 1, text)

    @classmethod
    def read(cls, committed: OffsetAndMetadata, name: str, topic: str = "") -> Marker:
        """Decode the marker in a committed offset.

        Raises:
            ReplayError: The offset is not a marker: another application uses the group.
        """
        try:
            found: dict[str, Any] = json.loads(committed.metadata)
            layout = int(found["v"])
            if not 1 <= layout <= MARK_LAYOUT:
                raise ValueError(f"layout {layout}")
            digest = int(found["digest"], 16)
            epoch, rows = int(found["epoch"]), int(found["rows"])
            return cls(epoch, rows, digest, str(found["run"]), layout, topic)
        except (KeyError, TypeError, ValueError) as error:
            raise ReplayError(
                f"group {name!r} has a committed offset that is not a marker of this sink: "
                f"{committed.metadata!r}; use another transactionalIdPrefix"
            ) from error


@dataclass(frozen=True, slots=True)
class TaskWritten:
    """The result of a task, sent to the driver.

    Attributes:
        place: The task's place; None without exactly-once delivery.
        rows: Number of rows of the task.
        digest: Digest of the rows; 0 if not computed.
        skipped: True if the rows were stored already.
        first: True if the task found no earlier write in this run of the query.
        topic: The topic of its marker; None without rows.
        native: True if its process runs the compiled modules.
    """

    place: Place | None
    rows: int
    digest: int = 0
    skipped: bool = False
    first: bool = True
    topic: str | None = None
    native: bool = NATIVE


class TaskTransaction:
    """The transaction of one attempt of a task. Must be created in the event loop.

    Args:
        place: The task's place.
        topic: A topic that the task writes to: the marker is an offset of its partition 0.
        arguments: Arguments of its producer.
    """

    def __init__(self, place: Place, topic: str, arguments: Mapping[str, Any]) -> None:
        self.place = place
        self.topic = topic
        self.producer = AIOKafkaProducer(**arguments, transactional_id=place.name)
        self.before: Marker | None = None
        """The existing marker."""
        self._give_up_after: Final = float(arguments.get("transaction_timeout_ms", 60_000)) / 1000

    async def open(self) -> Marker | None:
        """Fence every earlier attempt; begin a transaction unless the epoch was already written.

        Returns:
            The marker of this epoch; or None if a transaction is open because there was none.

        Raises:
            ReplayError: A later epoch was already written.
            KafkaError: `AIOKafkaProducer.start` or reading the marker failed.
        """
        await self.producer.start()
        place = self.place
        self.before = await read_mark(self.producer.client, place.name, self.topic)
        if self.before is not None and self.before.epoch >= place.epoch:
            if self.before.epoch > place.epoch:
                raise ReplayError(
                    f"task {place.task} of {place.name!r} has already written epoch "
                    f"{self.before.epoch}, but must now write epoch {place.epoch}: the checkpoint "
                    "was reset; use another transactionalIdPrefix, or the newest checkpoint"
                )
            return self.before
        await self.producer.begin_transaction()
        return None

    async def commit(self, rows: int, digest: int) -> None:
        """Commit the sent records and their marker.

        Raises:
            KafkaError: The transaction is not committed. After a KafkaTimeoutError its outcome is
                unknown; the next attempt determines it.
        """
        place = self.place
        marker = Marker(place.epoch, rows, digest, place.run)
        marks = {TopicPartition(self.topic, 0): marker.committed()}
        await self.producer.send_offsets_to_transaction(marks, place.name)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._give_up_after
        while True:
            try:
                await self.producer.commit_transaction()
                return
            except KafkaTimeoutError:  # the commit continues in the background
                if loop.time() >= deadline:
                    raise

    async def close(self) -> None:
        """Abort an uncommitted transaction and disconnect. If brokers do not answer, the next
        attempt aborts it."""
        await self.producer.stop(_CLOSE_WITHIN)


async def read_mark(client: AIOKafkaClient, name: str, topic: str | None) -> Marker | None:
    """Return the latest marker of a task, or None if it never wrote.

    Args:
        topic: The expected topic of the marker. Its partition is queried first: only then does a
            broker report a first marker whose transaction is still ending. None searches only
            for markers that no task reported.

    Raises:
        ReplayError: The group has offsets that are not markers.
        KafkaError: The group's coordinator did not return the offsets.
    """
    committed: dict[TopicPartition, OffsetAndMetadata] = {}
    if topic is not None:
        committed |= await client.committed_offsets(name, [TopicPartition(topic, 0)])
    committed |= await client.committed_offsets(name)  # an earlier first topic is possible
    marks = [Marker.read(each, name, tp.topic) for tp, each in committed.items()]
    return max(marks, key=lambda mark: mark.epoch, default=None)


# --- on the driver


async def check_marks(client: AIOKafkaClient, written: Sequence[TaskWritten]) -> None:
    """Compare the results of an epoch's tasks with the markers in the cluster.

    A marker of this epoch that no task reported comes from an earlier run, which split the epoch
    into other tasks: its rows are duplicates. The search runs whenever a task has not written
    before in this run.

    Args:
        client: A connected client.
        written: The results of the tasks of one epoch.

    Raises:
        ReplayError: They differ.
        KafkaError: The cluster did not return the markers.
    """
    places = [each.place for each in written if each.place is not None]
    if not places:
        return
    epoch = places[0].epoch
    reported = {each.place.name: each for each in written if each.place is not None and each.rows}
    names = set(reported)
    if all(each.first for each in written):
        names |= {name for name in await _groups(client) if places[0].is_of_same_write(name)}
    topics = {name: reported[name].topic if name in reported else None for name in sorted(names)}
    for name, mark in (await _marks(client, topics)).items():
        known = reported.get(name)
        if known is None:
            if mark is not None and mark.epoch == epoch:
                raise ReplayError(
                    f"epoch {epoch} was already written by other tasks: {name!r} wrote {mark.rows} "
                    "rows of it that no current task has. They are in Kafka in addition to the "
                    "current ones. A replayed epoch must be split into the same tasks: set "
                    "spark.sql.adaptive.streaming.stateless.enabled=false, and keep the options "
                    "and the number of shuffle partitions"
                )
        elif mark is None or (mark.epoch, mark.rows, mark.digest) != (
            epoch,
            known.rows,
            known.digest,
        ):
            raise ReplayError(
                f"task {name!r} reported {known.rows} rows of epoch {epoch}, but its marker is "
                f"{mark}"
            )


async def _marks(
    client: AIOKafkaClient, topics: Mapping[str, str | None]
) -> dict[str, Marker | None]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str, topic: str | None) -> tuple[str, Marker | None]:
        async with gate:
            return name, await read_mark(client, name, topic)

    return dict(await asyncio.gather(*(one(*each) for each in topics.items())))


async def _groups(client: AIOKafkaClient) -> set[str]:
    """Return the names of all groups in the cluster that the client may list.

    Each broker lists the groups that it coordinates. While a broker is down, its groups move to
    others, so all brokers must be queried again.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LIST_TIMEOUT
    while True:
        try:
            return await _groups_now(client)
        except KafkaError as error:
            if not error.retriable or loop.time() >= deadline:
                raise
        await asyncio.sleep(_PAUSE)
        await client.force_metadata_update()


async def _groups_now(client: AIOKafkaClient) -> set[str]:
    found: set[str] = set()
    for broker in client.cluster.brokers():
        response = await client.send(int(broker.nodeId), ListGroupsRequest())
        if response.error_code:
            raise for_code(response.error_code)(f"Could not list the groups of {broker}")
        found.update(group.group_id for group in response.groups)
    return found
