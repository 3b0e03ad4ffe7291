"""Memory for the bodies of large frames, reused once no view of it exists.

Recently used memory is in the processor's cache, and its pages are mapped; fresh memory costs a
page fault every 4 KiB, a third of the cost of receiving. So the buffers of large frames are kept
and reused. Buffers need no explicit release: decoded responses hold memoryviews of a buffer,
CPython counts them, and a bytearray with a view cannot be resized. A buffer is reused only if it
can be resized.

Non-obvious:
- A view that is kept (in a kept response or a traceback) prevents the reuse of its buffer. So the
  bytes of a view never change.
- One event loop uses it: nothing else may run between `take` and the first view.
- A long-lived record must own its bytes, or it pins a whole response.
"""

from typing import Final

SMALLEST: Final = 64 * 1024
"""Size in bytes below which a buffer is not kept."""


class ReceiveBuffers:
    """A pool of bytearrays for frames.

    Args:
        budget: Maximum bytes kept, in use or not; buffers beyond it are not reused.
    """

    def __init__(self, budget: int = 32 * 1024 * 1024) -> None:
        self.budget = budget
        self.kept_bytes = 0
        self._kept: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """Return an unused buffer of at least `size` bytes, with arbitrary content.

        It belongs to the caller until its last memoryview is gone. The caller must create a view
        before it takes the next buffer.
        """
        if size < SMALLEST:
            return bytearray(size)
        best: bytearray | None = None
        for buffer in self._kept:
            # Skip a buffer that is far too large: a small body would pin it.
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
        """Drop every buffer; those in use live as long as their views."""
        self._kept.clear()
        self.kept_bytes = 0


def is_unseen(buffer: bytearray) -> bool:
    """True if no memoryview of a non-empty bytearray exists.

    CPython refuses to resize a bytearray with a view. Removing one byte and adding it again stays
    within the allocated memory, so nothing moves.
    """
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True


def _rounded(size: int) -> int:
    """Round up to 1, 1.25, 1.5 or 1.75 times a power of two, so that similar sizes fit again."""
    step = 1 << max(0, (size - 1).bit_length() - 3)
    return -(-size // step) * step
