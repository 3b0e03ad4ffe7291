"""Tracks the items of one call: pending, done or failed. No I/O, no clock.

The code that sends requests calls `begin` before each request, and reports the response with
`on_value` and `on_error` for each item, then `end`. Items whose error is retriable stay pending and
are part of the next request; an item that a response omits fails. `fail_pending` ends the call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, TypeVar

from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.errors import (
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    ThrottlingQuotaExceededError,
    for_code,
)

__all__ = ["Outcomes", "item_error"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def item_error(code: int, label: str, message: str | None = None) -> KafkaError:
    """Return the error of one item of a response.

    Args:
        code: The error code, not 0.
        label: The item, as an error message names it: "topic 'orders'".
        message: The broker's message, if it sent one.
    """
    kind = for_code(code)
    why = message or kind.description
    if kind.errno != code:  # a code from a newer release
        why = f"error code {code}" + (f": {message}" if message else "")
    return kind(f"{label}: {why}")


class Outcomes(Generic[K, V]):
    """The items of one call, and the outcome of each.

    Args:
        items: The items, in the order of the results; duplicates count once.
        label: Names an item in an error message: "topic 'orders'".
        retriable: Returns True for an item's error that a later request may not get. By default the
            error classes decide; Kafka's table calls some errors retriable that are final for a
            request, such as UNKNOWN_TOPIC_OR_PARTITION when a topic is deleted.
        retries_refusal: Likewise for the error of a whole response; None: as `retriable`.
    """

    def __init__(
        self,
        items: Iterable[K],
        label: Callable[[K], str],
        *,
        retriable: Callable[[KafkaError], bool] = lambda error: error.retriable,
        retries_refusal: Callable[[KafkaError], bool] | None = None,
    ) -> None:
        self.label = label
        self.retries_refusal = retries_refusal or retriable
        self._retriable = retriable
        self._items = tuple(dict.fromkeys(items))
        # The last error of each item that has no outcome yet.
        self._pending: dict[K, KafkaError | None] = dict.fromkeys(self._items)
        self._outcomes: dict[K, V | KafkaError] = {}
        self._in_flight: set[K] = set()  # begun, not ended
        self._unreported: set[K] = set()  # begun, not reported in the response so far
        self._repeated: set[K] = set()  # requested again after a request without a response
        self._answered = False  # True once a broker reported the outcome of an item
        self._failure: KafkaError | None = None  # the first that did not concern a single item

    @property
    def pending(self) -> list[K]:
        """The items without an outcome, in order."""
        return list(self._pending)

    def is_pending(self, item: K) -> bool:
        """True if the item has no outcome yet."""
        return item in self._pending

    def last_error(self, item: K) -> KafkaError | None:
        """Return the retriable error that a pending item got last, or None."""
        return self._pending.get(item)

    def was_interrupted(self, item: K) -> bool:
        """True if an earlier request for the item got no response: it may have been carried out."""
        return item in self._repeated

    # A request and its response

    def begin(self, items: Iterable[K] | None = None) -> list[K]:
        """Return the items for a request: those of `items` (None: all) that are pending."""
        asked = self.pending if items is None else [each for each in items if each in self._pending]
        self._repeated |= self._in_flight.intersection(asked)
        self._in_flight.update(asked)
        self._unreported.update(asked)
        return asked

    def on_value(self, item: K, value: V) -> None:
        """An item is done. Ignored if the item has an outcome, or was not requested."""
        if item in self._pending:
            self._on_reported(item)
            self._settle(item, value)

    def on_error(self, item: K, error: KafkaError) -> None:
        """An item got an error: it stays pending if the error is retriable, otherwise it fails."""
        if item in self._pending:
            self._on_reported(item)
            if self._retriable(error):
                self._pending[item] = error
            else:
                self._settle(item, error)

    def on_unknown(self, item: K) -> None:
        """The broker cannot answer this request for an item, which stays pending for another
        request."""
        if item in self._pending:
            self._on_reported(item)

    def on_lookup_error(self, item: K, error: KafkaError) -> None:
        """The broker of an item is unknown: the error's class decides, not the call's policy."""
        if item in self._pending:
            self._on_reported(item)
            if error.retriable:
                self._pending[item] = error
            else:
                self._settle(item, error)

    def on_code(
        self, item: K, code: int, message: str | None = None, *, throttle_time_ms: int = 0
    ) -> bool:
        """Report an item's error code, if it is one.

        Args:
            throttle_time_ms: Of the response, for the error of a quota (KIP-599).

        Returns:
            True if the code is an error (not 0); otherwise the caller reports the value.
        """
        if not code:
            return False
        error = item_error(code, self.label(item), message)
        if isinstance(error, ThrottlingQuotaExceededError):
            error.throttle_time_ms = throttle_time_ms
        self.on_error(item, error)
        return True

    def end(self, asked: Collection[K]) -> KafkaError | None:
        """A response was read: fail the items that it omits.

        Args:
            asked: What `begin` returned for the request.

        Returns:
            The error to retry after, if some of these items are still pending.
        """
        again: KafkaError | None = None
        for item in asked:
            self._in_flight.discard(item)
            if item in self._unreported:
                self._on_reported(item)
                missing = KafkaProtocolError(f"{self.label(item)}: the response omits it")
                self._settle(item, missing)
            again = again or self._pending.get(item)
        return again

    # Failures of the request itself

    def on_refused(self, asked: Collection[K]) -> None:
        """A response was an error for the whole request, so no part of it was carried out."""
        self._in_flight.difference_update(asked)
        self._unreported.difference_update(asked)

    def on_failure(self, items: Iterable[K], error: KafkaError) -> None:
        """A request for some items failed as a whole: retried if the error is retriable."""
        for item in items:
            if item in self._pending:
                self._pending[item] = error
                if not error.retriable:
                    self._fail(item, error)

    def fail_pending(self, error: KafkaError, items: Iterable[K] | None = None) -> None:
        """The call ends with an error for those of `items` (None: all) that are pending."""
        for item in self.pending if items is None else items:
            if item in self._pending:
                self._fail(item, error)

    def results(self) -> Results[K, V]:
        """Return the outcomes. Every item must have one.

        Raises:
            KafkaError: The call failed before any broker reported the outcome of an item.
        """
        if self._failure is not None and not self._answered:
            raise self._failure
        return Results({item: self._outcomes[item] for item in self._items})

    def _fail(self, item: K, error: KafkaError) -> None:
        last = self._pending[item]
        mine = copy.copy(error)
        if isinstance(last, ThrottlingQuotaExceededError) and item not in self._in_flight:
            mine = last  # the quota is the reason, not the time
        elif last is not None and last is not error and isinstance(error, KafkaTimeoutError):
            mine = type(error)(f"{self.label(item)}: timed out: {last}")
            mine.__cause__ = last
        self._failure = self._failure or mine
        self._settle(item, mine)

    def _on_reported(self, item: K) -> None:
        self._answered = True
        self._unreported.discard(item)

    def _settle(self, item: K, outcome: V | KafkaError) -> None:
        del self._pending[item]
        self._in_flight.discard(item)
        self._unreported.discard(item)
        self._outcomes[item] = outcome
