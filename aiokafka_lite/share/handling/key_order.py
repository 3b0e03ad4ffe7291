"""Handles records of one key one after the other: `run(..., ordered_by_key=True)`. Sans-IO."""

from bisect import insort
from collections import deque
from collections.abc import Hashable, Iterator
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["KeyOrder", "Keyed"]


class Keyed(Protocol):
    """A record with a key and a place in its partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> Any: ...


_K = TypeVar("_K", bound=Keyed)

_offset = attrgetter("offset")


class KeyOrder(Generic[_K]):
    """Admits one record of each key of a partition at a time; the others wait in offset order.

    Records without a key have no order. Producers send a key to one partition of a topic, so a key
    is identified together with its partition: offsets of different partitions cannot be compared.
    """

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        # A key is present while one of its records is admitted; the value has those that wait.
        self._lanes: dict[tuple[str, int, Hashable], deque[_K] | None] = {}

    def admit(self, record: _K) -> bool:
        """Return True if the record may start; False if it waits for `on_done` of another.

        Raises:
            TypeError: The key is not hashable.
        """
        if record.key is None:
            return True
        place = (record.topic, record.partition, record.key)
        lanes = self._lanes
        if place not in lanes:
            lanes[place] = None
            return True
        lane = lanes[place]
        if lane is None:
            lanes[place] = deque((record,))
        elif record.offset > lane[-1].offset:
            lane.append(record)
        else:  # delivered again, after later ones
            insort(lane, record, key=_offset)
        return False

    def on_done(self, record: _K) -> _K | None:
        """An admitted record is done; admit and return the next record of its key."""
        if record.key is None:
            return None
        place = (record.topic, record.partition, record.key)
        lane = self._lanes.get(place)
        if lane is None:
            self._lanes.pop(place, None)
            return None
        following = lane.popleft()
        if not lane:
            self._lanes[place] = None
        return following

    def waiting(self) -> Iterator[_K]:
        """Iterate over the records that wait."""
        for lane in self._lanes.values():
            if lane is not None:
                yield from lane

    def remove(self, record: _K) -> bool:
        """Drop a waiting record; False if it does not wait here."""
        place = (record.topic, record.partition, record.key)
        lane = self._lanes.get(place)
        if lane is None:
            return False
        for index, each in enumerate(lane):
            if each is record:
                del lane[index]
                if not lane:
                    self._lanes[place] = None
                return True
        return False

    def take_waiting(self) -> list[_K]:
        """Remove and return every record that waits."""
        records = list(self.waiting())
        for place in self._lanes:
            self._lanes[place] = None
        return records
