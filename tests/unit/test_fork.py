"""Clients that a forked child inherits raise errors in it and keep working in the parent.

Each test runs a new process, because the test process has threads, which do not survive a fork.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

BEGIN = """
import asyncio, gc, os, sys, time, warnings
from aiokafka_lite import (
    AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer)
from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

warnings.simplefilter("ignore")  # the fork of a process with threads, and sockets left open

def in_child(function):
    '''Run it in a forked child; whether it returned.'''
    child = os.fork()
    if not child:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def refused(awaitable):
    async def call():
        async with asyncio.timeout(10):
            try:
                await awaitable()
            except IllegalStateError as error:
                assert str(os.getppid()) in str(error) and "forked child" in str(error), error
            else:
                raise AssertionError("it was not refused")
    asyncio.run(call())
"""


def run(script: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr


def test_dropping_a_producer_in_a_child_does_not_affect_the_parent() -> None:
    run("""
    held = {}

    async def main(bootstrap):
        held["p"] = AIOKafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=60_000)
        await held["p"].start()
        await held["p"].send_and_wait("t", b"before")
        def drop():
            held.clear()
            gc.collect()
        assert in_child(drop)
        async with asyncio.timeout(20):  # well below the request's
            await held["p"].send_and_wait("t", b"after")
            await held["p"].stop()

    with FakeCluster(topics={"t": 1}) as c:
        asyncio.run(main(c.bootstrap_servers))
    """)


@pytest.mark.parametrize("group", ["None", "'g'"])
def test_dropping_a_consumer_in_a_child_does_not_affect_the_parent(group: str) -> None:
    run(f"""
    held = {{}}

    async def main(cluster):
        held["c"] = AIOKafkaConsumer(
            "t", bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=60_000,
            auto_offset_reset="earliest", group_id={group})
        await held["c"].start()
        cluster.produce("t", b"before", partition=0)
        assert (await held["c"].getone()).value == b"before"
        def drop():
            held.clear()
            gc.collect()
        assert in_child(drop)
        cluster.produce("t", b"after", partition=0)
        async with asyncio.timeout(20):  # well below the request's
            assert (await held["c"].getone()).value == b"after"
            await held["c"].stop()

    with FakeCluster(topics={{"t": 1}}) as c:
        asyncio.run(main(c))
    """)


UNDER = pytest.mark.parametrize("under", ["TLS", "uvloop", "TLS and uvloop"])


@UNDER
def test_dropping_clients_in_a_child_does_not_affect_the_parent_under_tls_or_uvloop(
    under: str, tls_files: tuple[Path, Path]
) -> None:
    if "uvloop" in under:
        pytest.importorskip("uvloop")
    certificate, key = map(str, tls_files) if "TLS" in under else ("", "")
    run(f"""
    import ssl
    held, security, server = {{}}, {{}}, None
    if {certificate!r}:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain({certificate!r}, {key!r})
        security = dict(
            security_protocol="SSL", ssl_context=ssl.create_default_context(cafile={certificate!r}))

    async def main(cluster):
        bootstrap = cluster.bootstrap_servers
        held["p"] = AIOKafkaProducer(
            bootstrap_servers=bootstrap, request_timeout_ms=60_000, **security)
        held["c"] = AIOKafkaConsumer(
            "t", bootstrap_servers=bootstrap, request_timeout_ms=60_000, group_id="g",
            auto_offset_reset="earliest", **security)
        async with held["p"], held["c"]:
            await held["p"].send_and_wait("t", b"before")
            assert (await held["c"].getone()).value == b"before"
            def use():
                refused(lambda: held["p"].send_and_wait("t", b"x"))
                refused(held["c"].getone)
            assert in_child(use)
            def drop():
                held.clear()
                gc.collect()
            assert in_child(drop)
            async with asyncio.timeout(20):  # well below the request's
                await held["p"].send_and_wait("t", b"after")
                assert (await held["c"].getone()).value == b"after"

    def play(cluster):
        if {"uvloop" in under}:
            import uvloop
            uvloop.run(main(cluster))
        else:
            asyncio.run(main(cluster))

    with FakeCluster(topics={{"t": 1}}, ssl_context=server) as c:
        play(c)
    """)


def test_inherited_producer_raises_in_a_child() -> None:
    run("""
    async def main(bootstrap):
        p = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await p.start()
        await p.send_and_wait("t", b"before")
        def use():
            refused(p.start)
            refused(p.flush)
            refused(lambda: p.partitions_for("t"))
            refused(lambda: p.client.fetch_all_metadata())
            async def handed_over():
                await asyncio.wrap_future(p.send_threadsafe("t", b"x"))
            refused(handed_over)
            async def nowait():
                p.send_nowait("t", b"x")
            refused(nowait)
            refused(lambda: p.send_and_wait("t", b"x"))
            asyncio.run(p.stop())
        assert in_child(use)
        async with asyncio.timeout(20):
            await p.send_and_wait("t", b"after")
            await p.stop()

    with FakeCluster(topics={"t": 1}) as c:
        asyncio.run(main(c.bootstrap_servers))
    """)


def test_inherited_consumer_raises_in_a_child() -> None:
    run("""
    async def main(cluster):
        c = AIOKafkaConsumer(
            "t", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest",
            group_id="g")
        await c.start()
        for _ in range(3):
            cluster.produce("t", b"v", partition=0)
        await c.getone()  # two more are buffered
        def use():
            refused(c.start)
            refused(c.getone)
            refused(c.getmany)
            refused(c.commit)
            refused(c.seek_to_end)
            refused(lambda: c.end_offsets([TopicPartition("t", 0)]))
            async def iterate():
                async for record in c:
                    raise AssertionError(record)
            refused(iterate)
            async def subscribe():
                c.subscribe(["t"])
            refused(subscribe)
            asyncio.run(c.stop())
        assert in_child(use)
        async with asyncio.timeout(20):
            assert [(await c.getone()).offset for _ in range(2)] == [1, 2]
            await c.stop()

    with FakeCluster(topics={"t": 1}) as c:
        asyncio.run(main(c))
    """)


def test_inherited_share_consumer_raises_in_a_child() -> None:
    run("""
    held = {}

    async def main(cluster):
        held["c"] = c = AIOKafkaShareConsumer(
            "t", bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=60_000,
            group_id="g")
        await c.start()
        assert not await c.getmany(timeout_ms=500)  # a new group begins at the end
        cluster.produce("t", b"before", partition=0)
        record = await c.getone()
        assert record.value == b"before"
        async def handle(record):
            pass
        def use():
            refused(c.start)
            refused(c.getone)
            refused(c.getmany)
            refused(c.flush)
            refused(lambda: c.run(handle))
            async def acknowledged():
                c.acknowledge("t", 0, 0)
            refused(acknowledged)
            asyncio.run(c.stop())
        assert in_child(use)
        del c
        def drop():
            held.clear()
            gc.collect()
        assert in_child(drop)
        async with asyncio.timeout(20):  # well below the request's
            assert await record.accept() is None
            cluster.produce("t", b"after", partition=0)
            assert (await held["c"].getone()).value == b"after"
            await held["c"].stop()

    with FakeCluster(topics={"t": 1}) as c:
        asyncio.run(main(c))
    """)


def test_inherited_client_raises_in_a_child() -> None:
    run("""
    async def main(cluster):
        client = AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers)
        await client.bootstrap()
        def use():
            refused(client.bootstrap)
            refused(client.fetch_all_metadata)
            asyncio.run(client.close())
        assert in_child(use)
        async with asyncio.timeout(20):
            await client.fetch_all_metadata()
            await client.close()

    with FakeCluster(topics={"t": 1}) as c:
        asyncio.run(main(c))
    """)


def test_child_can_create_its_own_clients() -> None:
    run("""
    async def main(cluster):
        p = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        await p.start()
        def use():
            async def own():
                async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as mine:
                    await mine.send_and_wait("t", b"child")
            asyncio.run(own())
        assert in_child(use)
        async with asyncio.timeout(20):
            assert (await p.send_and_wait("t", b"parent")).offset == 1
            await p.stop()

    with FakeCluster(topics={"t": 1}) as c:
        asyncio.run(main(c))
    """)
