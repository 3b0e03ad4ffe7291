"""The memory of one fetch response, accounted until no record set points into it."""

from __future__ import annotations

from collections.abc import Callable


class ResponseBody:
    """The bytes of one fetch response, shared by its record sets.

    Args:
        size: Bytes.
        on_released: Called once, when no record set refers to them any longer.
    """

    __slots__ = ("on_released", "parts", "size")

    def __init__(self, size: int, on_released: Callable[[int], None]) -> None:
        self.size = size
        self.on_released = on_released
        self.parts = 0
