"""The ack of `send_columns`: one for all rows of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any

from aiokafka_lite.producer.batching.row_appending import Run
from aiokafka_lite.producer.stored_runs import stored_runs
from aiokafka_lite.structs import StoredColumns, StoredRun

__all__ = ["ColumnsAck"]


class ColumnsAck:
    """An awaitable of the `StoredColumns` of one `send_columns` call.

    It may be awaited more than once. Awaiting it waits until every batch is stored or has failed.
    If any batch failed, it raises the error of the first one; other rows may be stored.

    Cancellation: stops the wait, never the delivery.

    Args:
        topic: The topic.
        runs: The rows, grouped by batch.
    """

    def __init__(self, topic: str, runs: Sequence[Run]) -> None:
        self._topic = topic
        self._runs = tuple(runs)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(run.count for run in self._runs)

    def done(self) -> bool:
        """True if all rows are stored or have failed."""
        return all(run.ack.done() for run in self._runs)

    def __await__(self) -> Generator[Any, Any, StoredColumns]:
        return self._outcome().__await__()

    async def _outcome(self) -> StoredColumns:
        waiting = [run.ack for run in self._runs if not run.ack.done()]
        if waiting:
            await asyncio.wait(waiting)  # unlike `gather`, cancelling it cancels no ack
        found: dict[int, list[StoredRun]] = {}
        for run in self._runs:
            for stored in stored_runs(run.batch, run.index, run.count):
                runs = found.setdefault(stored.partition, [])
                if runs and 0 <= stored.base_offset == runs[-1].base_offset + runs[-1].rows:
                    runs[-1] = runs[-1]._replace(rows=runs[-1].rows + stored.rows)
                else:
                    runs.append(stored)
        runs_of_all = tuple(run for number in sorted(found) for run in found[number])
        return StoredColumns(self._topic, self.rows, runs_of_all)

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<{type(self).__name__} of {self.rows} rows to {self._topic}, {state}>"
