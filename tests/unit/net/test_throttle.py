"""While a broker throttles (KIP-219), requests are held and their timeouts are paused."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.net.in_flight import Pending
from aiokafka_lite.net.throttle import LONGEST_THROTTLE, Throttle, throttle_of
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lite.protocol.versions import versions_of
from tests.unit.net.scripted import Peer

Serve = Callable[..., Any]
Connect = Callable[..., Any]

HEARTBEAT = 4
PAUSE = 0.15


def heartbeat(number: int) -> HeartbeatRequest:
    return HeartbeatRequest("group", number, "member")


async def answer(peer: Peer, *throttles_ms: int) -> list[int]:
    """Answer requests in order; return their numbers."""
    numbers = []
    for throttle in throttles_ms:
        header, asked = await peer.read()
        assert isinstance(asked, HeartbeatRequest)
        numbers.append(asked.generation_id)
        peer.answer(header, HeartbeatResponse(throttle_time_ms=throttle))
    return numbers


@pytest.mark.parametrize(
    ("release", "throttle_ms", "seconds"),
    [
        ("2.0", 250, 0.25),
        ("4.4", 2**31 - 1, LONGEST_THROTTLE),
        ("4.4", 0, 0.0),
        ("4.4", -5, 0.0),
        ("1.1", 250, 0.0),  # the throttle preceded the response
    ],
)
def test_throttle_time_of_a_response(release: str, throttle_ms: int, seconds: float) -> None:
    response = HeartbeatResponse(throttle_time_ms=throttle_ms)
    assert throttle_of(response, versions_of(release)) == seconds


async def test_held_requests_are_sent_after_the_throttle(serve: Serve, connect: Connect) -> None:
    loop = asyncio.get_running_loop()
    received: list[tuple[int, float]] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, int(PAUSE * 1000))
        for number in await answer(peer, 0, 0, 0):
            received.append((number, loop.time()))
        await peer.silence()

    connection = await connect(await serve(script))
    await connection.request(heartbeat(0), HEARTBEAT)
    throttled_at = loop.time()
    futures = [connection.send(heartbeat(n), HEARTBEAT) for n in (1, 2, 3)]
    assert connection.in_flight == 0
    await asyncio.gather(*futures)
    assert [number for number, _ in received] == [1, 2, 3]
    assert loop.time() >= throttled_at + PAUSE - 0.01
    connection.send(heartbeat(4), HEARTBEAT)
    assert connection.in_flight == 1  # the throttle has ended


async def test_timeouts_are_paused_during_the_throttle(serve: Serve, connect: Connect) -> None:
    released = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, 1000)
        await released.wait()
        await answer(peer, 0, 0)
        await peer.silence()

    connection = await connect(await serve(script))
    first = connection.send(heartbeat(0), HEARTBEAT)
    in_flight = connection.send(heartbeat(1), HEARTBEAT, timeout=0.5)
    await first
    held = connection.send(heartbeat(2), HEARTBEAT, timeout=0.5)
    assert connection.in_flight == 1
    asyncio.get_running_loop().call_later(0.8, released.set)
    await asyncio.gather(in_flight, held)
    assert not connection.closed


async def test_timeouts_continue_after_the_throttle(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, int(PAUSE * 1000))
        await peer.silence()

    connection = await connect(await serve(script))
    await connection.request(heartbeat(0), HEARTBEAT)
    with pytest.raises(KafkaConnectionError, match=r"was not answered within 0\.\d+ s"):
        await connection.request(heartbeat(1), HEARTBEAT, timeout=0.05)
    assert connection.closed


async def test_shorter_throttle_does_not_end_a_longer_one(serve: Serve, connect: Connect) -> None:
    loop = asyncio.get_running_loop()

    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, int(PAUSE * 1000), int(2 * PAUSE * 1000), 10, 0)
        await peer.silence()

    connection = await connect(await serve(script))
    first, second, third = (connection.send(heartbeat(n), HEARTBEAT) for n in range(3))
    await asyncio.gather(first, second, third)
    throttled_at = loop.time()
    await connection.request(heartbeat(3), HEARTBEAT)
    assert loop.time() >= throttled_at + 2 * PAUSE - 0.05


async def test_close_during_a_throttle_fails_held_requests(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, 60_000)
        await peer.silence()

    connection = await connect(await serve(script))
    await connection.request(heartbeat(0), HEARTBEAT)
    held = connection.send(heartbeat(1), HEARTBEAT)
    connection.close()
    with pytest.raises(KafkaConnectionError, match="closed"):
        await held


async def test_wait_for_the_end_of_the_throttle(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, int(PAUSE * 1000), 60_000)
        await peer.silence()

    connection = await connect(await serve(script))
    await connection.until_listening()  # returns at once
    await connection.request(heartbeat(0), HEARTBEAT)
    waits = [asyncio.ensure_future(connection.until_listening()) for _ in range(2)]
    await asyncio.sleep(0)
    waits[0].cancel()
    await waits[1]
    assert connection.listens
    await connection.request(heartbeat(1), HEARTBEAT)
    wait = asyncio.ensure_future(connection.until_listening())
    await asyncio.sleep(0)
    assert not wait.done()
    connection.close()
    async with asyncio.timeout(5):
        await wait


async def test_connection_with_held_requests_is_not_idle(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, int(4 * PAUSE * 1000), 0)
        await peer.silence()

    connection = await connect(await serve(script), connections_max_idle=PAUSE)
    await connection.request(heartbeat(0), HEARTBEAT)
    await connection.request(heartbeat(1), HEARTBEAT)


async def test_cancelled_held_request_does_not_block_others(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await answer(peer, int(PAUSE * 1000), 0, 0)
        await peer.silence()

    connection = await connect(await serve(script))
    await connection.request(heartbeat(0), HEARTBEAT)
    gone, kept = (connection.send(heartbeat(n), HEARTBEAT) for n in (1, 2))
    gone.cancel()
    await kept


async def test_overlapping_throttles_do_not_add_up() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    pending = Pending("Heartbeat", 12, HEARTBEAT, 1, None, loop.time() + 10, future)
    before = pending.deadline
    throttle = Throttle(loop)
    begun = loop.time()
    for _ in range(1000):
        throttle.begin(LONGEST_THROTTLE, [pending])
    took = loop.time() - begun
    assert 0 <= pending.deadline - before - LONGEST_THROTTLE <= took + 0.01
    throttle.begin(1.0, [pending])
    assert pending.deadline - before - LONGEST_THROTTLE <= took + 0.01
    throttle.cancel()
    future.cancel()
