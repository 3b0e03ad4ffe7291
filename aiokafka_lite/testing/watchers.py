"""Change callbacks; the order of calls is unspecified."""

from collections.abc import Callable

__all__ = ["Watchers"]


class Watchers:
    """The callbacks of one observed object."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def remove(self, callback: Callable[[], None]) -> None:
        self._callbacks.remove(callback)

    def notify(self) -> None:
        for callback in self._callbacks.copy():
            callback()
