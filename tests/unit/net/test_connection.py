"""connection: requests and responses, and every way in which a connection can fail."""

from collections.abc import Callable
from typing import Any

from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.unit.net.scripted import Peer


async def answer_heartbeats(peer: Peer) -> None:
    await peer.greet()
    while True:
        header, request = await peer.read()
        assert isinstance(request, HeartbeatRequest)
        peer.answer(header, HeartbeatResponse(throttle_time_ms=request.generation_id))


async def test_requests_are_answered_in_order(
    serve: Callable[..., Any], connect: Callable[..., Any]
) -> None:
    connection = await connect(await serve(answer_heartbeats))
    futures = [connection.send(HeartbeatRequest("g", n, "m"), 4) for n in range(100)]
    assert connection.in_flight == 100
    assert [(await future).throttle_time_ms for future in futures] == list(range(100))
    assert connection.in_flight == 0
    assert connection.version_of(HeartbeatRequest) == 4
