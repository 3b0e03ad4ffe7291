"""One transaction a task, with a mark of its epoch in it: a replayed epoch writes nothing twice.

Spark replays a micro-batch under the same query, epoch and task. Each task of a query has a name
of its own (see `Place.name`): its transactional id, and the group whose committed offset is the
mark: that of the epoch after the one written last. Rows and mark are committed together, so:

1. `open` takes the transactional id: any earlier attempt has committed, or is fenced and aborted.
2. It reads the mark, waiting for transactions that are being ended: who has committed is seen.
3. Where the mark is of this epoch, the rows are there: they are compared, and not written.
4. Otherwise rows and mark are written in one transaction.

Attempts that fail, run twice, hang, lose their answers or die at any point come down to step 2. No
transaction outlives a task but by `transaction.timeout.ms`.

What it rests on: the same rows come to the same task when an epoch is replayed. The mark holds the
number of the rows and a digest of them, so that a breach is told, if after the fact.
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
"""Layout of the marks that are written. The digest of layout 1 covers keys and values alone; marks
that hold it may still be there when an epoch is replayed."""

_AT_ONCE: Final = 32
"""Groups asked about at a time."""


_PATIENCE: Final = 60.0
_PAUSE: Final = 0.5
"""Seconds that the brokers may take to tell of their groups, and between two questions."""

_CLOSE_WITHIN: Final = 10.0
"""Seconds that an attempt's end may take."""


class ReplayError(IllegalStateError):
    """An epoch that was written before comes again, and is not the same."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a query a task stands.

    Attributes:
        prefix: The option `transactionalIdPrefix`.
        query: Id of the streaming query, a UUID, the same for the life of its checkpoint; "" for a
            batch write outside of any query.
        epoch: The micro-batch; 0 for a batch write outside of any query.
        task: Its number in the stage.
        run: Id of the query's run: another after each restart. "" for a batch write, or where
            Spark does not say: each run counts as another one then.
        write: Of a batch write its `writeId`, given or drawn; None for a stream's own sink.
        topic: Of a batch write the option `topic`; None where each row names its own.
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
        """The transactional id, and the mark's group.

        `PREFIX-QUERY-TASK` for a stream, `PREFIX/WRITE/TOPIC/TASK` for a batch write, with
        `TOPIC@QUERY` within `foreachBatch` and `*` for a topic that each row names. No two places
        share a name, whatever their prefixes and write ids are: read from its end a name has only
        one meaning, since the parts behind the prefix hold no "/" and a query's id is a UUID.
        """
        return f"{self._family}{self.task}"

    def is_of_same_write(self, group: str) -> bool:
        """True if a group is the mark of one of the tasks of this write, in any of its epochs."""
        task = group.removeprefix(self._family)
        return task != group and task.isascii() and task.isdigit()

    @property
    def _family(self) -> str:
        """What the names of all tasks of this write begin with."""
        if self.write is None:
            return f"{self.prefix}-{self.query}-"
        where = "*" if self.topic is None else quote(self.topic, safe="")
        if self.query:
            where = f"{where}@{self.query}"
        return f"{self.prefix}/{quote(self.write, safe='')}/{where}/"


@dataclass(frozen=True, slots=True)
class Marker:
    """What a task has written last.

    Attributes:
        epoch: The micro-batch.
        rows: How many there were.
        digest: Of the rows; see `rows.RowDigest`.
        run: In which run of the query.
        layout: Of the mark's text, and so of the digest.
        topic: Where the mark was found; "" for one that is not written yet.
    """

    epoch: int
    rows: int
    digest: int
    run: str
    layout: int = MARK_LAYOUT
    topic: str = field(default="", compare=False)

    def committed(self) -> OffsetAndMetadata:
        """As a committed offset: that of the epoch that is next."""
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
        """The mark in a committed offset.

        Raises:
            ReplayError: It is none: the group is somebody else's.
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
                f"group {name!r} has committed an offset that is no mark of this sink: "
                f"{committed.metadata!r}; use another transactionalIdPrefix"
            ) from error


@dataclass(frozen=True, slots=True)
class TaskWritten:
    """What a task tells the driver.

    Attributes:
        place: The task's; None where it is not exactly once.
        rows: Of the task.
        digest: Of the rows; 0 where nobody asked.
        skipped: They were there already.
        first: It has not written before in this run of the query, as far as it knows.
        topic: Where its mark is; None without rows.
        native: Its process runs the compiled modules.
    """

    place: Place | None
    rows: int
    digest: int = 0
    skipped: bool = False
    first: bool = True
    topic: str | None = None
    native: bool = NATIVE


class TaskTransaction:
    """The transaction of one attempt of a task. To be made in the event loop.

    Args:
        place: The task's.
        topic: One that the task writes to: the mark is an offset of its partition 0.
        arguments: Of its producer.
    """

    def __init__(self, place: Place, topic: str, arguments: Mapping[str, Any]) -> None:
        self.place = place
        self.topic = topic
        self.producer = AIOKafkaProducer(**arguments, transactional_id=place.name)
        self.before: Marker | None = None
        """The mark that was found."""
        self._give_up_after: Final = float(arguments.get("transaction_timeout_ms", 60_000)) / 1000

    async def open(self) -> Marker | None:
        """Fence every earlier attempt, and begin; or tell that the epoch was written.

        Returns:
            The mark of this epoch; None: it was not written, and a transaction is open.

        Raises:
            ReplayError: A later epoch was written already.
            KafkaError: As of `AIOKafkaProducer.start`, or of reading the mark.
        """
        await self.producer.start()
        place = self.place
        self.before = await read_mark(self.producer.client, place.name, self.topic)
        if self.before is not None and self.before.epoch >= place.epoch:
            if self.before.epoch > place.epoch:
                raise ReplayError(
                    f"task {place.task} of {place.name!r} has written epoch "
                    f"{self.before.epoch}, and is asked for epoch {place.epoch}: the checkpoint "
                    "was set back; use another transactionalIdPrefix, or the newest checkpoint"
                )
            return self.before
        await self.producer.begin_transaction()
        return None

    async def commit(self, rows: int, digest: int) -> None:
        """Commit what was sent, and the mark of it.

        Raises:
            KafkaError: It is not committed; or, with a KafkaTimeoutError, nobody knows: the next
                attempt finds it out.
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
            except KafkaTimeoutError:  # it goes on meanwhile
                if loop.time() >= deadline:
                    raise

    async def close(self) -> None:
        """Abort what was not committed, and let go of the cluster. Brokers that do not answer
        leave that to the next attempt."""
        await self.producer.stop(_CLOSE_WITHIN)


async def read_mark(client: AIOKafkaClient, name: str, topic: str | None) -> Marker | None:
    """The newest mark of a task; None: it never wrote.

    Args:
        topic: Where the mark should be. It is asked for by its partition first: of a first mark
            whose transaction is being ended a broker says so to that question only. None: only
            marks of which nobody has told are looked for.

    Raises:
        ReplayError: The group has offsets that are none of ours.
        KafkaError: The group's coordinator did not tell.
    """
    committed: dict[TopicPartition, OffsetAndMetadata] = {}
    if topic is not None:
        committed |= await client.committed_offsets(name, [TopicPartition(topic, 0)])
    committed |= await client.committed_offsets(name)  # a task may have had another topic first
    marks = [Marker.read(each, name, tp.topic) for tp, each in committed.items()]
    return max(marks, key=lambda mark: mark.epoch, default=None)


# --- on the driver


async def check_marks(client: AIOKafkaClient, written: Sequence[TaskWritten]) -> None:
    """Compare what the tasks of an epoch tell with what the cluster has.

    A mark of this epoch that no task tells of is one of an earlier run, which split the epoch into
    other tasks: its rows are there beside those of now. It is looked for whenever a task has not
    written before in this run.

    Args:
        client: Connected.
        written: What the tasks of one epoch told.

    Raises:
        ReplayError: They differ.
        KafkaError: The cluster did not tell.
    """
    places = [each.place for each in written if each.place is not None]
    if not places:
        return
    epoch = places[0].epoch
    told = {each.place.name: each for each in written if each.place is not None and each.rows}
    names = set(told)
    if all(each.first for each in written):
        names |= {name for name in await _groups(client) if places[0].is_of_same_write(name)}
    topics = {name: told[name].topic if name in told else None for name in sorted(names)}
    for name, mark in (await _marks(client, topics)).items():
        known = told.get(name)
        if known is None:
            if mark is not None and mark.epoch == epoch:
                raise ReplayError(
                    f"epoch {epoch} was written before by other tasks: {name!r} holds {mark.rows} "
                    "rows of it that no task of now has. They are in Kafka beside those of now. "
                    "An epoch has to be split into the same tasks when it is replayed: set "
                    "spark.sql.adaptive.streaming.stateless.enabled=false, and keep the options "
                    "and the number of shuffle partitions"
                )
        elif mark is None or (mark.epoch, mark.rows, mark.digest) != (
            epoch,
            known.rows,
            known.digest,
        ):
            raise ReplayError(
                f"task {name!r} told of {known.rows} rows of epoch {epoch}, and its mark is {mark}"
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
    """Names of all groups of the cluster, or of those that may be known.

    Each broker tells of those that it coordinates: while one is away, its groups move to others,
    and all have to be asked again.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE
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
            raise for_code(response.error_code)(f"the groups of {broker}")
        found.update(group.group_id for group in response.groups)
    return found
