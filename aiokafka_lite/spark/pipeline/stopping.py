"""Ends a stream after the current batch, not in the middle of it.

`StreamingQuery.stop()` interrupts the batch: the next start writes a partial batch again, and an
at-least-once sink gets those rows twice. So this module ends the query's own loop, as Spark itself
does when an `AvailableNow` query has read everything: it sets the query's state to TERMINATED,
which the loop checks between two batches.

The loop also checks the state right before it writes a batch; it would then interrupt itself and
leave the batch's job running. So the state is set while that job runs, after this check. If no job
runs (between two triggers, or while a source waits for data), `stop()` is correct.

State and job are accessible only through the JVM. Spark Connect provides neither: there the query
is stopped while it waits, or right after a batch ends.
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
WAITING = 10  # consecutive checks without a batch: not just a gap between two

logger = logging.getLogger(__name__)


def end_after_batch(query: StreamingQuery, hurry: threading.Event | None = None) -> None:
    """End the query after the current batch, if any, is complete and committed.

    Args:
        query: A streaming query of a classic or a Connect session.
        hurry: Once set, do not wait for the batch any longer.

    Raises:
        StreamingQueryException: The last batch failed.
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
            break  # the next batch has just started
        time.sleep(POLL)
    query.stop()
    failure = query.exception()
    if isinstance(failure, StreamingQueryException):
        raise failure


def _writes(query: StreamingQuery) -> bool:
    """Return True if a job of the query's batch runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return False
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(str(query.runId))
    infos = [tracker.getJobInfo(job) for job in jobs]
    return any(info is not None and info.status == "RUNNING" for info in infos)


def _ask_loop_to_end(query: StreamingQuery) -> bool:
    """Set the state that the query's loop checks; return False if it is not accessible."""
    from py4j.protocol import Py4JError

    try:
        state = query._jsq.streamingQuery().state()
        # The object TERMINATED is defined beside the other states.
        active = state.get().getClass()
        name = f"{active.getPackageName()}.TERMINATED$"
        state.set(active.getClassLoader().loadClass(name).getField("MODULE$").get(None))
    except Py4JError as error:
        # This is not a public Spark API, so a release may move it.
        logger.debug("Cannot access the query's state: %s", error)
        return False
    return True


def _last_batch(query: StreamingQuery) -> object:
    progress = query.lastProgress
    return None if progress is None else progress["batchId"]
