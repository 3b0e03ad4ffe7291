"""The Spark session that a pipeline runs in, where none was given."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aiokafka_lite.spark.pipeline.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

    from aiokafka_lite.spark.pipeline.spec import Pipeline

__all__ = [
    "ARCHIVE_FOLDER",
    "SparkMissing",
    "is_running",
    "know_format",
    "need_spark",
    "open_session",
    "same_tasks",
]

ARCHIVE_FOLDER = "aiokafka_lite_packed"
"""Where executors find what `packing` packed, under their working folder."""

_TASKS_VARY: Final = "spark.sql.adaptive.streaming.stateless.enabled"
"""Whether a replayed batch may have its rows in other tasks (SPARK-53941); by default it may."""


class SparkMissing(RuntimeError):
    """pyspark, or what it needs of Python's, is not installed; the message says what to do."""


def need_spark(*, remote: bool = False) -> None:
    """Make sure that a session can be opened at all.

    Raises:
        SparkMissing: Something of Python's is not installed.
        JavaMissing: There is no Java for Spark; a remote session needs none here.
    """
    if not remote:
        find_java()
    for module in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(module) is None:
            raise SparkMissing(
                f"{module} is not installed: pip install 'aiokafka_lite[spark]' (500 MB)"
            )
    if remote and importlib.util.find_spec("grpc") is None:
        raise SparkMissing(
            "for Spark Connect grpc is missing: pip install 'pyspark[connect]' of the same version"
        )


def is_running() -> bool:
    """Whether this process has a session already, a notebook's say: `open_session` takes it, and to
    stop it would be to stop its owner's."""
    # By the modules that are there: Connect's own client has no classic Spark in it.
    classic = sys.modules.get("pyspark.core.context")
    if classic is not None and classic.SparkContext._active_spark_context is not None:
        return True
    connect = sys.modules.get("pyspark.sql.connect.session")
    if connect is None:
        return False
    sessions = connect.SparkSession
    return (sessions.getActiveSession() or sessions._get_default_session()) is not None


def open_session(
    pipeline: Pipeline,
    *,
    master: str | None = None,
    remote: str | None = None,
    archive: str | None = None,
) -> SparkSession:
    """A session as a pipeline wants it.

    What the pipeline itself configures stands above everything chosen here.

    Args:
        pipeline: Gives the name, the configuration, and the master where none is given.
        master: `local[4]`, `spark://host:7077`, ...
        remote: `sc://host:15002`: the session is that of a Connect server.
        archive: What `pipeline pack` made, for executors that have no aiokafka_lite.

    Raises:
        SparkMissing: Something of Python's is not installed.
        JavaMissing: There is no Java for Spark.
        ValueError: A Connect server's session is asked for and a master, or an archive, too.
    """
    if remote is not None and (master is not None or archive is not None):
        raise ValueError(
            "a Connect server has its own master, and its executors their own packages:"
            " --remote goes with neither --master nor --archive"
        )
    need_spark(remote=remote is not None)
    from pyspark.sql import SparkSession

    if remote is not None:
        # Settings of the session alone can be made there; the others are the server's.
        builder = SparkSession.builder.remote(remote)
        for name, value in {**_chosen(pipeline, ""), **pipeline.conf}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    # Under spark-submit the master is in spark-submit's own configuration.
    submitted = "SPARK_ENV_LOADED" in os.environ
    where = master or pipeline.master or ("" if submitted else "local[*]")
    if where.startswith("local"):
        # Spark would start "python3", whichever that is, not the Python of this environment.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {**_chosen(pipeline, where), **_shipped(archive), **pipeline.conf}
    if where:
        conf["spark.master"] = where
    return _classic({"spark.app.name": pipeline.name, **conf})


def know_format(session: SparkSession) -> None:
    """Make sure that the session knows `kafka_lite`.

    Spark finds it by itself where aiokafka_lite stands in a folder on Python's path; what an import
    hook finds (as some tools make editable installations) it does not see.
    """
    from aiokafka_lite.spark import register

    register(session)


@contextmanager
def same_tasks(pipeline: Pipeline, session: SparkSession) -> Iterator[None]:
    """A stream that is started within has the rows of a replayed batch in the same tasks, where its
    sink writes exactly once: in a session that was not opened for it, too.

    The session is as it was behind that: a stream runs on a copy of its settings.
    """
    if not pipeline.sink.exactly_once:
        yield
        return
    before = session.conf.get(_TASKS_VARY, None)
    session.conf.set(_TASKS_VARY, pipeline.conf.get(_TASKS_VARY, "false"))
    try:
        yield
    finally:
        if before is None:  # a Spark that does not know it
            session.conf.unset(_TASKS_VARY)
        else:
            session.conf.set(_TASKS_VARY, before)


def _classic(settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setAll(list(settings.items()))
    if SparkContext._active_spark_context is None:
        # Out of reach of signals to this process's group (Ctrl-C, timeout): it is for this process
        # to say when the JVM ends, after the batch that runs.
        launch: Callable[..., JavaGateway] = launch_gateway
        SparkContext(conf=conf, gateway=launch(conf, {"start_new_session": True}))
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _chosen(pipeline: Pipeline, master: str) -> dict[str, str]:
    conf = {
        # A day of the archive is a day in UTC wherever the driver stands.
        "spark.sql.session.timeZone": "UTC",
    }
    if pipeline.sink.exactly_once:
        conf[_TASKS_VARY] = "false"
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if local:
        cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
        # 200 tasks for every shuffle are Spark's default; here each would cost more than its work.
        conf["spark.sql.shuffle.partitions"] = str(max(2, cores))
    if master:
        # The progress line has the terminal for itself.
        conf["spark.ui.showConsoleProgress"] = "false"
        conf["spark.log.level"] = "ERROR"
    return conf


def _shipped(archive: str | None) -> Mapping[str, str]:
    if archive is None:
        return {}
    return {
        "spark.archives": f"{archive}#{ARCHIVE_FOLDER}",
        "spark.executorEnv.PYTHONPATH": ARCHIVE_FOLDER,
    }
