"""A Spark session whose JVM begins and ends with it.

pyspark keeps one JVM for the life of the process, and fixes its flags at the first session. This
module ends the JVM with the session, so that the next one may have other flags, and no process is
left running.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from tools.kafka.jars import KafkaNotAvailable, cache_dir, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
WORKER_START = Path(__file__).parent / "worker_start"
"""On the path of Python workers: connects them before they import anything."""
OLDEST = (4, 2)
"""The oldest supported PySpark: earlier ones do not pass the end of a batch to a Python source."""

logger = logging.getLogger(__name__)

_JVM_EXIT = 60.0  # seconds the JVM may take to end

# One compiler tier and one garbage collector thread: the optimizing compiler does not pay off in
# the short life of a test's JVM, and there are few cores.
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def missing() -> str | None:
    """Why Spark cannot run here and how to fix it; None if it can. Starts nothing."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return "pyspark is not installed (pip install 'aiokafka_lite[spark]')"
    number = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if number < OLDEST:
        return f"pyspark {found} is too old: 4.2 is needed (pip install 'aiokafka_lite[spark]')"
    if importlib.util.find_spec("pyarrow") is None:
        return "pyarrow is not installed (pip install 'aiokafka_lite[spark]')"
    try:
        java()
    except KafkaNotAvailable as error:
        return f"{error}; Spark needs Java 17 or newer (Debian: openjdk-17-jre-headless)"
    return None


@contextlib.contextmanager
def open_session(
    master: str = "local[2,4]",
    *,
    heap: str = "1g",
    quick: bool = True,
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
    jvm_options: Sequence[str] = (),
) -> Iterator[SparkSession]:
    """A session in its own JVM.

    Args:
        master: Spark's master; by default two tasks at a time, each tried four times.
        heap: Maximum heap of the JVM.
        quick: Optimize for startup time, not speed: for tests, not for measurements.
        jars: Added to the JVM's class path.
        settings: Override the harness's settings.
        jvm_options: Added to the harness's options.

    Raises:
        RuntimeError: A session exists already; a process can have only one.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise RuntimeError("this process has a Spark session already")
    folder = Path(tempfile.mkdtemp(prefix="spark-"))
    given = {**_settings(folder, heap, quick, jars, jvm_options), **(settings or {})}
    try:
        with _environment():
            builder = SparkSession.builder.master(master).appName("aiokafka_lite")
            for name, value in given.items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            try:
                session.stop()
            finally:
                _end_jvm()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def abandon(opened: contextlib.ExitStack) -> None:
    """End the session in this stack, whose JVM may no longer answer, or has ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
    try:
        with warnings.catch_warnings(action="ignore"):  # about the JVM, which has ended
            opened.close()
    except Exception as error:
        logger.info("The session could not be stopped: %r", error)
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None


def archive(jars: Sequence[Path] = ()) -> Path:
    """The path of the class archive for quick JVMs with this class path, if it exists.

    A JVM starts several seconds sooner with it; `python -m tools.spark` makes it.
    """
    names = " ".join(map(str, jars))
    digest = hashlib.sha256(f"{version('pyspark')} {java()} {names}".encode()).hexdigest()[:10]
    return cache_dir() / f"spark-{version('pyspark')}-{digest}.jsa"


def _settings(
    folder: Path, heap: str, quick: bool, jars: Sequence[Path], jvm_options: Sequence[str]
) -> dict[str, str]:
    options = [f"-Djava.io.tmpdir={folder}", f"-Dderby.system.home={folder}"]
    if quick:
        options += _QUICK
        made = archive(jars)
        if made.is_file() and not jvm_options:
            options += [f"-XX:SharedArchiveFile={made}", "-Xshare:auto", "-Xlog:disable"]
    options += jvm_options
    settings = {
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        # A worker on a busy machine may start slowly; the default is 15 s.
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if jars:
        settings["spark.driver.extraClassPath"] = os.pathsep.join(map(str, jars))
    return settings


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """The environment that the JVM passes to its Python workers: this Python, and a path that has
    the package.

    An editable installation does not suffice: Spark searches folders for data sources.
    """
    wanted = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(
            [str(WORKER_START), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])],
        ),
        # An installed package is compiled. A checkout may not be: then each worker and each stream
        # would compile it again, which costs a quarter of a second of CPU that no user pays.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _end_jvm() -> None:
    """End the JVM that pyspark would keep until this process ends."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)  # pyspark's own; none if the JVM existed before
    if process is not None:
        process.stdin.close()  # the JVM waits for this
        process.wait(_JVM_EXIT)
