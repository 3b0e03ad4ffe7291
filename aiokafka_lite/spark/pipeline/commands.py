"""The commands `pipeline run | doctor | pack | list | show` of the command line."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from aiokafka_lite.spark.pipeline.doctor import TRIAL, examine
from aiokafka_lite.spark.pipeline.fields import SpecError
from aiokafka_lite.spark.pipeline.java import JavaMissing
from aiokafka_lite.spark.pipeline.loading import find_specification, load, ready_pipelines
from aiokafka_lite.spark.pipeline.packing import pack
from aiokafka_lite.spark.pipeline.reporting import ProgressLine
from aiokafka_lite.spark.pipeline.runner import run as run_pipeline
from aiokafka_lite.spark.pipeline.spark_session import SparkMissing, open_session
from aiokafka_lite.spark.pipeline.spec import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_commands", "execute"]

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def add_commands(parser: argparse.ArgumentParser) -> Commands:
    """Add the commands to `parser`; the caller may add more to the returned object."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    running = commands.add_parser("run", help="run a pipeline until SIGTERM or Ctrl-C")
    _add_specification(running, "SPEC")
    _add_place(running)
    running.add_argument("--once", action="store_true", help="read the available records, then end")
    running.add_argument("--quiet", action="store_true", help="print only the summary, no progress")
    running.set_defaults(execute=_run)
    doctor = commands.add_parser("doctor", help="check everything that a pipeline needs")
    _add_specification(doctor, "SPEC", nargs="?")
    _add_place(doctor)
    doctor.set_defaults(execute=_doctor)
    packing = commands.add_parser("pack", help="pack aiokafka_lite into an archive for executors")
    packing.add_argument(
        "--output", metavar="FILE", type=Path, default=Path("aiokafka_lite.tar.gz"),
        help="default: aiokafka_lite.tar.gz",
    )  # fmt: skip
    packing.add_argument(
        "--with", metavar="MODULE", dest="modules", action="append", default=[],
        help="a module or package of your own to add; may be repeated",
    )  # fmt: skip
    packing.add_argument(
        "--with-distribution", metavar="NAME", dest="distributions", action="append", default=[],
        help="an installed distribution to add with its dependencies (pyarrow); may be repeated",
    )  # fmt: skip
    packing.set_defaults(execute=_pack)
    commands.add_parser("list", help="list the ready-made pipelines").set_defaults(execute=_list)
    show = commands.add_parser("show", help="print a ready-made pipeline, as a template")
    show.add_argument("spec", metavar="NAME")
    show.set_defaults(execute=_show)
    return commands


def execute(args: argparse.Namespace) -> int:
    """Run the command; return 0, or 1 if it failed, or 2 if its arguments are invalid."""
    try:
        status: int = args.execute(args)
    except (SpecError, ValueError) as error:
        return _complain(error, 2)
    except (JavaMissing, SparkMissing, OSError) as error:
        return _complain(error, 1)
    return status


def _add_specification(
    parser: argparse.ArgumentParser, name: str, nargs: str | None = None
) -> None:
    parser.add_argument(
        "spec",
        metavar=name,
        nargs=nargs,
        help="a .toml, .yaml or .json file, or the name of a ready-made pipeline",
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", dest="variables", action="append", default=[],
        help="set the value of ${NAME} in it; may be repeated",
    )  # fmt: skip


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help="Spark's master: local[4], spark://...")
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:15002")
    parser.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        dest="settings",
        action="append",
        default=[],
        help="session configuration, overrides that of SPEC; may be repeated",
    )
    parser.add_argument(
        "--archive", metavar="FILE", help="archive from `pipeline pack` to ship to the executors"
    )


def _run(args: argparse.Namespace) -> int:
    logging.basicConfig(level="WARNING", format="%(asctime)s %(levelname)s %(message)s")
    pipeline = _configured(load(args.spec, _pairs(args.variables, "--set")), args)
    # A specification's functions may be in a module beside it, as with a script.
    sys.path.insert(0, str(find_specification(args.spec).resolve().parent))
    line = None if args.quiet else ProgressLine()
    # Without a session, a signal just ends the process. Opening a session installs a SIGINT
    # handler, so handlers are installed after it.
    session = open_session(pipeline, master=args.master, remote=args.remote, archive=args.archive)
    try:
        with _ending_by_signal() as (stop, hurry):
            summary = run_pipeline(
                pipeline,
                spark=session,
                once=args.once,
                stop=stop,
                hurry=hurry,
                report=None if line is None else line.show,
            )
    except SpecError:
        raise
    except Exception as error:  # a query may fail with any error of Spark, py4j or Python
        logging.getLogger(__name__).debug("Pipeline failed", exc_info=error)
        return _complain(error, 1)
    finally:
        if line is not None:
            line.close()
        _close(session)
    print(summary, flush=True)
    return 0


def _close(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception as error:  # the JVM has ended; the run's result is reported elsewhere
        logging.getLogger(__name__).debug("Closing the Spark session failed", exc_info=error)


def _doctor(args: argparse.Namespace) -> int:
    pipeline = load(args.spec, _pairs(args.variables, "--set")) if args.spec else TRIAL
    pipeline = _configured(pipeline, args)
    well = True
    for finding in examine(pipeline, master=args.master, remote=args.remote, archive=args.archive):
        print(finding, flush=True)
        well = well and finding.well
    return 0 if well else 1


def _pack(args: argparse.Namespace) -> int:
    packed = pack(args.output, with_modules=args.modules, with_distributions=args.distributions)
    print(
        f"{packed.path}: {packed.files:,} files, {packed.size / 1e6:.1f} MB:"
        f" {', '.join(packed.packages)}"
    )
    return 0


def _list(_: argparse.Namespace) -> int:
    for name, about in ready_pipelines().items():
        print(f"{name:<12} {about}")
    return 0


def _show(args: argparse.Namespace) -> int:
    print(find_specification(args.spec).read_text(), end="")
    return 0


def _configured(pipeline: Pipeline, args: argparse.Namespace) -> Pipeline:
    return replace(pipeline, conf={**pipeline.conf, **_pairs(args.settings, "--conf")})


def _pairs(arguments: Sequence[str], option: str) -> dict[str, str]:
    values = {}
    for pair in arguments:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise ValueError(f"{option} must be NAME=VALUE, not {pair!r}")
        values[name] = value
    return values


@contextmanager
def _ending_by_signal() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Yield (stop, hurry): the first signal sets `stop`, a second one `hurry`."""
    stop, hurry = threading.Event(), threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            hurry.set()
        else:
            print(
                "stopping after the current batch (repeat to stop now)", file=sys.stderr, flush=True
            )
        stop.set()

    before = {number: signal.signal(number, end) for number in ENDING_SIGNALS}
    try:
        yield stop, hurry
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(error: Exception, status: int) -> int:
    # Leave out Spark's query plan and Java's stack trace: the log contains them.
    said = str(error)
    for rest in ("\n=== Streaming Query ===", "\n\tat "):
        said = said.partition(rest)[0]
    said = said.strip() or type(error).__name__
    print(f"pipeline: {said}", file=sys.stderr)
    return status
