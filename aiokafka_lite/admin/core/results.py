"""`Results`: the result of a call on many items, with a value or an error for each item."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from aiokafka_lite.errors import KafkaError

__all__ = ["Results"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Results(Mapping[K, "V | KafkaError"], Generic[K, V]):
    """The outcome of each item of a call, in the order of the items. Immutable.

        results = await admin.list_offsets({partition: OffsetSpec.LATEST})
        for partition, found in results.items():
            print(partition, "failed" if isinstance(found, KafkaError) else found.offset)

    `results[item]` is the item's value, or the error that it failed with. `valid()` has only the
    values, `errors()` only the errors.

    Args:
        outcomes: A value or an error by item.
    """

    __slots__ = ("_outcomes",)

    def __init__(self, outcomes: Mapping[K, V | KafkaError]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, item: K) -> V | KafkaError:
        return self._outcomes[item]

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    def value(self, item: K) -> V:
        """Return the value of an item.

        Raises:
            KafkaError: The item failed with it.
            KeyError: The call had no such item.
        """
        outcome = self._outcomes[item]
        if isinstance(outcome, KafkaError):
            raise _fresh(outcome)
        return outcome

    def valid(self) -> dict[K, V]:
        """Return the value of each item that succeeded."""
        return {
            item: outcome
            for item, outcome in self._outcomes.items()
            if not isinstance(outcome, KafkaError)
        }

    def errors(self) -> dict[K, KafkaError]:
        """Return the error of each item that failed."""
        return {
            item: outcome
            for item, outcome in self._outcomes.items()
            if isinstance(outcome, KafkaError)
        }

    def raise_for_errors(self) -> dict[K, V]:
        """Return the value of every item, if all of them succeeded.

        Raises:
            KafkaError: The error of the first item that failed; the errors of the others are its
                notes (`__notes__`).
        """
        errors = list(self.errors().values())
        if errors:
            first = _fresh(errors[0])
            for other in errors[1:]:
                first.add_note(f"also: {other}")
            raise first
        return self.valid()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._outcomes!r})"


def _fresh(error: KafkaError) -> KafkaError:
    """Return a copy to raise: a stored error would collect the tracebacks of all its raises."""
    fresh = copy.copy(error)
    fresh.__dict__.pop("__notes__", None)
    return fresh
