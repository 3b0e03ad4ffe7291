"""A fetch in flight, whose response is processed in the loop iteration that receives it.

A future would need another iteration, and a task to await it. For single records, that is a large
part of the time from the socket to the application. Only in a burst of responses (`LoopBudget`) are
the later ones decoded and processed in a later iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from aiokafka_lite.consumer.fetching.request_codec import write_fetch_request
from aiokafka_lite.consumer.fetching.response_codec import read_fetch_response
from aiokafka_lite.protocol.framing import RequestInPieces
from aiokafka_lite.protocol.messages.fetch import FetchRequest, FetchResponse
from aiokafka_lite.protocol.primitives import Buffer


class UnreadFetch(NamedTuple):
    """A response that is not decoded yet.

    Attributes:
        frame: The bytes of the response after its size field.
        version: The version of the request.
    """

    frame: Buffer
    version: int


class FetchFlight(RequestInPieces):
    """Both the request and the future of its response.

    Args:
        request: The fetch request.
        on_answer: Called with the response. It must not raise.
        on_failure: Called if no response will arrive, possibly before the request was sent.
        is_busy: Returns True if `on_answer` will process a response in a later iteration of the
            event loop: then `on_answer` gets an undecoded one.
    """

    name: ClassVar[str] = FetchRequest.name
    api_key: ClassVar[int] = FetchRequest.api_key
    min_version: ClassVar[int] = FetchRequest.min_version
    max_version: ClassVar[int] = FetchRequest.max_version
    flexible_from: ClassVar[int] = FetchRequest.flexible_from

    __slots__ = ("_failure", "_is_busy", "_on_answer", "_on_failure", "_over", "_request")

    def __init__(
        self,
        request: FetchRequest,
        on_answer: Callable[[FetchResponse | UnreadFetch], None],
        on_failure: Callable[[BaseException], None],
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._request = request
        self._is_busy = is_busy
        self._on_answer = on_answer
        self._on_failure = on_failure
        self._over = False
        self._failure: BaseException | None = None

    def cancel(self) -> None:
        """Discard the response without decoding it."""
        self._over = True

    # request

    def encode_frame(
        self, version: int, correlation_id: int, client_id: str | None
    ) -> list[Buffer]:
        return [write_fetch_request(self._request, version, correlation_id, client_id)]

    def read_response(self, frame: Buffer, version: int) -> FetchResponse | UnreadFetch:
        if self._is_busy():
            return UnreadFetch(frame, version)
        return read_fetch_response(frame, version)

    # future

    def done(self) -> bool:
        return self._over

    def set_result(self, result: FetchResponse | UnreadFetch, /) -> None:
        self._over = True
        self._on_answer(result)

    def set_exception(self, exception: BaseException, /) -> None:
        self._over = True
        self._failure = exception
        self._on_failure(exception)

    def exception(self) -> BaseException | None:
        return self._failure
