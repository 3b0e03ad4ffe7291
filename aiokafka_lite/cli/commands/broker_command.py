"""The standalone embedded broker: `python -m aiokafka_lite broker --listen 127.0.0.1:9092`.

It prints one line when ready, and runs until SIGINT or SIGTERM; a second signal has no effect.
With `--data-dir`, the next start resumes where this one ended, even after a crash.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import logging
import signal
import sys
from typing import NamedTuple

from aiokafka_lite.cli.counts import at_least_one
from aiokafka_lite.testing import FakeCluster

CLEANING_INTERVAL = 300.0  # seconds: log.retention.check.interval.ms
LOG_LEVELS = ("debug", "info", "warning", "error")


class Address(NamedTuple):
    host: str
    port: int


class TopicSpec(NamedTuple):
    name: str
    partitions: int


class Config(NamedTuple):
    name: str
    value: str


class User(NamedTuple):
    name: str
    password: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--listen",
        metavar="HOST:PORT",
        type=_address,
        default=Address("127.0.0.1", 9092),
        help="address of the first broker; the others use the ports after it; with port 0 each"
        " uses a free port; default: 127.0.0.1:9092",
    )
    add(
        "--brokers",
        metavar="N",
        type=at_least_one,
        default=1,
        help="number of brokers in the cluster; default: 1",
    )
    add(
        "--topics",
        metavar="NAME[:PARTITIONS]",
        type=_topic,
        nargs="+",
        action="extend",
        default=[],
        help="topics to create at startup, for example: orders:6 payments",
    )
    add(
        "--data-dir",
        metavar="DIR",
        help="directory for all data, kept across restarts; by default data is in memory",
    )
    add("--fsync", action="store_true", help="flush to disk before acknowledging a write")
    add(
        "--version",
        metavar="RELEASE",
        help="offer only the APIs of this Kafka release, for example 2.8 or 3.9",
    )
    add(
        "--user",
        metavar="NAME:PASSWORD",
        type=_user,
        action="append",
        dest="users",
        help="require SASL (PLAIN or SCRAM) and accept this user; may be repeated",
    )
    add(
        "--super-user",
        metavar="NAME",
        action="append",
        dest="super_users",
        help="allow this user everything, and others only what ACLs allow; may be repeated",
    )
    add(
        "--config",
        metavar="NAME=VALUE",
        type=_config,
        action="append",
        dest="configs",
        default=[],
        help="set a Kafka broker config, for example group.max.size=3; may be repeated",
    )
    add("--racks", metavar="RACK", nargs="+", help="rack of each broker, in order")
    add(
        "--advertise",
        metavar="HOST",
        help="host that brokers advertise to clients; default: the host of --listen",
    )
    add(
        "--default-partitions",
        metavar="N",
        type=at_least_one,
        default=1,
        help="partitions of automatically created topics; default: 1",
    )
    add(
        "--no-auto-create",
        action="store_true",
        help="do not create a missing topic when a client requests its metadata",
    )
    add(
        "--log-level",
        choices=LOG_LEVELS,
        default="warning",
        help="minimum level of log lines; default: warning",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; return 0, 1 if the start failed, or 2 for invalid arguments."""
    logging.basicConfig(
        level=args.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    topics = dict(args.topics)
    try:
        if len(topics) < len(args.topics):
            raise ValueError("--topics: a topic is listed twice")
        if args.data_dir == "":
            raise ValueError("--data-dir: the directory name is empty")
        cluster = FakeCluster(
            args.brokers,
            topics,
            version=args.version,
            default_partitions=args.default_partitions,
            auto_create_topics=not args.no_auto_create,
            users=dict(args.users) if args.users else None,
            super_users=None
            if args.super_users is None
            else [f"User:{name}" for name in args.super_users],
            broker_configs=dict(args.configs),
            racks=args.racks,
            host=args.listen.host,
            port=args.listen.port,
            advertise=args.advertise,
            data_dir=args.data_dir,
            fsync=args.fsync,
        )
    except (ValueError, OSError) as error:
        return _complain(error, 2)
    serving = _serve(cluster, args.data_dir)
    try:
        if importlib.util.find_spec("uvloop") is not None:
            import uvloop

            return uvloop.run(serving)
        return asyncio.run(serving)
    except (ValueError, OSError, RuntimeError) as error:
        return _complain(error, 1)


async def _serve(cluster: FakeCluster, data_dir: str | None) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, ended.set)
        except NotImplementedError:  # on Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))
    await cluster.start()
    cleaner = asyncio.create_task(_clean_up(cluster), name="log cleaner")
    cleaner.add_done_callback(lambda _: ended.set())
    try:
        where = f"kept in {data_dir}" if data_dir else "in memory"
        print(
            f"Kafka is ready at {cluster.bootstrap_servers} ({where}; Ctrl-C stops it)", flush=True
        )
        await ended.wait()
    finally:
        cleaner.cancel()
        await asyncio.wait([cleaner])
        await cluster.stop()
    if not cleaner.cancelled():
        cleaner.result()  # raises, because the task never ends by itself
    if cluster.failures:
        print(f"broker: {len(cluster.failures)} internal errors, logged above", file=sys.stderr)
    return 1 if cluster.failures else 0


async def _clean_up(cluster: FakeCluster, interval: float = CLEANING_INTERVAL) -> None:
    """Apply retention and compaction periodically, as a broker does; tests call them directly."""
    while True:
        await asyncio.sleep(interval)
        cluster.apply_retention()
        for topic in list(cluster.state.topics.values()):
            if topic.is_compacted:
                cluster.compact(topic.name)


def _complain(error: Exception, status: int) -> int:
    print(f"broker: {error}", file=sys.stderr)
    return status


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _topic(text: str) -> TopicSpec:
    name, colon, partitions = text.partition(":")
    if not name or (colon and not (partitions.isdecimal() and int(partitions))):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME:PARTITIONS")
    return TopicSpec(name, int(partitions) if colon else -1)


def _user(text: str) -> User:
    name, _, password = text.partition(":")
    if not name or not password:
        raise argparse.ArgumentTypeError("a user must have the form NAME:PASSWORD")
    return User(name, password)


def _config(text: str) -> Config:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return Config(name, value)
