"""Checks everything that a pipeline needs, from Java to the executors, and suggests fixes.

Each check prints one line. Checks that depend on a failed one are skipped.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiokafka_lite._build import NATIVE
from aiokafka_lite.spark.pipeline.java import JavaMissing, find_java
from aiokafka_lite.spark.pipeline.spark_session import know_format, open_session
from aiokafka_lite.spark.pipeline.spec import KAFKA_FORMATS, Pipeline, Sink, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TRIAL", "Finding", "examine"]

OLDEST = {"pyspark": (4, 2), "pyarrow": (17, 0), "pandas": (2, 2)}
CONNECT_TIMEOUT = 10.0  # seconds for Kafka to answer

TRIAL = Pipeline("doctor", Source("rate"), Sink("noop"))
"""The pipeline to check if none is given."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its subject, whether it passed, and the details or the fix."""

    what: str
    well: bool
    words: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.well else 'FAIL'} {self.what:<12} {self.words}"


def examine(
    pipeline: Pipeline = TRIAL,
    *,
    master: str | None = None,
    remote: str | None = None,
    archive: str | None = None,
) -> Iterator[Finding]:
    """Check Python, Java, the packages, Kafka, a session and its executors, in this order.

    Args:
        pipeline: Adds checks of its Kafka cluster, and provides the session's settings.
        master, remote, archive: The settings of a run.
    """
    yield _python()
    yield _native()
    well = True
    for finding in _packages():
        well = well and finding.well
        yield finding
    if remote is None:
        java = _java()
        well = well and java.well
        yield java
    for bootstrap in sorted(_brokers(pipeline)):
        yield _kafka(bootstrap)
    if not well:
        return
    try:
        session = open_session(pipeline, master=master, remote=remote, archive=archive)
    except Exception as error:  # any error of Spark, py4j or the network is the finding
        yield Finding("session", False, _first_line(error))
        return
    try:
        where = remote or session.conf.get("spark.master", "") or "?"
        yield Finding("session", True, f"Spark {session.version} at {where}")
        yield _tried("executors", lambda: _executors(session))
        yield _tried("format", lambda: _format(session))
    finally:
        session.stop()


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    chosen = os.environ.get("PYSPARK_PYTHON")
    words = f"{version}, {sys.executable}"
    return Finding("Python", True, f"{words}; workers: {chosen}" if chosen else words)


def _native() -> Finding:
    words = "compiled" if NATIVE else "not compiled: pure Python is used, which is slower"
    return Finding("hot paths", True, words)


def _packages() -> Iterator[Finding]:
    for name, oldest in OLDEST.items():
        least = ".".join(map(str, oldest))
        if importlib.util.find_spec(name) is None:
            advice = "pip install 'aiokafka_lite[spark]'"
            yield Finding(name, False, f"is not installed; version {least}+ is required: {advice}")
            continue
        version = importlib.metadata.version(name)
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
        if numbers < oldest:
            yield Finding(name, False, f"{version} is too old: version {least}+ is required")
        elif name == "pandas" and numbers >= (3, 0):
            yield Finding(
                name, False, f"{version}: Spark does not support 3 yet: pip install 'pandas<3'"
            )
        else:
            yield Finding(name, True, version)


def _java() -> Finding:
    try:
        java = find_java()
    except JavaMissing as error:
        return Finding("Java", False, str(error))
    return Finding("Java", True, f"{java.version}, {java.path}")


def _brokers(pipeline: Pipeline) -> set[str]:
    parts: list[Source | Sink] = [*pipeline.sources, pipeline.sink]
    return {
        part.options.get("kafka.bootstrap.servers", "")
        for part in parts
        if part.format in KAFKA_FORMATS
    }


def _kafka(bootstrap: str) -> Finding:
    """Check that a broker accepts connections; permissions are not checked."""
    what = f"Kafka {bootstrap}"
    if not bootstrap:
        return Finding("Kafka", False, "kafka.bootstrap.servers is missing")
    said = []
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            asyncio.run(_connect(host.strip("[]"), int(port)))
        except (OSError, ValueError) as error:
            said.append(f"{server.strip()}: {str(error) or type(error).__name__}")
        else:
            return Finding(what, True, f"{server.strip()} listens")
    return Finding(what, False, "; ".join(said))


async def _connect(host: str, port: int) -> None:
    async with asyncio.timeout(CONNECT_TIMEOUT):
        _, writer = await asyncio.open_connection(host, port)
    writer.close()
    await writer.wait_closed()


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except Exception as error:  # an executor may fail with any of Spark's errors
        return Finding(what, False, _first_line(error))


def _executors(session: SparkSession) -> str:
    """Import aiokafka_lite in a task on the executors."""
    from collections.abc import Iterable

    import pyarrow as pa

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import platform

        import aiokafka_lite
        from aiokafka_lite._build import NATIVE as native

        # Spark needs rows to run a task.
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict(
            {
                "host": [platform.node()],
                "python": [platform.python_version()],
                "version": [aiokafka_lite.__version__],
                "native": [native],
                "place": [str(aiokafka_lite.__file__)],
            }
        )

    schema = "host string, python string, version string, native boolean, place string"
    rows = session.range(0, 4, 1, 4).mapInArrow(look, schema).distinct().collect()
    return "; ".join(
        f"{row.host}: Python {row.python}, aiokafka_lite {row.version},"
        f" {'native' if row.native else 'pure Python (several times slower)'}, {row.place}"
        for row in rows
    )


def _format(session: SparkSession) -> str:
    """Check that Spark finds the format by name; this does not need Kafka."""
    know_format(session)
    frame = session.read.format("kafka_lite").options(
        **{"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
    )
    return f"kafka_lite is available: {', '.join(frame.load().columns)}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
