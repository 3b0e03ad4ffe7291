"""Opens the Spark session of a pipeline if none is given."""

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
"""Folder of the unpacked archive of `packing`, in the executors' working directory."""

_TASKS_VARY: Final = "spark.sql.adaptive.streaming.stateless.enabled"
"""If true (the default), a replayed batch may have its rows in other tasks (SPARK-53941)."""


class SparkMissing(RuntimeError):
    """pyspark or one of its Python dependencies is missing; the message says what to install."""


def need_spark(*, remote: bool = False) -> None:
    """Check that a session can be opened.

    Raises:
        SparkMissing: A Python package is not installed.
        JavaMissing: There is no Java for Spark; a remote session does not need it here.
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
            "Spark Connect requires grpc: pip install 'pyspark[connect]' of the same version"
        )


def is_running() -> bool:
    """Return True if this process already has a session, such as a notebook's. `open_session`
    returns that session, which only its owner may stop."""
    # Check the loaded modules: Connect's own client does not contain classic Spark.
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
    """Open a session for a pipeline.

    The pipeline's own configuration overrides the settings chosen here.

    Args:
        pipeline: Provides the name, the configuration, and the default master.
        master: `local[4]`, `spark://host:7077`, ...
        remote: URL of a Connect server: `sc://host:15002`.
        archive: An archive from `pipeline pack`, for executors without aiokafka_lite.

    Raises:
        SparkMissing: A Python package is not installed.
        JavaMissing: There is no Java for Spark.
        ValueError: `remote` is combined with `master` or `archive`.
    """
    if remote is not None and (master is not None or archive is not None):
        raise ValueError(
            "--remote cannot be combined with --master or --archive:"
            " a Connect server has its own master, and its executors have their own packages"
        )
    need_spark(remote=remote is not None)
    from pyspark.sql import SparkSession

    if remote is not None:
        # Only session settings apply here; the others belong to the server.
        builder = SparkSession.builder.remote(remote)
        for name, value in {**_chosen(pipeline, ""), **pipeline.conf}.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    # Under spark-submit, its configuration contains the master.
    submitted = "SPARK_ENV_LOADED" in os.environ
    where = master or pipeline.master or ("" if submitted else "local[*]")
    if where.startswith("local"):
        # By default Spark starts any "python3", not the Python of this environment.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {**_chosen(pipeline, where), **_shipped(archive), **pipeline.conf}
    if where:
        conf["spark.master"] = where
    return _classic({"spark.app.name": pipeline.name, **conf})


def know_format(session: SparkSession) -> None:
    """Ensure that the session knows the format `kafka_lite`.

    Spark finds aiokafka_lite in a folder on Python's path, but not through an import hook (as some
    editable installations use).
    """
    from aiokafka_lite.spark import register

    register(session)


@contextmanager
def same_tasks(pipeline: Pipeline, session: SparkSession) -> Iterator[None]:
    """Give a replayed batch the same rows per task in streams started in this context, if the sink
    writes exactly once; works in any session.

    The session's setting is restored at exit: a stream runs with a copy of its settings.
    """
    if not pipeline.sink.exactly_once:
        yield
        return
    before = session.conf.get(_TASKS_VARY, None)
    session.conf.set(_TASKS_VARY, pipeline.conf.get(_TASKS_VARY, "false"))
    try:
        yield
    finally:
        if before is None:  # this Spark version does not have the setting
            session.conf.unset(_TASKS_VARY)
        else:
            session.conf.set(_TASKS_VARY, before)


def _classic(settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setAll(list(settings.items()))
    if SparkContext._active_spark_context is None:
        # Protect the JVM from signals to this process group (Ctrl-C, timeout): this process
        # ends the JVM after the current batch.
        launch: Callable[..., JavaGateway] = launch_gateway
        SparkContext(conf=conf, gateway=launch(conf, {"start_new_session": True}))
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _chosen(pipeline: Pipeline, master: str) -> dict[str, str]:
    conf = {
        # A day of the archive is a UTC day, whatever the driver's time zone.
        "spark.sql.session.timeZone": "UTC",
    }
    if pipeline.sink.exactly_once:
        conf[_TASKS_VARY] = "false"
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if local:
        cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
        # Spark's default is 200 tasks per shuffle, which cost more than their work here.
        conf["spark.sql.shuffle.partitions"] = str(max(2, cores))
    if master:
        # Only the progress line uses the terminal.
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
