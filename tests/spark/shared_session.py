"""The Spark session that the tests of one process share."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from tools.spark import open_session
from tools.spark.session import abandon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 120  # seconds in which a session must prove that it works

logger = logging.getLogger(__name__)


class SharedSession:
    """The session of the run, or a new one if a failed test has broken it."""

    def __init__(self, jars: list[Path]) -> None:
        self._jars = jars
        self._open = ExitStack()
        self._session: SparkSession | None = None
        self.doubted = False
        # An exception that was raised while a test waited for the JVM leaves the response behind:
        # the next call would read it as its own.
        self.interrupted = False

    def session(self) -> SparkSession:
        if self._session is not None and (
            self.interrupted or (self.doubted and not self._works(self._session))
        ):
            self._session = None
            abandon(self._open)
        self.doubted = self.interrupted = False
        if self._session is None:
            self._session = self._open.enter_context(open_session(jars=self._jars))
        return self._session

    def _works(self, session: SparkSession) -> bool:
        """Stop the queries that a test left running; True if the session then works."""
        working = Future[bool]()

        def work() -> None:
            try:
                for query in session.streams.active:
                    query.stop()
                working.set_result(session.range(1).count() == 1)
            except Exception as error:
                working.set_exception(error)

        # In a separate thread, which has its own connection to the JVM.
        Thread(target=work, name="is the session broken?", daemon=True).start()
        try:
            return working.result(PATIENCE)
        except Exception as error:
            logger.warning("The Spark session is replaced, because it does not work: %r", error)
            return False

    def close(self) -> None:
        if self._session is not None:
            self._open.close()
