"""A response must belong to the oldest pending request."""

import asyncio

import pytest

from aiokafka_lite.errors import CorrelationIdError, KafkaProtocolError
from aiokafka_lite.net.in_flight import RAW, InFlight, Pending
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatResponse


def pending(correlation_id: int, deadline: float = 10.0, api_key: int = 12) -> Pending:
    future: asyncio.Future[object] = asyncio.Future(loop=asyncio.new_event_loop())
    future.get_loop().close()
    return Pending("Heartbeat", api_key, 0, correlation_id, HeartbeatResponse, deadline, future)


def frame(correlation_id: int) -> bytes:
    return correlation_id.to_bytes(4, "big", signed=True) + b"rest"


def test_responses_match_requests_in_order() -> None:
    queue = InFlight()
    requests = [pending(n) for n in (7, 8, 9)]
    for each in requests:
        queue.append(each)
    assert [queue.take_answered(frame(n)) for n in (7, 8, 9)] == requests
    assert len(queue) == 0


def test_response_out_of_order_raises() -> None:
    queue = InFlight()
    queue.append(pending(7))
    queue.append(pending(8))
    with pytest.raises(CorrelationIdError, match=r"correlation id 8.*Heartbeat v0.*7"):
        queue.take_answered(frame(8))
    assert len(queue) == 2


def test_response_without_a_pending_request_raises() -> None:
    with pytest.raises(CorrelationIdError, match="no request is pending"):
        InFlight().take_answered(frame(1))


def test_frame_too_short_for_a_correlation_id_raises() -> None:
    queue = InFlight()
    queue.append(pending(7))
    with pytest.raises(KafkaProtocolError):
        queue.take_answered(b"\0\0")


def test_correlation_id_0_of_0_8_2_is_accepted() -> None:
    queue = InFlight()
    coordinator = pending(7, api_key=10)
    queue.append(coordinator)
    assert queue.take_answered(frame(0)) is coordinator
    queue.append(pending(8))
    with pytest.raises(CorrelationIdError):
        queue.take_answered(frame(0))


def test_raw_bytes_need_no_correlation_id() -> None:
    queue = InFlight()
    raw = pending(RAW)
    queue.append(raw)
    assert queue.take_answered(b"") is raw


def test_earliest_deadline_and_overdue_request() -> None:
    queue = InFlight()
    assert queue.next_deadline() is None
    assert queue.overdue(1e9) is None
    slow, quick = pending(1, deadline=20), pending(2, deadline=5)
    queue.append(slow)
    queue.append(quick)
    assert queue.next_deadline() == 5
    assert queue.overdue(4.9) is None
    assert queue.overdue(5) is quick
    assert queue.take_all() == [slow, quick]
    assert len(queue) == 0
