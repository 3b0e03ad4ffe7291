"""Requests that wait for their responses, in the order in which they were sent.

A broker answers the requests of a connection in order, so a response belongs to the oldest request
or the stream is broken. Nothing here reads a clock: the caller passes the time.
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
    """The receiver of a response, such as an asyncio future."""

    def done(self) -> bool:
        """True if the response is no longer wanted."""

    def set_result(self, result: Any, /) -> None:
        """Deliver the response (None: none is expected, and the request was sent). Never raises."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Report that no response will come. May be called any time, even within `send`."""

    def exception(self) -> BaseException | None:
        """Called once after `set_exception`, so that a future does not warn if never awaited."""


class Pending:
    """A request that waits for its response.

    Attributes:
        name: Its name in error messages.
        api_key: Key of its API.
        version: Version of the request and its response.
        correlation_id: RAW, or the number that the response repeats.
        response: Class of the response, or its reader; None for raw bytes.
        deadline: Time after which the connection fails.
        future: Receives the response. If it is done before the response arrives (cancelled), the
        response is dropped.
        sent_at: When it was sent, on the clock of the deadline.
    """

    __slots__ = (
        "api_key",
        "correlation_id",
        "deadline",
        "future",
        "name",
        "response",
        "sent_at",
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
        sent_at: float = 0.0,
    ) -> None:
        self.name = name
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.response = response
        self.deadline = deadline
        self.future = future
        self.sent_at = sent_at

    def fail(self, error: BaseException) -> None:
        """Report that no response will come; a future that is never awaited does not warn."""
        self.future.set_exception(error)
        self.future.exception()

    def __str__(self) -> str:
        return f"{self.name} v{self.version} (correlation id {self.correlation_id})"


class InFlight(deque[Pending]):
    """The queue of a connection's pending requests, in the order sent."""

    def take_answered(self, frame: Frame) -> Pending:
        """Remove and return the request that a frame answers: the oldest.

        Raises:
            CorrelationIdError: The frame answers another request, or none is pending.
            KafkaProtocolError: The frame is too short for a correlation id.
        """
        if not self:
            raise CorrelationIdError("received a response, but no request is pending")
        oldest = self[0]
        if oldest.correlation_id != RAW:
            if len(frame) < INT32.size:
                peek_correlation_id(frame)  # raises, because the frame is too short
            (correlation_id,) = INT32.unpack_from(frame)
            if correlation_id == oldest.correlation_id:
                return self.popleft()
            # Brokers 0.8.2 sometimes answer FindCoordinator v0 (then ConsumerMetadata) with id 0.
            excused = correlation_id == 0 and (oldest.api_key, oldest.version) == (
                FIND_COORDINATOR,
                0,
            )
            if not excused:
                raise CorrelationIdError(
                    f"received a response with correlation id {correlation_id}, but the oldest "
                    f"pending request is {oldest}"
                )
        return self.popleft()

    def take_all(self) -> list[Pending]:
        """Remove and return every request, because the connection is lost."""
        pending = list(self)
        self.clear()
        return pending

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, None if nothing is pending."""
        return min((pending.deadline for pending in self), default=None)

    def overdue(self, now: float) -> Pending | None:
        """Return a request whose deadline has passed, None if there is none."""
        return next((pending for pending in self if pending.deadline <= now), None)
