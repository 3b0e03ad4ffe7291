"""Ending a stream after the batch that runs, not in the middle of it.

`StreamingQuery.stop()` interrupts: a batch half written is written again at the next start, and
an at-least-once sink has those rows twice. So the query's own loop is told to end, as Spark itself
does when an `AvailableNow` query has no more to read: its state becomes TERMINATED, which the
loop looks at between two batches.

The loop looks at it once more, right before a batch is written, and then interrupts itself and
leaves the batch's job running: so the state is set while that job runs, which is behind that look.
Where nothing runs (between two triggers, or while a source waits for data) `stop()` is right.

State and job are reached through the JVM. Spark Connect gives neither: there the query is stopped
when it waits, or in the moment that a batch has ended.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["end_after_batch"]

POLL = 0.05  # seconds
WAITING = 10  # looks in a row that find no batch: it is no gap between two of them

logger = logging.getLogger(__name__)


def end_after_batch(query: StreamingQuery, hurry: threading.Event | None = None) -> None:
    """End the query when the batch that runs, if any, is done and committed.

    Args:
        query: A streaming query of a classic or of a Connect session.
        hurry: Once it is set, the batch is not waited for any longer.

    Raises:
        StreamingQueryException: What that last batch failed with.
    """
    from pyspark.errors import StreamingQueryException

    reachable = getattr(query, "_jsq", None) is not None
    asked, waiting = False, 0
    batch = _last_batch(query)
    while not (hurry is not None and hurry.is_set()):
        status = query.status
        busy = status["isTriggerActive"] and (status["isDataAvailable"] or asked)
        waiting = 0 if busy else waiting + 1
        if waiting == WAITING:
            break
        if reachable and not asked and busy and _writes(query):
            reachable = asked = _ask_loop_to_end(query)
        elif not reachable and not asked and _last_batch(query) != batch:
            break  # the next one has hardly begun
        time.sleep(POLL)
    query.stop()
    failure = query.exception()
    if isinstance(failure, StreamingQueryException):
        raise failure


def _writes(query: StreamingQuery) -> bool:
    """Whether a job of the query's batch runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return False
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(str(query.runId))
    infos = [tracker.getJobInfo(job) for job in jobs]
    return any(info is not None and info.status == "RUNNING" for info in infos)


def _ask_loop_to_end(query: StreamingQuery) -> bool:
    """Set the state that the query's loop looks at; False where it cannot be reached."""
    from py4j.protocol import Py4JError

    try:
        state = query._jsq.streamingQuery().state()
        # The object TERMINATED lives beside the states that are there before it.
        active = state.get().getClass()
        name = f"{active.getPackageName()}.TERMINATED$"
        state.set(active.getClassLoader().loadClass(name).getField("MODULE$").get(None))
    except Py4JError as error:
        # Not Spark's promise to keep: a release may have it elsewhere.
        logger.debug("the query's state cannot be reached: %s", error)
        return False
    return True


def _last_batch(query: StreamingQuery) -> object:
    progress = query.lastProgress
    return None if progress is None else progress["batchId"]
