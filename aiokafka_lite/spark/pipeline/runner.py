"""Runs a pipeline: until it is stopped, until everything is read, or as one bounded batch.

Invariants: a stopped stream ends after the current batch. A session that this module opened is
stopped; a session passed in, or one that existed before, keeps running.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiokafka_lite.spark.pipeline.building import batch_writer, build, stream_writer
from aiokafka_lite.spark.pipeline.reporting import Summary, Tally
from aiokafka_lite.spark.pipeline.spark_session import is_running, open_session, same_tasks
from aiokafka_lite.spark.pipeline.spec import Pipeline
from aiokafka_lite.spark.pipeline.stopping import end_after_batch
from aiokafka_lite.spark.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["run", "start"]

LOOK = 1  # seconds between two checks whether to end

logger = logging.getLogger(__name__)


def run(
    pipeline: Pipeline,
    *,
    spark: SparkSession | None = None,
    once: bool = False,
    master: str | None = None,
    remote: str | None = None,
    archive: str | None = None,
    stop: threading.Event | None = None,
    hurry: threading.Event | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Summary:
    """Run a pipeline to its end.

    Args:
        pipeline: What to run.
        spark: The session to run in. By default the existing session of this process with the
            pipeline's settings, or else a new one that is stopped at the end.
        once: True to read the available records of a stream, then end.
        master, remote, archive: Settings of a new session; see `open_session`.
        stop: Once set, from any thread or signal handler, the stream ends after the current
            batch. A bounded pipeline is one batch.
        hurry: Once set, that batch is interrupted. A bounded pipeline then fails, because it is
            incomplete.
        report: Called once with every batch's progress, usually in another thread.

    Returns:
        A summary of the run: rows, duration and why it ended.

    Raises:
        SpecError: The pipeline does not fit its data.
        StreamingQueryException, AnalysisException: Spark failed.
    """
    stop = stop or threading.Event()
    own = spark is None and not is_running()
    session = spark or open_session(pipeline, master=master, remote=remote, archive=archive)
    try:
        if pipeline.source.bounded:
            with _interrupted_by(hurry, session):
                return _run_bounded(pipeline, session)
        return _run_stream(pipeline, session, once, stop, hurry, report)
    finally:
        if own:
            session.stop()


def start(pipeline: Pipeline, spark: SparkSession, *, once: bool = False) -> StreamingQuery:
    """Start a stream in a session, such as a notebook's, and leave it running.

    Raises:
        SpecError: The pipeline does not fit its data, or its source is bounded.
    """
    writer = stream_writer(pipeline, build(pipeline, spark), once=once)
    with same_tasks(pipeline, spark):
        return writer.start()


def _run_stream(
    pipeline: Pipeline,
    session: SparkSession,
    once: bool,
    stop: threading.Event,
    hurry: threading.Event | None,
    report: Callable[[Progress], None] | None,
) -> Summary:
    from aiokafka_lite.spark.progress_listener import ProgressListener

    tally = Tally()

    def on_progress(progress: Progress) -> None:
        # Spark may still report a previous run.
        if progress.run_id == str(query.runId) and tally.add(progress) and report is not None:
            report(progress)

    query = start(pipeline, session, once=once)
    listener = ProgressListener(on_progress, query=pipeline.name)
    session.streams.addListener(listener)
    ended = "all read"
    try:
        while not query.awaitTermination(LOOK):
            if stop.is_set():
                ended = "stopped"
                end_after_batch(query, hurry)
                break
    finally:
        if query.isActive:
            query.stop()
        session.streams.removeListener(listener)
        # The events of the last batches may arrive later.
        for progress in query.recentProgress:
            on_progress(Progress.parse(json.loads(progress.json)))
    return tally.summary(pipeline.name, ended)


@contextmanager
def _interrupted_by(hurry: threading.Event | None, session: SparkSession) -> Iterator[None]:
    """Interrupt the Spark jobs of the block once `hurry` is set."""
    if hurry is None:
        yield
        return
    tag = f"pipeline-{uuid.uuid4().hex}"
    # A classic session's tags belong to the thread that added them; its context's do not.
    context = session.sparkContext if hasattr(session, "_jsparkSession") else None
    add, remove, interrupt = (
        (session.addTag, session.removeTag, session.interruptTag)
        if context is None
        else (context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)
    )
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK):
            if hurry.is_set():  # repeatedly: another job may start after this one
                try:
                    interrupt(tag)
                except Exception as error:  # the JVM ended; its waiting caller gets the error
                    logger.debug("Could not interrupt the running jobs: %s", error)

    watching = threading.Thread(target=watch, name="pipeline in a hurry", daemon=True)
    add(tag)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()
        remove(tag)


def _run_bounded(pipeline: Pipeline, session: SparkSession) -> Summary:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    written = Observation()
    records = build(pipeline, session).observe(written, F.count(F.lit(1)).alias("rows"))
    began = time.monotonic()
    batch_writer(pipeline.sink, records).save()
    rows = int(written.get["rows"])
    return Summary(pipeline.name, "all written", rows, 1, time.monotonic() - began)
