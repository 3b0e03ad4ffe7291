"""Sends the embedded broker many requests that the schema allows but no client would send.

    python -m tests.fuzz.broker --frames 100000 --seed 1

Each is encoded and sent to a broker without sockets. The broker must respond, at once or after a
bounded wait, or close the connection. It must not have internal errors, take long, or use memory
out of proportion to the request. The run prints what it tried.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import traceback
from collections import Counter
from typing import Any, Final

from aiokafka_lite.protocol.framing import decode_response, encode_request
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.registry import ApiKey, request_class
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.context import CloseConnection, Delayed
from aiokafka_lite.testing.security.authorizer import Authorizer
from tests.fuzz.costs import SANITIZER_FACTOR, is_sanitized
from tests.fuzz.request_maker import RequestMaker
from tests.fuzz.share_member import ShareMember
from tests.unit.testing.raw import SocketlessBroker

CPU_LIMIT: Final = 0.1
"""Seconds of CPU time that one request may take, without a sanitizer."""
MEMORY_LIMIT: Final = 50 * 1024
"""KiB that one request may add to the process."""
REQUESTS_PER_CLUSTER: Final = 500
WAITING_AT_MOST: Final = 20
PAIRS: Final = [(key, v) for key, (first, last) in SERVED.items() for v in range(first, last + 1)]
SHARING: Final = (
    *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.METADATA),
    *(ApiKey.SHARE_FETCH,) * 8,
    *(ApiKey.SHARE_ACKNOWLEDGE,) * 4,
    *(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS),
    *(ApiKey.DELETE_SHARE_GROUP_OFFSETS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS),
    *(ApiKey.PRODUCE,) * 2,
)
"""The APIs of share groups, and those that write records for them, repeated by their weight."""
OF_ONE_MEMBER: Final[dict[str, tuple[Any, ...]]] = {
    f"{message}.{field}": values
    for message in ("ShareFetchRequest", "ShareAcknowledgeRequest", "ShareGroupHeartbeatRequest")
    for field, values in {
        "group_id": ("g1",),
        "member_id": ("m1", "m1", "m2"),
        "is_renew_ack": (False,),
        "share_session_epoch": (0, 0, 1, 2, 3, -1),
        "max_bytes": (10**6,),
        "max_records": (1, 10, 500),
        "min_bytes": (0, 1),
        "max_wait_ms": (0, 500),
        "subscribed_topic_names": (["orders", "payments"],),
    }.items()
}
"""Values with which two members of one group share records."""


class Failed(Exception):
    """The broker misbehaved."""


class Fuzz:
    """One cluster, and the requests it gets.

    Args:
        seed: Seed of the run.
        nodes: The number of brokers.
        oddity: The share of absurd values.
        refusing: True if the client has no permissions.
        cpu_limit: Seconds of CPU time that a request may take; None to not measure it.
        sharing: True to send requests of share groups, and those that write records for them; every
            other one comes from a well-behaved member.
    """

    def __init__(
        self,
        seed: int,
        *,
        nodes: int,
        oddity: float,
        refusing: bool,
        cpu_limit: float | None = CPU_LIMIT,
        sharing: bool = False,
    ) -> None:
        self._cpu_limit = cpu_limit
        self._chance = random.Random(seed)
        self._make = RequestMaker(self._chance, oddity, OF_ONE_MEMBER if sharing else None)
        self._broker = SocketlessBroker(nodes)
        self._nodes = nodes
        for name, partitions in (("orders", 3), ("payments", 1), ("compact", 2)):
            self._broker.state.create_topic(name, partitions)
        for group in ("g1", "g2"):
            configs = {"share.auto.offset.reset": "earliest"}
            self._broker.state.configure(ConfigResource.GROUP, group, configs)
        if refusing:
            self._broker.state.authorizer = Authorizer()
        self._waiting: list[tuple[Any, Delayed, type[Request], int]] = []
        self.endings: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.member = ShareMember(self._chance, self._broker.state) if sharing else None
        self.slowest = (0.0, "")

    def step(self) -> None:
        """Send one request to one broker.

        Raises:
            Failed: The broker misbehaved.
        """
        chance, broker = self._chance, self._broker
        if self.member is not None and chance.random() < 0.5:
            self._behave(self.member)
            return
        key, version = chance.choice(PAIRS)
        if self.member is not None:
            key = chance.choice(SHARING)
            version = chance.randint(*SERVED[key])
        message = request_class(key)
        request = self._make.request(message, version)
        frame = bytes(encode_request(request, version, 7, chance.choice((None, "", "c1"))))[4:]
        node = chance.randrange(self._nodes)
        broker.session = Session(chance.randrange(5))
        memory, begun = _memory(), time.process_time()
        try:
            self._answer(frame, message, version, node)
            if chance.random() < 0.2:
                broker.clock.advance(chance.choice((0.001, 0.5, 6.0, 46.0, 301.0)))
            if len(self._waiting) > WAITING_AT_MOST or chance.random() < 0.05:
                self._end_waits()
        except Exception as error:
            raise Failed(f"{_shown(request)} v{version} to broker {node}") from error
        took = time.process_time() - begun
        self.slowest = max(self.slowest, (took, f"{ApiKey(key).name} v{version}"))
        if broker.clock.failures:
            raise Failed(f"a timer, after {_shown(request)} v{version}") from (
                broker.clock.failures[0]
            )
        if self._cpu_limit is not None and took > self._cpu_limit:
            raise Failed(f"{took:.3f} s for {_shown(request)} v{version}")
        if (grown := _memory() - memory) > MEMORY_LIMIT:
            raise Failed(f"{grown} KiB for {_shown(request)} v{version}")

    def _answer(self, frame: bytes, message: type[Request], version: int, node: int) -> None:
        try:
            exchange = self._broker.dispatchers[node].receive(frame, self._broker.session, 0.0)
            answer = exchange.handle()
        except CloseConnection as reason:
            self.endings["closed"] += 1
            self.closed[str(reason)[:60]] += 1
            return
        if answer is None:
            self.endings["silent"] += 1
        elif isinstance(answer, Delayed):
            self.endings["waited"] += 1
            for watchers in answer.watched:
                watchers.add(_nothing)
            self._waiting.append((exchange, answer, message, version))
        else:
            self.endings["answered"] += 1
            self._check(exchange, answer, message, version)

    def _end_waits(self) -> None:
        """Each waiting client receives an answer, or disconnects."""
        waiting, self._waiting = self._waiting, []
        for exchange, delayed, message, version in waiting:
            for watchers in delayed.watched:
                watchers.remove(_nothing)
            if self._chance.random() < 0.2:
                delayed.cancel()
            else:
                answer = delayed.take_if_ready()
                if answer is None and delayed.timeout is not None:
                    answer = delayed.take_now()
                if answer is None:
                    delayed.cancel()
                else:
                    self._check(exchange, answer, message, version)

    def _check(self, exchange: Any, answer: Response, message: type[Request], version: int) -> None:
        """The answer can be decoded, and has the request's version."""
        encoded = memoryview(exchange.encode(answer))[4:]
        _, response = decode_response(encoded, message, version)
        self._make.learn(response)

    def _behave(self, member: ShareMember) -> None:
        """Send a request of the well-behaved member."""
        request, version, node = member.next_request()
        self._broker.session = Session(5)
        member.on_answer(request, self._broker.ask(request, version, node))


def _nothing() -> None:
    """Stands for a connection that is notified."""


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _shown(request: Request) -> str:
    text = repr(request)
    return text if len(text) < 3000 else f"{text[:3000]}... ({len(text)} characters)"


def run(requests: int, seed: int) -> int:
    chance = random.Random(seed)
    endings: Counter[str] = Counter()
    closed: Counter[str] = Counter()
    slowest = (0.0, "")
    started = time.monotonic()
    done = 0
    cpu_limit = CPU_LIMIT * (SANITIZER_FACTOR if is_sanitized() else 1)
    while done < requests:
        its_seed, oddity = chance.randrange(2**32), chance.choice((0.0, 0.02, 0.1, 0.4))
        nodes, refusing = chance.choice((1, 3)), chance.random() < 0.1
        sharing = chance.random() < 0.3
        fuzz = Fuzz(
            its_seed,
            nodes=nodes,
            oddity=oddity,
            refusing=refusing,
            cpu_limit=cpu_limit,
            sharing=sharing,
        )
        for number in range(min(REQUESTS_PER_CLUSTER, requests - done)):
            try:
                fuzz.step()
            except Failed:
                traceback.print_exc()
                print(f"FAILED: request {number} of cluster {its_seed}, after {done} of {seed}")
                return 1
        done += REQUESTS_PER_CLUSTER
        endings += fuzz.endings
        closed += fuzz.closed
        slowest = max(slowest, fuzz.slowest)
    print(f"broker fuzz: seed {seed}, {requests} requests, {time.monotonic() - started:.0f} s")
    print("  ended: " + ", ".join(f"{name} {count}" for name, count in sorted(endings.items())))
    print("  closed for: " + ", ".join(f"{why} {count}" for why, count in closed.most_common(8)))
    print(f"  slowest: {slowest[1]}, {slowest[0] * 1e3:.1f} ms")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.broker")
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    return run(options.frames, seed)


if __name__ == "__main__":
    sys.exit(main())
