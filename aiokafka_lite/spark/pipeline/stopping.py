"""Ends a stream after the current batch, not in the middle of it.

`StreamingQuery.stop()` interrupts the batch: the next start writes a partial batch again, and an
at-least-once sink gets those rows twice. So this module ends the query's own loop, as Spark itself
does when an `AvailableNow` query has read everything: it sets the query's state to TERMINATED,
which the loop checks between two batches.

The loop also checks the state right before it writes a batch; it would then interrupt itself and
leave the batch's job running. So the state is set while the loop writes, after this check. The
loop's own lock, which it needs to commit the batch, is held meanwhile: otherwise the batch may be
committed, and the next one begun, between looking and setting. If nothing is written (between two
triggers, or while a source waits for data), `stop()` is correct.

What the loop does is visible in its thread's stack trace, at once and for the price of one call.
Spark's job tracker is too slow for it: it lists all jobs of the query, with a call for each, and
lags behind the jobs of a fast stream, so that the running one is never found.

State, lock and thread are accessible only through the JVM. Spark Connect provides none of them:
there the query is stopped while it waits, or right after a batch ends.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["end_after_batch"]

POLL = 0.05  # seconds
WAITING = 10  # consecutive checks without a batch: not just a gap between two
WRITES = ".withNewExecutionId("  # in the stack trace of a loop that writes
MISSED = 100  # batches of which none was seen being written: this Spark does not work as expected

logger = logging.getLogger(__name__)


def end_after_batch(query: StreamingQuery, hurry: threading.Event | None = None) -> None:
    """End the query after the current batch, if any, is complete and committed.

    Args:
        query: A streaming query of a classic or a Connect session.
        hurry: Once set, do not wait for the batch any longer.

    Raises:
        StreamingQueryException: The last batch failed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import StreamingQueryException

    loop = _Loop.of(query)
    asked, waiting = False, 0
    first = batch = _last_batch(query)
    while not (hurry is not None and hurry.is_set()):
        status = query.status
        busy = status["isTriggerActive"] and (status["isDataAvailable"] or asked)
        waiting = 0 if busy else waiting + 1
        if waiting == WAITING:
            break
        if not asked and (last := _last_batch(query)) != batch:
            batch = last
            if loop is None or last - first > MISSED:
                break  # the next batch has just started
        if loop is not None and not asked and busy:
            try:
                asked = loop.end_if_it_writes()
            except Py4JError as error:
                # This is not a public Spark API, so a release may move it.
                logger.debug("Cannot access the query's state: %s", error)
                loop = None
        time.sleep(POLL)
    query.stop()
    failure = query.exception()
    if isinstance(failure, StreamingQueryException):
        raise failure


class _Loop:
    """The loop that runs the batches of a query, in the JVM."""

    def __init__(self, execution: JavaObject, jvm: JVMView) -> None:
        self._execution = execution
        self._jvm = jvm

    @classmethod
    def of(cls, query: StreamingQuery) -> _Loop | None:
        """Return the query's loop, or None if the query is not accessible through a JVM."""
        from py4j.clientserver import ClientServer
        from pyspark import SparkContext

        wrapper = getattr(query, "_jsq", None)
        gateway = SparkContext._gateway
        # Any other gateway may unlock in another thread of the JVM than it locked in.
        if wrapper is None or not isinstance(gateway, ClientServer):
            return None
        return cls(wrapper.streamingQuery(), gateway.jvm)

    def end_if_it_writes(self) -> bool:
        """Set the state that ends the loop after this batch if it writes one; False otherwise."""
        lock = self._execution.awaitProgressLock()
        if not lock.tryLock():
            return False  # it looks for records, or commits
        try:
            if WRITES not in self._stack():
                return False
            state = self._execution.state()
            # The object TERMINATED is defined beside the other states.
            active = state.get().getClass()
            name = f"{active.getPackageName()}.TERMINATED$"
            state.set(active.getClassLoader().loadClass(name).getField("MODULE$").get(None))
        finally:
            lock.unlock()
        return True

    def _stack(self) -> str:
        """Return what the loop's thread does, as text in one piece: py4j has a call an element."""
        holder, text = self._jvm.java.lang.Throwable(), self._jvm.java.io.StringWriter()
        holder.setStackTrace(self._execution.queryExecutionThread().getStackTrace())
        holder.printStackTrace(self._jvm.java.io.PrintWriter(text))
        return str(text.toString())


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
