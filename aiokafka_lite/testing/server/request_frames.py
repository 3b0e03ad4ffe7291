"""Splits received bytes into requests. No I/O: the transport writes into the buffer.

Small requests are copied out of one scratch buffer. A larger request is received directly into
its own buffer. Either way, the frame owns its bytes.
"""

from struct import Struct
from typing import Final

from aiokafka_lite.errors import KafkaProtocolError

__all__ = ["LARGEST_REQUEST", "LARGEST_TOKEN", "FrameReceiver"]

SCRATCH_BYTES: Final = 64 * 1024
LARGEST_REQUEST: Final = 100 * 1024 * 1024  # socket.request.max.bytes
LARGEST_TOKEN: Final = 512 * 1024  # sasl.server.max.receive.size
_LENGTH: Final = Struct(">i")


class FrameReceiver:
    """Call `get_buffer` for a buffer to receive into, then `on_bytes` after receiving.

    Attributes:
        largest: Maximum size of the next request in bytes.
    """

    __slots__ = ("_filled", "_large", "_large_filled", "_scratch", "largest")

    def __init__(self) -> None:
        self.largest = LARGEST_REQUEST
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._filled = 0
        self._large: bytearray | None = None
        self._large_filled = 0

    def get_buffer(self) -> memoryview:
        """Return a buffer of at least one byte; valid until the next `on_bytes`."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return self._scratch[self._filled :]

    def on_bytes(self, count: int) -> list[bytes | bytearray]:
        """Record `count` received bytes and return the completed requests.

        Raises:
            KafkaProtocolError: The length prefix is invalid.
        """
        if self._large is not None:
            self._large_filled += count
            if self._large_filled < len(self._large):
                return []
            frame, self._large = self._large, None
            return [frame]
        self._filled += count
        return self._take_from_scratch()

    def _take_from_scratch(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
        scratch, filled, position = self._scratch, self._filled, 0
        while filled - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(scratch, position)
            if not 0 <= length <= self.largest:
                raise KafkaProtocolError(f"invalid request length {length} bytes")
            begin, end = position + _LENGTH.size, position + _LENGTH.size + length
            if end > filled:
                if length + _LENGTH.size > len(scratch):
                    self._large = bytearray(length)
                    self._large_filled = filled - begin
                    self._large[: self._large_filled] = bytes(scratch[begin:filled])
                    position = filled
                break
            frames.append(bytes(scratch[begin:end]))
            position = end
        rest = filled - position
        if position and rest:
            scratch[:rest] = bytes(scratch[position:filled])  # a partial request moves to the front
        self._filled = rest
        return frames
