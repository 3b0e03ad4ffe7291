"""The result of `send_many`: the acks of all records, created on demand."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from aiokafka_lite.producer.batching.accumulator import Ack
from aiokafka_lite.producer.stored_runs import stored_runs

if TYPE_CHECKING:
    from aiokafka_lite.producer.batching.accumulator import ProducerBatch
    from aiokafka_lite.structs import StoredRun

__all__ = ["SentRecords"]


class SentRecords(Sequence[Ack]):
    """The records of one `send_many` call: a sequence of their acks, and one awaitable for all of
    them.

    Awaiting it waits until every record is stored or has failed, and returns where they are: the
    `StoredRun`s in the order of the records. If any record failed, it raises the error of the
    first one; other records may be stored. It may be awaited more than once. This costs much less
    than awaiting each ack.

    As a sequence, it contains an `Ack` for each record, in order, as `send` returns it. `acks[2]`
    is the same object each time.

    Cancellation: stops the wait, never a delivery.

    Args:
        entries: For each record, or consecutive records of one batch, its `Ack`, or a tuple: the
            batch, the first record's index in it, their number, and their timestamp.
    """

    __slots__ = ("_acks", "_entries")

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries
        self._acks: list[Ack] | None = None

    def __len__(self) -> int:
        if self._acks is not None:
            return len(self._acks)
        return sum(1 if isinstance(entry, Ack) else entry[2] for entry in self._entries)

    @overload
    def __getitem__(self, index: int) -> Ack: ...
    @overload
    def __getitem__(self, index: slice) -> list[Ack]: ...

    def __getitem__(self, index: int | slice) -> Ack | list[Ack]:
        return self._made()[index]

    def __iter__(self) -> Iterator[Ack]:
        return iter(self._made())

    def _made(self) -> list[Ack]:
        """The acks; made once, so that each is one object."""
        acks = self._acks
        if acks is None:
            acks = self._acks = []
            for entry in self._entries:
                if isinstance(entry, Ack):
                    acks.append(entry)
                else:
                    batch, index, count, stamp = entry
                    acks += [batch.ack(at, stamp) for at in range(index, index + count)]
        return acks

    def done(self) -> bool:
        """Return True if all records are stored or have failed."""
        return all(batch.done for batch, _, _ in self._parts())

    def _parts(self) -> Iterator[tuple[ProducerBatch, int, int]]:
        for entry in self._entries:
            if isinstance(entry, Ack):
                yield entry._batch, entry._index, 1
            else:
                yield entry[0], entry[1], entry[2]

    def __await__(self) -> Generator[Any, Any, tuple[StoredRun, ...]]:
        return self._outcome().__await__()

    async def _outcome(self) -> tuple[StoredRun, ...]:
        parts = list(self._parts())
        for batch, index, _ in parts:
            if not batch.done:
                with contextlib.suppress(Exception):  # the first record's error is raised below
                    await batch.ack(index, -1)
        found: list[StoredRun] = []
        for batch, index, count in parts:
            for run in stored_runs(batch, index, count):
                last = found[-1] if found else None
                if (
                    last is not None
                    and run.partition == last.partition
                    and 0 <= last.base_offset == run.base_offset - last.rows
                ):
                    found[-1] = last._replace(rows=last.rows + run.rows)
                else:
                    found.append(run)
        return tuple(found)

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<{type(self).__name__} of {len(self)} records, {state}>"
