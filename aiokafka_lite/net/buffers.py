"""Where the bodies of large frames lie: memory that is used again once nobody looks at it.

Memory that was just used is in the processor's cache and has its pages; fresh memory costs a page
fault every 4 KiB, a third of what receiving costs. So the buffers of large frames are kept and
lent again. Nobody has to give one back: decoded responses hold memoryviews of it, CPython counts
them, and a bytearray that is viewed cannot be resized. A buffer is lent again only if it can.

Non-obvious:
- A view that is kept (in a response that is kept, or a traceback) keeps its buffer from being
  lent again, never the other way round: no view ever changes under its owner.
- One event loop uses it: between `take` and the first view nothing else may run.
- A record that lives long must own its bytes, or it pins a whole response.
"""

from typing import Final

SMALLEST: Final = 64 * 1024
"""Bytes below which a body is not worth keeping."""


class ReceiveBuffers:
    """Lends bytearrays for frames, and lends them again.

    Args:
        budget: Bytes kept at most, lent or not; what is lent beyond them is simply not kept.
    """

    def __init__(self, budget: int = 32 * 1024 * 1024) -> None:
        self.budget = budget
        self.kept_bytes = 0
        self._kept: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, with anything in it, that nobody else looks at.

        It belongs to the caller until the last memoryview of it is gone: the caller makes one
        before it takes the next.
        """
        if size < SMALLEST:
            return bytearray(size)
        best: bytearray | None = None
        for buffer in self._kept:
            # Not one that is far too large: it would be pinned for little.
            fits = size <= len(buffer) <= 4 * size
            if fits and (best is None or len(buffer) < len(best)) and is_unseen(buffer):
                best = buffer
        return self._allocate(size) if best is None else best

    def _allocate(self, size: int) -> bytearray:
        buffer = bytearray(_rounded(size))
        wanted = len(buffer)
        if wanted > self.budget:
            return buffer
        if self.kept_bytes + wanted > self.budget:
            self._forget_unseen(wanted)
        if self.kept_bytes + wanted <= self.budget:
            self._kept.append(buffer)
            self.kept_bytes += wanted
        return buffer

    def _forget_unseen(self, wanted: int) -> None:
        """Drop idle buffers, the oldest first, until `wanted` more bytes fit."""
        still: list[bytearray] = []
        for buffer in self._kept:
            if self.kept_bytes + wanted > self.budget and is_unseen(buffer):
                self.kept_bytes -= len(buffer)
            else:
                still.append(buffer)
        self._kept = still

    def clear(self) -> None:
        """Forget every buffer; those in use live as long as their views."""
        self._kept.clear()
        self.kept_bytes = 0


def is_unseen(buffer: bytearray) -> bool:
    """Whether no memoryview of a non-empty bytearray exists.

    Resizing is what CPython refuses while there is one; one byte less and one more stays inside
    the memory that the bytearray has, so nothing moves.
    """
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True


def _rounded(size: int) -> int:
    """The next of 1, 1.25, 1.5, 1.75 times a power of two, so that sizes that vary fit again."""
    step = 1 << max(0, (size - 1).bit_length() - 3)
    return -(-size // step) * step
