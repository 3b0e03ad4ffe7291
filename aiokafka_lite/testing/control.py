"""Fault injection, and the record of every received request.

A `Fault` affects the next `times` requests of one API (or any). It applies before the broker
handles the request, so the request has no effect, or `after_handling`, so only the response is
affected. Faults are tried in the order of their creation, and one applies to a request, after those
that only make partitions fail.
"""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from aiokafka_lite.protocol.message import Request, Response, Struct
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.client_session import ANONYMOUS
from aiokafka_lite.testing.tampering import Tampering

__all__ = ["Control", "Fault", "SeenRequest", "overwrite_error_codes"]

REQUESTS_KEPT: Final = 10_000
LARGEST_BODY_KEPT: Final = 4096
"""Largest request, in bytes, whose body is kept: a larger one would keep its records alive."""

Condition: TypeAlias = Callable[[Any], bool]  # Any: the request class of the fault's API
ErrorOf: TypeAlias = Callable[[str | None, int | None], int]
"""(topic, partition) -> the error code that a fault injects, 0 for none."""

Replacement: TypeAlias = Response | Callable[[Any], Response]


class SeenRequest(NamedTuple):
    """A request that a broker received.

    Attributes:
        node_id: The broker.
        connection_id: Number of the connection, counted across the cluster from 0.
        api_key: The API.
        version: Version of the request.
        correlation_id: From the request header.
        client_id: From the request header.
        size: Size of the frame in bytes, without its length prefix.
        at: Event loop time in seconds.
        body: The decoded request; None if it is larger than `LARGEST_BODY_KEPT` or unreadable.
        principal: The client's principal ("User:alice"); "User:ANONYMOUS" before authentication.
    """

    node_id: int
    connection_id: int
    api_key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    size: int
    at: float
    body: Request | None
    principal: str = ANONYMOUS


class Fault:
    """A fault and the requests it affects; created and documented by `FakeCluster.control`.

    Attributes:
        hits: Number of requests affected so far.
        left: Number of requests it will still affect; None for all.
        only_fails: True if it only makes the request, or parts of it, fail.
        counts_late: True if it only makes partitions fail.
    """

    def __init__(
        self,
        api_key: int | None,
        *,
        times: int | None,
        node: int | None,
        when: Condition | None,
        after_handling: bool,
        delay: float,
        error: int,
        partitions: Iterable[tuple[str, int | None]] | None,
        respond_with: Replacement | None,
        edit: Callable[[Any], None] | None,
        tamper: Tampering | None,
        drop: bool,
        disconnect: bool | int,
    ) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: must be at least 1, or None for no limit")
        if delay < 0:
            raise ValueError(f"delay={delay}: must not be negative (seconds)")
        if disconnect < 0:
            raise ValueError(f"disconnect={disconnect}: must not be negative (bytes)")
        if partitions is not None and (after_handling or not error):
            raise ValueError("partitions requires error, and cannot be used with after_handling")
        self.api_key = api_key
        self.left = times
        self.hits = 0
        self.node = node
        self.when = when
        self.after_handling = after_handling
        self.delay = delay
        self.error = error
        self.partitions = None if partitions is None else frozenset((t, p) for t, p in partitions)
        self.respond_with = respond_with
        self.edit = edit
        self.tamper = tamper
        self.drop = drop
        self.disconnect = disconnect is True
        self.bytes_sent = None if isinstance(disconnect, bool) else disconnect
        # Only the broker finds out if a request is about the partitions: those of a fetch session,
        # for example, are not in it.
        others = (delay, respond_with, edit, tamper, drop, disconnect is not False)
        self.only_fails = bool(error) and not after_handling and not any(others)
        self.counts_late = partitions is not None and self.only_fails
        self._changed = threading.Condition()  # waiters may be in any thread and any loop
        self._waiting: list[tuple[int, Callable[[], object]]] = []

    def matches(self, node_id: int, api_key: int, request: Request) -> bool:
        """Return True if the fault applies to such a request."""
        return not (
            self.left == 0
            or (self.api_key is not None and self.api_key != api_key)
            or (self.node is not None and self.node != node_id)
            or (self.when is not None and not self.when(request))
        )

    def hit(self) -> bool:
        """Count an affected request; return False if the fault affects no more."""
        with self._changed:
            if self.left == 0:
                return False  # removed by `when` or by another thread, or used up meanwhile
            if self.left is not None:
                self.left -= 1
            self.hits += 1
            for wanted, notify in self._waiting:
                if self.hits >= wanted:
                    notify()
            self._changed.notify_all()
        return True

    def remove(self) -> None:
        """Stop affecting requests."""
        with self._changed:
            self.left = 0

    async def struck(self, times: int = 1) -> None:
        """Wait until the fault has affected `times` requests. Cancellation only ends the wait."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def notify() -> None:
            if not future.done():
                future.set_result(None)

        entry = (times, lambda: loop.call_soon_threadsafe(notify))
        with self._changed:
            if self.hits >= times:
                return
            self._waiting.append(entry)
        try:
            await future
        finally:
            with self._changed:
                self._waiting.remove(entry)

    def wait(self, times: int = 1, timeout: float = 10.0) -> None:
        """Blocking version of `struck`, for code without an event loop.

        Raises:
            TimeoutError: Fewer requests were affected within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.hits >= times, timeout):
                raise TimeoutError(
                    f"the fault affected {self.hits} of {times} requests within {timeout} s"
                )

    def late_errors(self) -> ErrorOf:
        """Return `error_for` for the parts of one request, which counts as affected from its first
        error on."""
        is_hit = False

        def error_for(topic: str | None, partition: int | None) -> int:
            nonlocal is_hit
            code = 0 if topic is None else self.error_for(topic, partition)
            is_hit = is_hit or (code != 0 and self.hit())
            return code if is_hit else 0

        return error_for

    def error_for(self, topic: str | None, partition: int | None) -> int:
        """Return the error code for a partition, a topic (partition None) or the whole request."""
        if self.after_handling or not self.error:
            return 0
        if self.partitions is None:
            # Report the error once, at the lowest level: not for the topic *and* its partitions.
            return self.error
        return self.error if (topic, partition) in self.partitions else 0

    def replacement(self, request: Request) -> Response | None:
        """Return the response that replaces the broker's, or None."""
        if callable(self.respond_with):
            return self.respond_with(request)
        return self.respond_with

    def finish(self, response: Response) -> None:
        """Apply `edit` and the error to the broker's response."""
        if self.after_handling and self.error:
            overwrite_error_codes(response, self.error)
        if self.edit is not None:
            self.edit(response)


class Control:
    """The faults of a cluster and the requests its brokers received."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.requests: deque[SeenRequest] = deque(maxlen=REQUESTS_KEPT)
        self.counts: Counter[int] = Counter()

    def on_request(
        self, seen: SeenRequest, request: Request | None
    ) -> tuple[Fault | None, ErrorOf | None]:
        """Record a request (None if not served).

        Returns:
            The fault that applies to the request as a whole, if any; and the errors for its parts,
            None if no fault applies.
        """
        self.requests.append(seen)
        self.counts[seen.api_key] += 1
        if not self.faults or request is None:
            return None, None
        struck_by: Fault | None = None
        errors: list[ErrorOf] = []
        for fault in self.faults:
            if not fault.matches(seen.node_id, seen.api_key, request):
                continue
            if fault.counts_late:
                errors.append(fault.late_errors())
            elif errors and fault.only_fails:  # it applies to the parts that are left, if any
                errors.append(fault.late_errors())
                break
            elif fault.hit():
                struck_by = fault
                errors.append(fault.error_for)
                break
        self.faults = [fault for fault in self.faults if fault.left != 0]
        return struck_by, _first_of(errors) if errors else None


def _first_of(all_errors: Sequence[ErrorOf]) -> ErrorOf:
    def error_for(topic: str | None, partition: int | None) -> int:
        codes = (each(topic, partition) for each in all_errors)
        return next((code for code in codes if code), 0)

    return error_for


def overwrite_error_codes(response: Struct, code: int) -> bool:
    """Set every innermost `error_code`; return True if there was one."""
    found = False
    for name in response.__slots__:
        value = getattr(response, name)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Struct) and overwrite_error_codes(item, code):
                found = True
    if not found and hasattr(response, "error_code"):
        response.error_code = code
        found = True
    return found
