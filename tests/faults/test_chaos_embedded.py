"""Chaos on the embedded cluster, with the load, schedule and checks of the real one.

It uses two transports: one whose socket takes any number of a request's bytes at a time, or then
fails; and TLS, on which SASL sessions are renewed all the time.

CHAOS_SEED is the first seed, CHAOS_SEEDS the number of seeds.
"""

import asyncio
import os
import random
import socket
import ssl
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.net.transport import FrameTransport
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing import FakeCluster
from tests.faults.acts import SMALL_MESSAGES, LogCounter, acts, perform
from tests.faults.embedded_stage import Embedded
from tests.faults.ledger import Ledger
from tests.faults.schedule import Happenings, cluster_faults, play, wire_faults
from tests.seeds import seeds

FIRST = int(os.environ.get("CHAOS_SEED", "1"))
SEEDS = seeds(int(os.environ.get("CHAOS_SEEDS", "1")), first=FIRST)
SECONDS = 3.0
TOPICS = {"orders": 3, "payments": 4, "events": 3}


def everything(cluster: FakeCluster) -> dict[str, dict[int, list[tuple[int, bytes]]]]:
    logs: dict[str, dict[int, list[tuple[int, bytes]]]] = defaultdict(dict)
    for topic in TOPICS:
        for number in range(len(cluster.state.topics[topic].partitions)):
            data = bytes(cluster.partition(topic, number).log.read(0, 1 << 30))
            records = RecordSet(data, topic, number, 0).read(1 << 30) if data else []
            logs[topic][number] = [(record.offset, record.value or b"") for record in records]
    return logs


def tear(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let the socket take nothing, or only a part, of some requests; after some parts it fails."""
    draw, writev = random.Random(f"tear {seed}"), os.writev

    def torn(file: int, pieces: list[Any]) -> int:
        whole = b"".join(pieces)
        what = draw.random()
        if what < 0.5:
            return writev(file, pieces)
        if what < 0.7:
            raise BlockingIOError
        count = os.write(file, whole[: draw.choice([draw.randrange(60), draw.randrange(99_999)])])
        if what > 0.995:
            with socket.socket(fileno=os.dup(file)) as other:
                other.shutdown(socket.SHUT_RDWR)
        return count

    monkeypatch.setattr(os, "writev", torn)


def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give sockets a small buffer, so that they often take no more."""
    connection_made = FrameTransport.connection_made

    def made(self: FrameTransport, transport: asyncio.BaseTransport) -> None:
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection_made(self, transport)

    monkeypatch.setattr(FrameTransport, "connection_made", made)


def over_tls(files: tuple[Path, Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A cluster's arguments and its client's: TLS, and SASL with short sessions."""
    certfile, keyfile = files
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certfile, keyfile)
    cluster = {"ssl_context": server, "users": {"ann": "secret"}, "sasl_session_lifetime": 0.5}
    client = {
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=str(certfile)),
        "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
    }
    return cluster, client


@pytest.mark.parametrize("wire", ["torn", "tls"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_record_is_lost_duplicated_or_out_of_order(
    seed: int, wire: str, tls_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, happenings = Ledger(), Happenings()
    served: dict[str, Any] = {}
    login: dict[str, Any] = {}
    if wire == "tls":
        served, login = over_tls(tls_files)
    else:
        tear(monkeypatch, seed)
    narrow(monkeypatch)
    async with FakeCluster(brokers=3, **served) as cluster:
        for topic, partitions in TOPICS.items():
            configs = SMALL_MESSAGES if topic == "events" else None
            cluster.create_topic(topic, partitions, configs=configs)
        with LogCounter() as logs:
            stage = Embedded(cluster, seed)
            stage.topics = list(TOPICS)
            nodes = [0, 1, 2]
            end, loop = asyncio.Event(), asyncio.get_running_loop()
            deadline = loop.time() + SECONDS
            async with asyncio.TaskGroup() as group:
                for faults in (
                    cluster_faults(seed, nodes, 0.5, 0.1),
                    wire_faults(seed, nodes, 0.3, 0.1),
                ):
                    group.create_task(play(stage, faults, end, happenings))
                for act in acts(seed, 1.0):
                    await perform(
                        act,
                        cluster.bootstrap_servers,
                        ledger,
                        list(TOPICS),
                        happenings,
                        rate=4_000,
                        senders=100,
                        seed=seed,
                        request_timeout=0.4,
                        delivery_timeout=8.0,
                        **login,
                    )
                    if loop.time() > deadline:
                        break
                end.set()
        print(f"seed {seed}: {happenings.count}, {ledger.counts()}, {ledger.errors}")
        print(logs.lines)
        assert ledger.judge(everything(cluster)) == []
        assert not logs.critical
