"""Ending a stream after the batch that runs, not in the middle of it.

``StreamingQuery.stop()`` interrupts: a batch half written is written again at the next start, and
an at-least-once sink has those rows twice. So the query's own loop is told to end, as Spark itself
does when an ``AvailableNow`` query has no more to read: its state becomes TERMINATED, which the
loop looks at between two batches. That state is reached through the JVM; over Spark Connect there
is none, and the query is stopped in the moment a batch has ended.
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

logger = logging.getLogger(__name__)


def end_after_batch(query: StreamingQuery, hurry: threading.Event | None = None) -> None:
    """End the query when the batch that runs, if any, is done and committed.

    Args:
        query: a streaming query of a classic or of a Connect session.
        hurry: when it is set, the batch is not waited for any longer.

    Raises:
        StreamingQueryException: what that last batch failed with.
    """
    from pyspark.errors import StreamingQueryException

    asked = _ask_loop_to_end(query)
    batch = _batches_done(query)
    while query.status["isTriggerActive"] and not (hurry is not None and hurry.is_set()):
        if not asked and _batches_done(query) != batch:
            break  # the next one has hardly begun
        time.sleep(POLL)
    query.stop()
    failure = query.exception()
    if isinstance(failure, StreamingQueryException):
        raise failure


def _ask_loop_to_end(query: StreamingQuery) -> bool:
    """Set the state that the query's loop looks at; False where it cannot be reached."""
    from py4j.protocol import Py4JError

    java_query = getattr(query, "_jsq", None)
    if java_query is None:
        return False
    try:
        execution = java_query.streamingQuery()
        state = execution.state()
        # The object TERMINATED lives beside the states that are there before it.
        active = state.get().getClass()
        name = f"{active.getPackageName()}.TERMINATED$"
        state.set(active.getClassLoader().loadClass(name).getField("MODULE$").get(None))
    except Py4JError as error:
        # Not Spark's promise to keep: a release may have it elsewhere.
        logger.debug("the query's state cannot be reached: %s", error)
        return False
    return True


def _batches_done(query: StreamingQuery) -> object:
    progress = query.lastProgress
    return None if progress is None else progress["batchId"]
