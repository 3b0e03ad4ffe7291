"""Received bytes in, frames out: the receive side of Kafka's framing, without any I/O. The readable
specification.

A frame is a length of four bytes and that many bytes. The reader of the socket calls `window()` for
the buffer of the next bytes, and `on_received` with the number of bytes received. Small frames pass
through a reused scratch buffer; a large frame is received in place into a separate buffer. The
length is checked before memory of that size is allocated.

Non-obvious:
- Returned frames own their bytes (`bytes`, or a memoryview of a buffer that belongs to them alone),
  so they outlive the scratch.
- `window()` is a memoryview: over TLS, asyncio writes into slices of it. A slice of a bytearray
  would be a copy, and its bytes would be lost.
- After a large frame the window is small: the next frame is probably large, too, and bytes that
  land in the scratch must be copied.
- Invalid frames do not raise: `error` is set, and the frames before them are valid.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, TypeAlias

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.net.buffers import ReceiveBuffers

Frame: TypeAlias = bytes | memoryview
"""The complete bytes after a length."""

FIRST_SCRATCH: Final = 16 * 1024
LARGEST_SCRATCH: Final = 256 * 1024
WINDOW_AFTER_LARGE: Final = 4 * 1024

_LENGTH: Final = Struct(">i")
_NOTHING: Final[Sequence[Frame]] = ()


class FrameReceiver:
    """Splits one connection's received bytes into frames.

    Args:
        limit: Largest length accepted, in bytes.
        buffers: Lends the buffers of large frames.
        smallest: Smallest length accepted; 4 is a response of nothing but its correlation id.
    """

    def __init__(self, limit: int, buffers: ReceiveBuffers, smallest: int = 4) -> None:
        self.limit = limit
        self.smallest = smallest
        self.error: KafkaProtocolError | None = None
        """Set for an invalid length; nothing can be read after it."""
        self._buffers = buffers
        self._scratch = memoryview(bytearray(FIRST_SCRATCH))
        self._start = 0  # of the first unread byte in the scratch
        self._end = 0  # past the last received byte in the scratch
        self._body: memoryview | None = None  # the large frame being received in place
        self._filled = 0  # bytes of it received so far
        self._after_large = False

    @property
    def idle(self) -> bool:
        """True if no frame is partly received."""
        return self._body is None and self._start == self._end

    def window(self) -> memoryview:
        """Return the buffer for the next bytes: never empty, valid until the next `on_received`."""
        if self._body is not None:
            return self._body[self._filled :]
        if self._start == self._end:
            self._start = self._end = 0
            if self._after_large:
                return self._scratch[:WINDOW_AFTER_LARGE]
            return self._scratch
        return self._scratch[self._end :]

    def on_received(self, count: int) -> Sequence[Frame]:
        """Process `count` bytes that were written into the window.

        Returns:
            The frames that are now complete, in order. Check `error` afterwards.
        """
        if self.error is not None:
            return _NOTHING
        body = self._body
        if body is not None:
            self._filled += count
            if self._filled < len(body):
                return _NOTHING
            self._body = None
            self._after_large = True
            return (body,)
        start, end = self._start, self._end + count
        if count < 0 or end > len(self._scratch):
            raise ValueError("more bytes were received than the window holds")
        if end - start > 4 and end < len(self._scratch):
            # The common case: exactly one whole small frame.
            (length,) = _LENGTH.unpack_from(self._scratch, start)
            if start + 4 + length == end and self.smallest <= length <= self.limit:
                self._start = self._end = end
                self._after_large = False
                return (bytes(self._scratch[start + 4 : end]),)
        self._end = end
        full = self._end == len(self._scratch)
        frames = self._take_frames()
        if full:
            self._make_room()
        return frames

    def _take_frames(self) -> Sequence[Frame]:
        """Cut whole frames out of the scratch; start a large one in a separate buffer."""
        scratch = self._scratch
        start = self._start
        end = self._end
        frames: list[Frame] = []
        while end - start >= 4:
            (length,) = _LENGTH.unpack_from(scratch, start)
            if not self.smallest <= length <= self.limit:
                self.error = KafkaProtocolError(
                    refusal(length, smallest=self.smallest, limit=self.limit)
                )
                break
            stop = start + 4 + length
            if stop <= end:
                frames.append(bytes(scratch[start + 4 : stop]))
                self._after_large = False
                start = stop
            elif 4 + length > len(scratch):
                self._begin_body(length, scratch[start + 4 : end])
                start = end
                break
            else:
                break
        self._start = start
        return frames

    def _begin_body(self, length: int, received: memoryview) -> None:
        self._body = memoryview(self._buffers.take(length))[:length]
        self._filled = len(received)
        self._body[: self._filled] = received

    def _make_room(self) -> None:
        """Grow the full scratch and move unread bytes to the front."""
        unread = self._scratch[self._start : self._end]
        if len(self._scratch) < LARGEST_SCRATCH:
            self._scratch = memoryview(bytearray(2 * len(self._scratch)))
        self._scratch[: len(unread)] = bytes(unread)
        self._start, self._end = 0, len(unread)


def refusal(length: int, *, smallest: int, limit: int) -> str:
    """Return why a length is rejected; it may be the first bytes of another protocol."""
    raw = length.to_bytes(4, "big", signed=True)
    if raw == b"HTTP":
        return "the other side speaks HTTP, not the Kafka protocol: check the port"
    if raw[:2] in (b"\x15\x03", b"\x16\x03"):
        return "the other side speaks TLS: set security_protocol to SSL or SASL_SSL"
    if length < smallest:
        return f"a frame has the invalid length of {length} bytes"
    return f"a frame of {length} bytes is larger than the limit of {limit} bytes"
