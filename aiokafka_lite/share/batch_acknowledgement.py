"""The awaitable of several acknowledgements."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from aiokafka_lite.share.records._record_marks_python import until_settled
from aiokafka_lite.share.records.record_marks import Acknowledgement

__all__ = ["BatchAcknowledgement"]


class BatchAcknowledgement:
    """The acknowledgements of several records; awaiting it waits for all of them.

    Raises:
        KafkaError: The first failure, in the order of the records, once all have a result.
            `failures` has the others.

    Cancellation: stops the wait, never the acknowledgements.
    """

    __slots__ = ("_acknowledgements",)

    def __init__(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        self._acknowledgements = acknowledgements

    def done(self) -> bool:
        """True if all results are known."""
        return all(each.done() for each in self._acknowledgements)

    @property
    def failures(self) -> dict[int, Exception]:
        """The failures by index of the record; those known by now."""
        failures: dict[int, Exception] = {}
        for index, each in enumerate(self._acknowledgements):
            if each.done():
                try:
                    each.result()
                except Exception as error:
                    failures[index] = error
        return failures

    def __await__(self) -> Generator[Any, None, None]:
        for each in self._acknowledgements:
            if not each.done():
                yield from until_settled(each)
        for each in self._acknowledgements:
            each.result()

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<BatchAcknowledgement of {len(self._acknowledgements)} records, {state}>"
