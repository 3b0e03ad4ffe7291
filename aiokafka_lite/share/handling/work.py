"""The parts of the consumer and its records that `run` and `process` need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["Feed", "Renewal", "Work", "WorkSource", "describe"]


class Renewal(Protocol):
    """A renewal of a lock that was requested."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...
    def exception(self) -> BaseException | None: ...


class Work(Protocol):
    """An acquired record."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> Any: ...
    @property
    def delivery_count(self) -> int: ...
    @property
    def lock_deadline(self) -> float:
        """End of the lock in loop time; it moves when a renewal succeeds, and is in the past once
        the lock is known to be lost."""

    @property
    def _lock_duration(self) -> float:
        """Seconds that the broker locks records, as it last reported."""

    @property
    def settled(self) -> bool:
        """True once the record was accepted, released or rejected."""

    def accept(self) -> object: ...
    def _accept_undecided(self) -> None:
        """Accept the record unless it is settled."""

    def release(self) -> object: ...
    def reject(self) -> object: ...
    def renew(self) -> Renewal: ...


W_co = TypeVar("W_co", bound=Work, covariant=True)


class WorkSource(Protocol[W_co]):
    """The source of acquired records."""

    async def getmany(self, *, timeout_ms: float, max_records: int) -> Sequence[W_co]:
        """Acquire up to `max_records`, waiting for the first of them.

        Cancellation loses no record: nothing was acquired, or the next call returns it.
        """


class Feed(Protocol):
    """A consumer that passes on acquired records as they arrive, faster than `getmany`."""

    async def feed(self, feeder: Any, /) -> None:
        """Call `take` of the worker until an exception.

        Cancellation loses no record.
        """

    def on_room(self) -> None:
        """A worker's `room` may return more than before."""


def describe(record: Work) -> str:
    """Name a record in logs and errors."""
    return f"{record.topic}-{record.partition}@{record.offset} (delivery {record.delivery_count})"
