"""gzip, snappy, lz4 and zstd as Kafka uses them, with levels and a limit on decompressed size.

Contexts are reused, one set per thread (a reused zstd context is three times as fast on a 16 KiB
batch), so that other threads than the event loop's can process large batches. The libraries are
imported on first use. gzip uses isal if it is installed and no level above 1 is set.

The formats are those of the Java client:
- snappy is written in xerial's framing (32 KiB blocks); raw blocks are read, too;
- lz4 is a frame of independent 64 KiB blocks without content size, which all brokers can read;
- in message format v0 an lz4 frame's header checksum covers the frame magic, too (KAFKA-3160);
- consecutive gzip members and consecutive zstd or lz4 frames are concatenated; zstd's skippable
  frames are skipped.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from threading import local
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol

from aiokafka_lite.errors import (
    CorruptRecordException,
    KafkaConfigurationError,
    RecordTooLargeError,
    UnsupportedCodecError,
)

if TYPE_CHECKING:
    import zstandard

Bytes = bytes | bytearray | memoryview

DEFAULT_LIMIT: Final = 128 * 1024 * 1024  # maximum bytes of a decompressed batch
_CHUNK: Final = 64 * 1024


class Compression(IntEnum):
    """A codec by its number in a batch's attributes; `named()` finds it by Kafka's name."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str | None) -> "Compression":
        """Return the codec for Kafka's `compression.type`; None and "none" mean NONE.

        Raises:
            KafkaConfigurationError: No codec has this name.
        """
        member = cls.NONE if name is None else cls.__members__.get(str(name).upper())
        if member is None:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise KafkaConfigurationError(f"Unknown compression type {name!r}; known: {known}")
        return member


_LEVELS: Final[dict[Compression, range]] = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-131072, 23),
}


def check_level(codec: Compression, level: int | None) -> None:
    """Check that the codec has this level (KIP-390's ranges); None is every codec's default.

    Raises:
        KafkaConfigurationError: The level is out of range, or the codec has no levels.
    """
    if level is None:
        return
    levels = _LEVELS.get(codec)
    if levels is None:
        raise KafkaConfigurationError(f"{codec.name.lower()} has no compression levels")
    if level not in levels:
        raise KafkaConfigurationError(
            f"{codec.name.lower()} level {level} is not within {levels[0]} .. {levels[-1]}"
        )


def compress(data: Bytes, codec: Compression, level: int | None = None) -> bytes:
    """Compress `data` as the Java producer does; NONE copies it.

    Raises:
        KafkaConfigurationError: See `check_level`.
    """
    check_level(codec, level)
    if codec is Compression.NONE:
        return bytes(data)
    return _COMPRESSORS[codec](data, level)


def decompress(data: Bytes, codec: int, *, limit: int = DEFAULT_LIMIT) -> bytes:
    """Decompress any producer's data. Memory grows with the output, never with a claimed size.

    Args:
        data: The compressed part of a batch or message.
        codec: The codec from the batch's attributes.
        limit: Maximum decompressed size in bytes.

    Raises:
        CorruptRecordException: `data` is not valid for the codec, or is truncated.
        RecordTooLargeError: The decompressed size exceeds `limit`.
        UnsupportedCodecError: No codec has this number.
    """
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedCodecError(f"Compression codec {codec} is unknown to this client")
    return decompressor(data, limit)


def _too_large(codec: Compression, limit: int) -> RecordTooLargeError:
    return RecordTooLargeError(
        f"A {codec.name.lower()} batch decompresses to more than {limit} bytes"
    )


def _corrupt(codec: Compression, why: object) -> CorruptRecordException:
    return CorruptRecordException(f"Corrupt {codec.name.lower()} data: {why}")


class _Contexts(local):
    """Compression contexts of one thread: no library allows sharing them."""

    def __init__(self) -> None:
        self.zstd_compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.zstd_decompressor: zstandard.ZstdDecompressor | None = None
        self.lz4_decompression: object | None = None


_contexts: Final = _Contexts()


# gzip


class _Inflater(Protocol):
    eof: bool
    unused_data: bytes
    unconsumed_tail: bytes

    def decompress(self, data: Bytes, max_length: int, /) -> bytes: ...


def _deflate_library() -> ModuleType:
    try:
        from isal import isal_zlib
    except ImportError:  # optional: zlib reads and writes the same format, slower
        return zlib
    return isal_zlib


def _gzip_compress(data: Bytes, level: int | None) -> bytes:
    library = _deflate_library()
    if library is zlib or (level is not None and level > 1):
        deflater = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return deflater.compress(data) + deflater.flush()
    deflater = library.compressobj(2 if level is None else level, zlib.DEFLATED, 31)
    return bytes(deflater.compress(data) + deflater.flush())


def _gzip_decompress(data: Bytes, limit: int) -> bytes:
    library = _deflate_library()
    out: list[bytes] = []
    room = limit
    with memoryview(data) as view:
        at, end = 0, len(view)
        while True:
            inflater: _Inflater = library.decompressobj(31)
            # Each call copies the input that it leaves, so a member begins with a part of it:
            # thousands of tiny members would otherwise copy all that follows, each of them.
            size, ended = _CHUNK, False
            while not ended:
                step = min(end, at + size)
                try:
                    piece = inflater.decompress(
                        view[at:step], min(room + 1, max(_CHUNK, 8 * (step - at)))
                    )
                except Exception as error:  # zlib.error, or isal's own class
                    raise _corrupt(Compression.GZIP, error) from error
                room -= len(piece)
                if room < 0:
                    raise _too_large(Compression.GZIP, limit)
                ended = inflater.eof
                at = step - len(inflater.unused_data if ended else inflater.unconsumed_tail)
                if not piece and at == end and not ended:
                    raise _corrupt(Compression.GZIP, "it ends early")
                out.append(piece)
                size *= 8
            # As in Java's GZIPInputStream, other data ends the stream.
            if bytes(view[at : at + 2]) != b"\x1f\x8b":
                return out[0] if len(out) == 1 else b"".join(out)


# snappy

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_RATIO: Final = 22  # its densest element makes 64 bytes of 3
_INT: Final = struct.Struct(">i")


def _snappy_compress(data: Bytes, level: int | None) -> bytes:
    from cramjam import snappy

    out = bytearray(_XERIAL_HEADER)
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
            out += _INT.pack(len(block))
            out += block
    return bytes(out)


def _snappy_decompress(data: Bytes, limit: int) -> bytes:
    with memoryview(data) as view:
        if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
            return _snappy_block(view, limit, limit)
        out = bytearray()
        at, end = len(_XERIAL_HEADER), len(view)
        if end < at:
            raise _corrupt(Compression.SNAPPY, "its header is cut off")
        while at < end:
            if bytes(view[at : at + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:  # a further stream
                at += len(_XERIAL_HEADER)
                continue
            if end - at < 4:
                raise _corrupt(Compression.SNAPPY, "a block's length is cut off")
            (length,) = _INT.unpack_from(view, at)
            at += 4
            if not 0 <= length <= end - at:
                raise _corrupt(Compression.SNAPPY, f"a block of {length} bytes, {end - at} left")
            out += _snappy_block(view[at : at + length], limit - len(out), limit)
            at += length
        return bytes(out)


def _snappy_block(block: memoryview, room: int, limit: int) -> bytes:
    import cramjam

    raw = bytes(block)
    try:
        claimed = cramjam.snappy.decompress_raw_len(raw)
        if claimed > _SNAPPY_RATIO * len(raw):
            raise _corrupt(Compression.SNAPPY, f"{len(raw)} bytes claim to be {claimed}")
        if claimed > room:
            raise _too_large(Compression.SNAPPY, limit)
        return bytes(cramjam.snappy.decompress_raw(raw))
    except cramjam.DecompressionError as error:
        raise _corrupt(Compression.SNAPPY, error) from error


# lz4

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"


def _lz4_compress(data: Bytes, level: int | None) -> bytes:
    from lz4 import frame

    compressed: bytes = frame.compress(
        data,
        compression_level=0 if level is None else min(level, frame.COMPRESSIONLEVEL_MAX),
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,  # Java's reader rejects linked blocks
        store_size=False,  # and that of 0.8 rejects a content size
    )
    return compressed


def _lz4_decompress(data: Bytes, limit: int) -> bytes:
    from lz4 import frame

    context = _contexts.lz4_decompression
    if context is None:
        context = _contexts.lz4_decompression = frame.create_decompression_context()
    out: list[bytes] = []
    room = limit
    with memoryview(data) as view:
        at, end, finished = 0, len(view), False
        try:
            while not finished:
                piece, consumed, finished = frame.decompress_chunk(
                    context, view[at:], max_length=min(room + 1, max(_CHUNK, 4 * (end - at)))
                )
                at += consumed
                room -= len(piece)
                if room < 0:
                    raise _too_large(Compression.LZ4, limit)
                if not piece and not consumed and not finished:
                    raise _corrupt(Compression.LZ4, "it ends early")
                out.append(piece)
                if finished and bytes(view[at : at + 4]) == _LZ4_MAGIC:
                    finished = False  # a further frame
        except RuntimeError as error:
            if isinstance(error, CorruptRecordException | RecordTooLargeError):
                raise
            raise _corrupt(Compression.LZ4, error) from error
        finally:
            if not finished:
                # A new one, because a reset leaves the rest of the content size that the frame
                # claimed, and frames without one would then fail.
                _contexts.lz4_decompression = None
    return out[0] if len(out) == 1 else b"".join(out)


# zstd

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a byte of 50 to 5f
_ZSTD_RATIO: Final = 32 * 1024  # a run of 128 KiB costs 4 bytes
_ZSTD_STEP: Final = 64
_ZSTD_TRUSTED_RATIO: Final = 64  # a claim up to here is allocated at once
_ZSTD_BLOCK: Final = 128 * 1024  # maximum bytes of a decompressed block
_ZSTD_RUN: Final = 1  # block types: a run of one byte,
_ZSTD_COMPRESSED: Final = 2
_ZSTD_RESERVED: Final = 3  # and one that is invalid


def _zstd_compress(data: Bytes, level: int | None) -> bytes:
    import zstandard

    level = 3 if level is None else level
    compressor = _contexts.zstd_compressors.get(level)
    if compressor is None:
        compressor = zstandard.ZstdCompressor(level=level)
        _contexts.zstd_compressors[level] = compressor
    return compressor.compress(data)


def _zstd_decompress(data: Bytes, limit: int) -> bytes:
    import zstandard

    decompressor = _contexts.zstd_decompressor
    if decompressor is None:
        decompressor = _contexts.zstd_decompressor = zstandard.ZstdDecompressor()
    try:
        claimed = zstandard.frame_content_size(data)
        # Not for 0: the library would ignore the data after an empty frame.
        if 0 < claimed <= min(limit, max(_CHUNK, _ZSTD_TRUSTED_RATIO * len(data))):
            try:
                return decompressor.decompress(data, allow_extra_data=False)
            except zstandard.ZstdError:
                pass  # corrupt, or more frames follow: the streaming reader decides
        if limit < DEFAULT_LIMIT and _zstd_fits(data, limit):
            limit = DEFAULT_LIMIT  # in larger steps, which are faster
        return _zstd_stream(decompressor, data, limit)
    except zstandard.ZstdError as error:
        raise _corrupt(Compression.ZSTD, error) from error


def _zstd_fits(data: Bytes, limit: int) -> bool:
    """True if the block headers show that all frames decompress to at most `limit` bytes."""
    import zstandard

    with memoryview(data) as view:
        at, end, room = 0, len(view), limit
        while bytes(view[at : at + 4]) == _ZSTD_MAGIC and end - at > 4:
            has_checksum = view[at + 4] & 4
            at += zstandard.frame_header_size(bytes(view[at : at + 18]))
            last = 0
            while not last:
                header = int.from_bytes(view[at : at + 3], "little")
                last, kind, size = header & 1, header >> 1 & 3, header >> 3
                room -= _ZSTD_BLOCK if kind == _ZSTD_COMPRESSED else size
                at += 4 if kind == _ZSTD_RUN else 3 + size
                if room < 0 or at > end or kind == _ZSTD_RESERVED:
                    return False
            at += 4 if has_checksum else 0
        return not _has_frame(view, at)


def _zstd_stream(decompressor: "zstandard.ZstdDecompressor", data: Bytes, limit: int) -> bytes:
    """Decompress frame by frame, in steps so small that no step exceeds the limit by more than
    the limit itself."""
    out: list[bytes] = []
    room = limit
    with memoryview(data) as view:
        at, end = 0, len(view)
        while True:
            frame = decompressor.decompressobj()
            while not frame.eof:
                if at == end:
                    raise _corrupt(Compression.ZSTD, "it ends early")
                step = min(end, at + max(_ZSTD_STEP, room // _ZSTD_RATIO))
                piece = frame.decompress(view[at:step])
                at = step - len(frame.unused_data)
                room -= len(piece)
                if room < 0:
                    raise _too_large(Compression.ZSTD, limit)
                out.append(piece)
            if not _has_frame(view, at):
                return out[0] if len(out) == 1 else b"".join(out)


def _has_frame(view: memoryview, at: int) -> bool:
    """True if a zstd frame begins here, or one that decompressors skip."""
    magic = bytes(view[at : at + 4])
    return magic == _ZSTD_MAGIC or (magic[1:] == _ZSTD_SKIPPABLE and magic[0] >> 4 == 5)


def _copy(data: Bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(Compression.NONE, limit)
    return bytes(data)


_COMPRESSORS: Final[dict[Compression, Callable[[Bytes, int | None], bytes]]] = {
    Compression.GZIP: _gzip_compress,
    Compression.SNAPPY: _snappy_compress,
    Compression.LZ4: _lz4_compress,
    Compression.ZSTD: _zstd_compress,
}
_DECOMPRESSORS: Final[dict[int, Callable[[Bytes, int], bytes]]] = {
    Compression.NONE: _copy,
    Compression.GZIP: _gzip_decompress,
    Compression.SNAPPY: _snappy_decompress,
    Compression.LZ4: _lz4_decompress,
    Compression.ZSTD: _zstd_decompress,
}
