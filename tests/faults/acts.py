"""The acts of a chaos run: one producer after the other, with different settings and ways to stop,
during the faults of a schedule."""

import asyncio
import itertools
import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka_lite import AIOKafkaProducer
from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.schedule import Happenings

__all__ = ["SMALL_MESSAGES", "Act", "LogCounter", "acts", "perform"]

SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"compression_type": "lz4", "linger_ms": 5, "max_batch_size": 131_072},
    {"compression_type": "zstd", "linger_ms": 20, "max_batch_size": 32_768},
    {"linger_ms": 2, "max_batch_size": 2_000, "buffer_memory": 400_000},
    {"compression_type": "gzip", "max_batch_size": 65_536},
    {"linger_ms": 10, "max_batch_size": 100_000},
    {"compression_type": "snappy", "linger_ms": 1, "delivery_timeout_ms": "short"},
)
SMALL_MESSAGES: Final = {"max.message.bytes": "5000"}
"""The limit of one of the topics: larger batches are refused, and are sent in pieces."""
STOP_GRACE: Final = 2.0  # seconds that `stop` takes beyond its timeout, at most, by itself
NOISE: Final = 8.0  # seconds: two cores, three JVMs, a loop that thousands of senders share


@dataclass(frozen=True)
class Act:
    """The life of one producer.

    Attributes:
        settings: Its arguments.
        seconds: Seconds during which records are sent.
        stop_timeout: Timeout of its `stop`, with senders still sending; None: deliver all first.
    """

    settings: dict[str, Any]
    seconds: float
    stop_timeout: float | None


def acts(seed: int, seconds: float) -> Iterator[Act]:
    """Endless: producers of this many seconds each, with all settings; every second one delivers
    everything."""
    draw = random.Random(f"acts {seed}")
    settings = draw.sample(SETTINGS, len(SETTINGS))
    for number in itertools.count():
        stop_timeout = draw.choice([0.0, 0.5, 2.0]) if number % 2 else None
        turn = number + number // len(settings)  # so that each is stopped in different ways
        yield Act(settings[turn % len(settings)], seconds, stop_timeout)


class LogCounter(logging.Handler):
    """Counts the lines that the package logs, at INFO and above; keeps a few of each kind."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: Counter[str] = Counter()
        self.critical: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines[f"{record.levelname} {record.name}: {record.msg}"] += 1
        if record.levelno >= logging.CRITICAL or record.exc_info:
            self.critical.append(self.format(record))

    def __enter__(self) -> "LogCounter":
        logger = logging.getLogger("aiokafka_lite")
        self._level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("aiokafka_lite")
        logger.removeHandler(self)
        logger.setLevel(self._level)


async def perform(
    act: Act,
    bootstrap_servers: str,
    ledger: Ledger,
    topics: Sequence[str],
    happenings: Happenings,
    *,
    rate: float,
    senders: int,
    seed: int,
    request_timeout: float,
    delivery_timeout: float,
    **login: Any,
) -> None:
    """Play one act, and check that its producer leaves nothing behind.

    Args:
        login: The producer's arguments about TLS and SASL.

    Raises:
        AssertionError: Memory or a task is left, or `stop` took too long.
    """
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    settings = dict(act.settings)
    short = settings.pop("delivery_timeout_ms", None) is not None
    delivery = request_timeout * 1.5 if short else delivery_timeout
    settings.setdefault("buffer_memory", 8_000_000)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        request_timeout_ms=request_timeout * 1000,
        delivery_timeout_ms=delivery * 1000,
        max_block_ms=delivery * 1000,
        metadata_max_age_ms=10_000,
        **login,
        **settings,
    )
    happenings.tell(f"a producer with {act.settings}, stop({act.stop_timeout})")
    await producer.start()
    ledger.next_producer()
    load = Load(producer, ledger, topics, rate=rate, senders=senders, seed=seed)
    await asyncio.sleep(act.seconds)
    began = loop.time()
    if act.stop_timeout is None:
        await load.finish()
        drained = loop.time()
        await producer.stop()
        allowed = NOISE
    else:
        drained = began
        await producer.stop(act.stop_timeout)
        allowed = act.stop_timeout + STOP_GRACE + NOISE
    took = loop.time() - drained
    if act.stop_timeout is not None:
        await load.finish()
    happenings.tell(
        f"its senders took {drained - began:.2f} s to end, stop {took:.2f} s; {ledger.counts()}"
    )
    assert took < allowed, f"stop({act.stop_timeout}) took {took:.1f} s"
    metrics = producer.metrics()
    for name in ("record-send-total", "record-retry-total", "batch-split-total"):
        happenings.count[name] += int(metrics[name])
    left = metrics["buffer-total-bytes"] - metrics["buffer-available-bytes"]
    assert left == 0, f"{left} bytes of the producer's memory are still used"
    await asyncio.sleep(0)
    tasks = [task for task in asyncio.all_tasks() - before if "producer" in task.get_name()]
    assert not tasks, f"left running: {tasks}"
