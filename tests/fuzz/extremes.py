"""Sets every integer of every response to extreme values, one at a time.

    python -m tests.fuzz.extremes --seed 1 --limit 500 --scenario reader --release 4.4

Each case starts a client on an embedded broker that sets one integer field of one API's responses
to one value. It lets the client work for a moment, restores the true values, and checks the result:
no call outlasts its timeout, only documented errors are raised, nothing is logged at CRITICAL or
with the traceback of a bug, memory and CPU use stay limited, and the client works again, or has
raised a fatal error.

The fields are those of the responses that the client receives without manipulation, found by a
first run. They include batch headers, assignments and SASL messages, which are plain bytes in the
schemas.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.consumer.fetching import broker_fetch
from aiokafka_lite.errors import (
    BrokerResponseError,
    IllegalOperation,
    KafkaError,
    NoOffsetForPartitionError,
)
from aiokafka_lite.net import throttle
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.fuzz.fields import Place, candidates, places, put

T = TypeVar("T")

RSS_LIMIT: Final = 100 * 1024
"""KiB that a case may add to the process."""
CALL_LIMIT: Final = 12.0
"""Seconds after which a call counts as hanging: all timeouts of the clients here are shorter."""
RECOVERY: Final = 20.0
"""Seconds in which a client must work again: more than its backoffs and broker timeouts."""
LIE: Final = 0.4
"""Minimum seconds for which the broker sends false values."""
IDLE_REQUESTS: Final = 400
"""Requests per second above which the client counts as looping."""
BUSY: Final = 0.9
"""Share of CPU time above which a waiting client counts as spinning."""
LONGEST_THROTTLE: Final = 1.0
"""Maximum seconds for which the clients here respect a broker's throttling."""
VERSIONS: Final = (None, "3.0", "2.0", "0.11", "0.10.1")
TOPICS: Final = {"orders": 3, "audit": 1}


class Failed(Exception):
    """The client misbehaved."""


class _Judge(logging.Handler):
    """Collects log lines that an extreme value does not explain."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.CRITICAL:
            self.found.append(f"CRITICAL: {record.getMessage()}")
        elif record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if not isinstance(error, KafkaError):
                self.found.append(f"{record.getMessage()}: {error!r}")


async def within(what: str, call: Awaitable[T], limit: float = CALL_LIMIT) -> T:
    """The call's result.

    Raises:
        Failed: It hangs, or raises an undocumented error.
    """
    try:
        async with asyncio.timeout(limit) as clock:
            return await call
    except KafkaError:
        raise
    except TimeoutError as error:
        if clock.expired():
            raise Failed(f"{what} hangs") from error
        raise Failed(f"{what} raises {error!r}") from error
    except Failed:
        raise
    except Exception as error:
        raise Failed(f"{what} raises {error!r}") from error


class Scenario:
    """One kind of client, and its work.

    Args:
        cluster: The brokers.
        lie: The field that they falsify.

    Attributes:
        errors: Those that the client raised.
    """

    cluster_options: ClassVar[dict[str, Any]] = {}
    oldest: ClassVar[str] = "0.10.1"

    def __init__(self, cluster: FakeCluster, lie: Place | None = None) -> None:
        self.cluster = cluster
        self.lie = lie or Place(-1, (), 0)
        self.errors: list[KafkaError] = []

    async def start(self) -> None:
        raise NotImplementedError

    async def work(self) -> None:
        """Use it once; raises the client's own errors."""
        raise NotImplementedError

    async def recover(self) -> None:
        """Prove that it works."""
        await self.work()

    async def stop(self) -> None:
        raise NotImplementedError

    async def tried(self, what: str, call: Awaitable[T]) -> T | None:
        """The call's result; None after a documented error."""
        try:
            return await within(what, call)
        except KafkaError as error:
            self.errors.append(error)
            return None


_CLIENT: Final[dict[str, Any]] = {
    "request_timeout_ms": 800,
    "retry_backoff_ms": 20,
    "metadata_max_age_ms": 150,
}


class Produces(Scenario):
    """A producer that sends with and without keys, and flushes."""

    options: ClassVar[dict[str, Any]] = {}

    async def start(self) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            delivery_timeout_ms=1500,
            max_block_ms=1000,
            **_CLIENT,
            **self.options,
        )
        await within("start", self.producer.start())

    async def work(self) -> None:
        for key in (b"a", b"b", None):
            ack = await self.tried("send", self.producer.send("orders", b"value", key=key))
            if ack is not None:
                await self.tried("ack", ack)
        await self.tried("flush", self.producer.flush())

    async def recover(self) -> None:
        await within("send", self.producer.send_and_wait("orders", b"again"))

    async def stop(self) -> None:
        await within("stop", self.producer.stop(timeout=5))


class ProducesPlainly(Produces):
    """The same producer without idempotence."""

    options: ClassVar[dict[str, Any]] = {"enable_idempotence": False, "acks": 1}


class ProducesInTransactions(Scenario):
    """A transactional producer that commits offsets, too."""

    oldest = "0.11"

    async def start(self) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            transactional_id="teller",
            delivery_timeout_ms=1500,
            max_block_ms=1500,
            **_CLIENT,
        )
        await within("start", self.producer.start())

    async def _transact(self) -> None:
        try:
            await self._once()
        except IllegalOperation:  # the last commit was not answered: it is requested again
            await self.producer.commit_transaction()
            await self._once()

    async def _once(self) -> None:
        async with self.producer.transaction():
            await self.producer.send_and_wait("orders", b"value")
            await self.producer.send_offsets_to_transaction(
                {TopicPartition("audit", 0): 0}, "readers"
            )

    async def work(self) -> None:
        await self.tried("transaction", self._transact())

    async def recover(self) -> None:
        await within("transaction", self._transact())

    async def stop(self) -> None:
        await within("stop", self.producer.stop(timeout=5))


class Reads(Scenario):
    """A consumer without a group: reads, searches, seeks."""

    group: ClassVar[dict[str, Any]] = {}
    leader = 0

    async def start(self) -> None:
        for number in range(3):
            for partition in range(TOPICS["orders"]):
                self.cluster.produce("orders", b"%d" % number, partition=partition)
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            isolation_level="read_committed",
            default_api_timeout_ms=1000,
            **_CLIENT,
            **self.group,
        )
        await within("start", self.consumer.start())
        self._assign()

    def _assign(self) -> None:
        self.consumer.assign([TopicPartition("orders", each) for each in range(3)])

    async def work(self) -> None:
        consumer = self.consumer
        await self.tried("getmany", consumer.getmany(timeout_ms=100))
        self.leader = 1 - self.leader
        self.cluster.move_leader("orders", 1, self.leader)  # where nothing seeks
        await self.tried("getmany", consumer.getmany(timeout_ms=100))
        for tp in sorted(consumer.assignment())[:1]:
            await self.tried("end_offsets", consumer.end_offsets([tp]))
            await self.tried("offsets_for_times", consumer.offsets_for_times({tp: 0}))
            await self.tried("position", consumer.position(tp))
            if tp in consumer.assignment():  # which a group may have changed meanwhile
                consumer.highwater(tp)
                consumer.last_stable_offset(tp)
                consumer.seek(tp, 0)
        await self.tried("getmany", consumer.getmany(timeout_ms=100))

    async def recover(self) -> None:
        """Records that arrive from now on are read."""
        await self.read_on(asyncio.get_running_loop().time() + RECOVERY)

    async def read_on(self, until: float) -> None:
        number = 0
        missing = set(range(TOPICS["orders"]))
        while missing:
            number += 1
            for partition in missing:
                self.cluster.produce("orders", b"new %d" % number, partition=partition)
            try:
                got = await within("getmany", self.consumer.getmany(timeout_ms=200))
            except NoOffsetForPartitionError:
                raise
            except KafkaError as error:
                self.errors.append(error)
                await asyncio.sleep(0.02)
                got = {}
            for tp, records in got.items():
                if any((record.value or b"").startswith(b"new") for record in records):
                    missing.discard(tp.partition)
            if asyncio.get_running_loop().time() > until:
                raise Failed(
                    f"nothing new is read of {missing}; assigned "
                    f"{sorted(self.consumer.assignment())}, last error {self.errors[-1:]}"
                )

    async def stop(self) -> None:
        await within("stop", self.consumer.stop())


class ReadsInClassicGroup(Reads):
    """A member of a classic group that commits."""

    group: ClassVar[dict[str, Any]] = {
        "group_id": "readers",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 100,
        "auto_commit_interval_ms": 50,
        "rebalance_timeout_ms": 2000,
    }

    def _assign(self) -> None:
        self.consumer.subscribe(["orders"])

    async def recover(self) -> None:
        """The same. But a false assignment of existing partitions, or of none, looks like a true
        one that leaves a share to another member. The application can only rejoin."""
        try:
            await self.read_on(asyncio.get_running_loop().time() + RECOVERY)
        except Failed:
            if "assignment" not in self.lie.path:
                raise
            self.consumer.unsubscribe()
            self._assign()
            await super().recover()

    async def work(self) -> None:
        await super().work()
        for tp in sorted(self.consumer.assignment())[:1]:
            await self.tried("commit", self.consumer.commit())
            await self.tried("committed", self.consumer.committed(tp))


class ReadsInModernGroup(ReadsInClassicGroup):
    """A member of a group of the consumer protocol (KIP-848) that commits."""

    oldest = "4.0"
    group: ClassVar[dict[str, Any]] = {
        "group_id": "readers",
        "group_protocol": "consumer",
        "auto_commit_interval_ms": 50,
    }


class Authenticates(Produces):
    """A producer that authenticates by SCRAM, repeatedly."""

    oldest = "1.0"
    cluster_options: ClassVar[dict[str, Any]] = {
        "users": {"ann": "password"},
        "sasl_session_lifetime": 0.3,
    }
    options: ClassVar[dict[str, Any]] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "password",
    }


SCENARIOS: Final[dict[str, type[Scenario]]] = {
    "idempotent": Produces,
    "plain": ProducesPlainly,
    "transactional": ProducesInTransactions,
    "reader": Reads,
    "classic": ReadsInClassicGroup,
    "modern": ReadsInModernGroup,
    "sasl": Authenticates,
}


@dataclass(frozen=True)
class Case:
    """One false value for one kind of client.

    Attributes:
        scenario: The client.
        version: The release that the broker emulates; None for the newest.
        place: The field.
        value: What it is set to; "+1" and the like are relative to the true value.
    """

    scenario: str
    version: str | None
    place: Place
    value: int | str

    def __str__(self) -> str:
        return f"{self.scenario}@{self.version or 'newest'} {self.place} = {self.value}"


@dataclass
class Outcome:
    """The outcome of a case."""

    errors: Counter[str] = field(default_factory=Counter)
    requests: float = 0.0
    cpu: float = 0.0
    grown: int = 0
    lies: int = 0


def _new_enough(scenario: type[Scenario], version: str | None) -> bool:
    def parts(release: str) -> list[int]:
        return [int(part) for part in release.split(".")]

    return version is None or parts(version) >= parts(scenario.oldest)


def _cluster(scenario: type[Scenario], version: str | None) -> FakeCluster:
    return FakeCluster(brokers=2, topics=TOPICS, version=version, **scenario.cluster_options)


async def find_places(name: str, version: str | None) -> dict[Place, int]:
    """The integer fields of all responses that a client receives, and a true value of each."""
    scenario = SCENARIOS[name]
    found: dict[Place, int] = {}
    async with _cluster(scenario, version) as cluster:

        def look(response: Response) -> None:
            key = response.api_key
            spoken = next(
                seen.version for seen in reversed(cluster.requests) if seen.api_key == key
            )
            found.update(places(response, spoken))

        cluster.control(None, times=None, after_handling=True, edit=look)
        client = scenario(cluster)
        try:
            await client.start()
            for _ in range(4):
                await client.work()
                await asyncio.sleep(0.15)
        finally:
            await client.stop()
    return found


def cases_of(name: str, version: str | None, found: dict[Place, int]) -> Iterator[Case]:
    """Every field with every value to set it to."""
    for place, true in found.items():
        for value in candidates(place, true):
            yield Case(name, version, place, value)


async def run(case: Case) -> Outcome:
    """Send a client a false value, and check how it behaves.

    Raises:
        Failed: The client misbehaved.
    """
    throttle.LONGEST_THROTTLE = broker_fetch.LONGEST_THROTTLE = LONGEST_THROTTLE  # type: ignore
    judge = _Judge()
    package = logging.getLogger("aiokafka_lite")
    package.addHandler(judge)
    loop = asyncio.get_running_loop()
    strays: list[str] = []
    loop.set_exception_handler(lambda _, context: strays.append(f"{context}"))
    before = _rss()
    try:
        outcome = await _run(case)
        gc.collect()
        await asyncio.sleep(0)
    finally:
        package.removeHandler(judge)
        loop.set_exception_handler(None)
    if judge.found or strays:
        raise Failed("; ".join(judge.found + strays))
    outcome.grown = _rss() - before
    if outcome.grown > RSS_LIMIT:
        raise Failed(f"memory grew by {outcome.grown // 1024} MB")
    return outcome


async def _run(case: Case) -> Outcome:
    scenario = SCENARIOS[case.scenario]
    outcome = Outcome()
    async with _cluster(scenario, case.version) as cluster:

        def lie(response: Response) -> None:
            if response.api_key == case.place.api_key:
                outcome.lies += put(response, case.place, case.value)

        fault = cluster.control(
            ApiKey(case.place.api_key), times=None, after_handling=True, edit=lie
        )
        client = scenario(cluster, case.place)
        try:
            started = await client.tried("start", _started(client))
            begun, used = time.monotonic(), time.process_time()
            asked = sum(cluster._control.counts.values())
            if started:
                await client.work()
                await client.work()
            await asyncio.sleep(max(0.0, LIE + begun - time.monotonic()))
            took = time.monotonic() - begun
            outcome.cpu = (time.process_time() - used) / took
            outcome.requests = (sum(cluster._control.counts.values()) - asked) / took
            fault.remove()
            if not started:
                await client.tried("stop", client.stop())
                client = scenario(cluster, case.place)
                await within("start after the lie", client.start())
            outcome.errors.update(type(error).__name__ for error in client.errors)
            if outcome.requests > IDLE_REQUESTS:
                raise Failed(f"{outcome.requests:.0f} requests a second")
            if outcome.cpu > BUSY and took > 2 * LIE:
                raise Failed(f"{outcome.cpu:.0%} of a processor in {took:.1f} s")
            await _recovers(client, case)
        finally:
            try:
                await within("stop", client.stop())
            except KafkaError as error:
                outcome.errors[f"stop: {type(error).__name__}"] += 1
    if cluster.failures:
        raise Failed(f"the broker failed: {cluster.failures}")
    return outcome


async def _started(client: Scenario) -> bool:
    await client.start()
    return True


async def _recovers(client: Scenario, case: Case) -> None:
    until = time.monotonic() + RECOVERY
    while True:
        try:
            await within("recovery", client.recover(), 2 * RECOVERY + CALL_LIMIT)
            return
        except KafkaError as error:
            if _says_why(error) or case.place.name == "error_code":
                return  # its state is false: the application makes another client
            if time.monotonic() > until:
                raise Failed(f"it does not recover: {error!r}") from error
            await asyncio.sleep(0.05)


def _says_why(error: KafkaError) -> bool:
    """True if the error means that the client or its transaction cannot continue."""
    return isinstance(error, BrokerResponseError) and not error.retriable


def _rss() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def all_cases(names: Iterable[str], versions: Iterable[str | None]) -> list[Case]:
    """Every case of these clients and releases."""
    cases: list[Case] = []
    for name in names:
        for version in versions:
            if _new_enough(SCENARIOS[name], version):
                cases += cases_of(name, version, await find_places(name, version))
    return cases


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Integers at their extremes, to whole clients.")
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument("--limit", "--frames", type=int, default=1000, help="cases, at random")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS))
    parser.add_argument("--release", action="append", help="that the broker poses as")
    parser.add_argument("--only", default="", help="a part of the case's name")
    parser.add_argument("--keep-going", action="store_true")
    chosen = parser.parse_args(arguments)
    seed = random.randrange(2**32) if chosen.seed is None else chosen.seed
    names = chosen.scenario or list(SCENARIOS)
    cases = asyncio.run(all_cases(names, chosen.release or VERSIONS))
    cases = [case for case in cases if chosen.only in str(case)]
    random.Random(seed).shuffle(cases)
    print(f"{len(cases)} cases; {min(chosen.limit, len(cases))} are run, seed {seed}")
    endings: Counter[str] = Counter()
    failed = 0
    for number, case in enumerate(cases[: chosen.limit]):
        if not number % 50:
            print(f"{number} {_rss() // 1024} MB", flush=True)
        begun = time.monotonic()
        try:
            outcome = asyncio.run(run(case))
        except Failed as failure:
            failed += 1
            print(f"FAILED {case}: {str(failure)[:600]}", flush=True)
            if not chosen.keep_going:
                raise
        else:
            endings.update(outcome.errors or ["no error"])
            took = time.monotonic() - begun
            if took > 25:
                print(f"slow ({took:.0f} s): {case} {dict(outcome.errors)}", flush=True)
    for ending, count in endings.most_common():
        print(f"{count:7} {ending}")
    print(f"{failed} failed; {_rss() // 1024} MB at most")
    return 1 if failed else 0


if __name__ == "__main__":
    logging.getLogger("aiokafka_lite").addHandler(logging.NullHandler())
    logging.getLogger("aiokafka_lite").propagate = False
    sys.exit(main())
