"""Requests whose responses are still to come, in the order in which they were sent.

A broker answers the requests of a connection one after the other, so a response belongs to the
oldest of them or the stream is broken. Times are told, not read: nothing here knows a clock.
"""

from collections import deque
from typing import Any, Final, Protocol

from aiokafka_lite.errors import CorrelationIdError
from aiokafka_lite.net.frames import Frame
from aiokafka_lite.protocol.framing import RequestInPieces, peek_correlation_id
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.primitives import INT32

FIND_COORDINATOR: Final = 10
RAW: Final = -1
"""Correlation id of bytes that carry none: the SASL tokens of brokers before 1.0."""


class Promise(Protocol):
    """What a response is given to: an asyncio future is one."""

    def done(self) -> bool:
        """Whether nobody wants the response any more."""

    def set_result(self, result: Any, /) -> None:
        """The response came (None: none is expected, and the request left). It does not raise."""

    def set_exception(self, exception: BaseException, /) -> None:
        """None will come. At any time after the request was made, also from inside `send`."""

    def exception(self) -> BaseException | None:
        """Called once after `set_exception`: a future then does not warn that nobody looked."""


class Pending:
    """A request that waits for its response.

    Attributes:
        name: What it is called in error texts.
        api_key: Of its API.
        version: In which it was encoded, and its response will be.
        correlation_id: RAW, or the number that the response repeats.
        response: Class of the response, or who reads it; None for raw bytes.
        deadline: Instant after which the connection is given up.
        future: Gets the response. May be done by then (cancelled): the response is dropped.
    """

    __slots__ = (
        "api_key",
        "correlation_id",
        "deadline",
        "future",
        "name",
        "response",
        "version",
    )

    def __init__(
        self,
        name: str,
        api_key: int,
        version: int,
        correlation_id: int,
        response: type[Response] | RequestInPieces | None,
        deadline: float,
        future: Promise,
    ) -> None:
        self.name = name
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.response = response
        self.deadline = deadline
        self.future = future

    def fail(self, error: BaseException) -> None:
        """No response will come. Nobody has to look: a future does not warn then."""
        self.future.set_exception(error)
        self.future.exception()

    def __str__(self) -> str:
        return f"{self.name} v{self.version} (correlation id {self.correlation_id})"


class InFlight(deque[Pending]):
    """The queue of one connection's pending requests: appended as they are sent."""

    def take_answered(self, frame: Frame) -> Pending:
        """Remove the request that a frame answers: the oldest.

        Raises:
            CorrelationIdError: It answers another one, or none is pending.
            KafkaProtocolError: The frame is too short to tell.
        """
        if not self:
            raise CorrelationIdError("a response came although no request waits for one")
        oldest = self[0]
        if oldest.correlation_id != RAW:
            if len(frame) < INT32.size:
                peek_correlation_id(frame)  # which says that it is too short
            (correlation_id,) = INT32.unpack_from(frame)
            if correlation_id == oldest.correlation_id:
                return self.popleft()
            # Brokers 0.8.2 answer FindCoordinator v0 (then ConsumerMetadata) with id 0 at times.
            excused = correlation_id == 0 and (oldest.api_key, oldest.version) == (
                FIND_COORDINATOR,
                0,
            )
            if not excused:
                raise CorrelationIdError(
                    f"a response to correlation id {correlation_id} came, but the oldest "
                    f"request is {oldest}"
                )
        return self.popleft()

    def take_all(self) -> list[Pending]:
        """Remove every request: the connection is gone."""
        pending = list(self)
        self.clear()
        return pending

    def next_deadline(self) -> float | None:
        """The earliest deadline, None when nothing is pending."""
        return min((pending.deadline for pending in self), default=None)

    def overdue(self, now: float) -> Pending | None:
        """A request whose deadline has passed, None when there is none."""
        return next((pending for pending in self if pending.deadline <= now), None)
