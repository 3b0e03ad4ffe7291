"""`ProgressListener`: the progress and lag of every streaming query in a session.

spark.streams.addListener(ProgressListener(lambda progress: print(progress.line())))

Invariants: Spark calls from its own thread, one call at a time. Exceptions from the callback are
logged and not passed to Spark, which would silently drop the event.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from aiokafka_lite.spark.progress import Lag, Progress

__all__ = ["Lag", "Progress", "ProgressListener"]

logger = logging.getLogger(__name__)


class ProgressListener(StreamingQueryListener):
    """Passes every micro-batch's `Progress` to a callback.

    Args:
        report: Called with each `Progress`, in a Spark thread; by default it is logged at INFO.
        query: Reports only the query with this name; by default all queries.
    """

    def __init__(
        self, report: Callable[[Progress], None] | None = None, *, query: str | None = None
    ) -> None:
        self._report = report or _log
        self._query = query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        logger.debug("Query %s started, run %s", event.name or event.id, event.runId)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = Progress.parse(json.loads(event.progress.json))
        if self._query is not None and progress.query != self._query:
            return
        try:
            self._report(progress)
        except Exception:
            logger.exception("Reporting the progress of batch %d failed", progress.batch_id)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        logger.debug("Query %s is waiting for data", event.id)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        logger.debug("Query %s ended, run %s", event.id, event.runId)


def _log(progress: Progress) -> None:
    logger.info("%s: %s", progress.query, progress.line())
