"""Compression: reading Java's data, levels, size limits and corrupt input."""

import gzip
import random
import struct
import threading
import zlib

import pytest
import zstandard
from cramjam import snappy
from lz4 import frame

from aiokafka_lite.errors import (
    CorruptRecordException,
    KafkaConfigurationError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from aiokafka_lite.record import compression
from aiokafka_lite.record.compression import DEFAULT_LIMIT, Compression, compress, decompress

REAL = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = random.Random(4).randbytes(5000) + b"to be or not to be, " * 10_000


@pytest.fixture(params=["as installed", "zlib"], autouse=True)
def deflate_library(request, monkeypatch):
    """gzip with isal, if installed, and without."""
    if request.param == "zlib":
        monkeypatch.setattr(compression, "_deflate_library", lambda: zlib)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytearray(TEXT), memoryview(TEXT)[3:]])
def test_round_trip(codec, data):
    compressed = compress(data, codec)
    assert type(compressed) is bytes
    assert decompress(compressed, codec) == bytes(data)
    assert decompress(memoryview(bytearray(compressed)), int(codec)) == bytes(data)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, [1, 2, 6, 9]),
        (Compression.LZ4, [1, 9, 12, 17]),
        (Compression.ZSTD, [-131072, -5, 0, 1, 3, 19, 22]),
    ],
)
def test_levels(codec, levels):
    sizes = [len(compress(TEXT, codec, level)) for level in levels]
    assert sizes[0] > sizes[-1]
    for level in levels:
        assert decompress(compress(TEXT, codec, level), codec) == TEXT


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Compression.GZIP, 0),
        (Compression.GZIP, 10),
        (Compression.GZIP, -1),
        (Compression.SNAPPY, 1),
        (Compression.LZ4, 0),
        (Compression.LZ4, 18),
        (Compression.ZSTD, 23),
        (Compression.ZSTD, -131073),
        (Compression.NONE, 1),
    ],
)
def test_levels_out_of_range_raise(codec, level):
    with pytest.raises(KafkaConfigurationError, match=codec.name.lower()):
        compress(b"x", codec, level)


def test_codecs_by_name():
    assert Compression.named(None) is Compression.NONE
    assert Compression.named("none") is Compression.NONE
    assert Compression.named("zstd") is Compression.ZSTD
    for name in ("brotli", "", 3, b"gzip"):
        with pytest.raises(ValueError, match="known: none, gzip, snappy, lz4, zstd"):
            Compression.named(name)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_raise(codec):
    with pytest.raises(UnsupportedCodecError, match=str(codec)):
        decompress(b"", codec)


@pytest.mark.parametrize("codec", list(Compression))
def test_the_limit_is_exact(codec):
    compressed = compress(TEXT, codec)
    assert decompress(compressed, codec, limit=len(TEXT)) == TEXT
    for limit in (len(TEXT) - 1, 1, 0):
        with pytest.raises(RecordTooLargeError, match=f"more than {limit} bytes"):
            decompress(compressed, codec, limit=limit)


@pytest.mark.parametrize("codec", REAL)
def test_truncated_data_raises(codec):
    compressed = compress(TEXT[:300] + TEXT[-3000:], codec)
    whole = decompress(compressed, codec)
    for end in range(len(compressed)):
        if codec is Compression.SNAPPY and end == 16:
            continue  # exactly the framing's header: an empty text
        try:
            got = decompress(compressed[:end], codec)
        except CorruptRecordException:
            continue
        pytest.fail(f"cut to {end} of {len(compressed)} gave {len(got)} of {len(whole)} bytes")


@pytest.mark.parametrize("codec", REAL)
def test_corrupted_data_raises_documented_errors(codec):
    rnd = random.Random(int(codec))
    original = compress(TEXT[:2000] + TEXT[-2000:], codec)
    for _ in range(400):
        mutated = bytearray(original)
        for _ in range(rnd.randint(1, 4)):
            mutated[rnd.randrange(len(mutated))] = rnd.randrange(256)
        try:
            assert len(decompress(mutated, codec, limit=100_000)) <= 100_000
        except (CorruptRecordException, RecordTooLargeError):
            pass


@pytest.mark.parametrize("codec", REAL)
def test_random_bytes_raise(codec):
    rnd = random.Random(9)
    for size in (1, 3, 7, 15, 16, 40, 1000):
        with pytest.raises((CorruptRecordException, RecordTooLargeError)):
            decompress(b"\xfe" + rnd.randbytes(size), codec, limit=1000)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_concatenated_streams_decompress_to_one(codec):
    one, two = compress(b"one" * 100, codec), compress(b"two" * 50_000, codec)
    assert decompress(one + two + one, codec) == b"one" * 100 + b"two" * 50_000 + b"one" * 100


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_empty_streams_among_others_add_nothing(codec):
    empty, text = compress(b"", codec), compress(b"text", codec)
    for data in (empty + text, text + empty, empty + text + empty + empty + text):
        for limit in (20, DEFAULT_LIMIT):
            assert decompress(data, codec, limit=limit) == b"text" * data.count(text)
    assert decompress(empty + empty, codec) == b""


@pytest.mark.parametrize("first_byte", [0x50, 0x5F])
def test_skippable_zstd_frames_are_skipped(first_byte):
    """Parallel compressors write them between frames."""
    skipped = bytes([first_byte]) + b"\x2a\x4d\x18" + struct.pack("<I", 5) + b"12345"
    text = compress(TEXT, Compression.ZSTD)
    for limit in (2 * len(TEXT), DEFAULT_LIMIT):
        for data in (text + skipped + text, skipped + text + text, text + text + skipped):
            assert decompress(data, Compression.ZSTD, limit=limit) == TEXT + TEXT
            with pytest.raises(RecordTooLargeError):
                decompress(data, Compression.ZSTD, limit=2 * len(TEXT) - 1)


def test_tiny_gzip_members_copy_only_a_part_of_the_rest(monkeypatch):
    """Otherwise half a megabyte of empty members would copy gigabytes."""
    library = compression._deflate_library()
    fed = 0

    class Counting:
        def __init__(self, wbits):
            self._inflater = library.decompressobj(wbits)

        def __getattr__(self, name):
            return getattr(self._inflater, name)

        def decompress(self, data, limit):
            nonlocal fed
            fed += len(data)
            return self._inflater.decompress(data, limit)

    class Library:
        decompressobj = Counting

    monkeypatch.setattr(compression, "_deflate_library", Library)
    member = gzip.compress(b"x")
    assert decompress(member * 10_000, Compression.GZIP) == b"x" * 10_000
    assert fed <= 10_000 * 64 * 1024
    big = gzip.compress(random.Random(3).randbytes(1_000_000))
    fed = 0
    assert len(decompress(big + member + big, Compression.GZIP)) == 2_000_001
    assert fed < 10 * len(big)


@pytest.mark.parametrize("size", [65_500, 65_536, 65_560, 600_000])
def test_gzip_members_end_anywhere(size):
    """Also at the end of the part that is read first, and within its last bytes."""
    noise = random.Random(size).randbytes(size)
    member = gzip.compress(noise, 1)
    for cut in (0, 1, 7, 8, 9, 40):
        text = noise[: size - cut]
        data = gzip.compress(text, 1) + member
        assert decompress(data, Compression.GZIP) == text + noise
    zeros = gzip.compress(bytes(3_000_000))
    assert decompress(zeros + member, Compression.GZIP) == bytes(3_000_000) + noise


def test_gzip_of_other_writers_is_read():
    assert decompress(gzip.compress(TEXT), 1) == TEXT
    assert decompress(gzip.compress(TEXT) + b"trailing junk is ignored by Java", 1) == TEXT
    assert gzip.decompress(compress(TEXT, Compression.GZIP)) == TEXT


def test_snappy_framing_matches_java():
    framed = compress(TEXT, Compression.SNAPPY)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (length,) = struct.unpack_from(">i", framed, 16)
    assert bytes(snappy.decompress_raw(framed[20 : 20 + length])) == TEXT[: 32 * 1024]


def test_snappy_raw_and_concatenated_streams_are_read():
    assert decompress(bytes(snappy.compress_raw(TEXT)), 2) == TEXT
    framed = compress(b"abc" * 1000, Compression.SNAPPY)
    assert decompress(framed + framed, 2) == b"abc" * 2000


def test_false_snappy_sizes_raise_before_allocation():
    for block in (b"\xff\xff\xff\xff\x0f\x00", b"\xff\xff\xff\x7f" + bytes(10)):
        for data in (block, compress(b"", Compression.SNAPPY) + struct.pack(">i", 6) + block):
            with pytest.raises((CorruptRecordException, RecordTooLargeError)):
                decompress(data, 2, limit=2**40)
    for length in (-1, 2**31 - 1, 5):
        data = compress(b"", Compression.SNAPPY) + struct.pack(">i", length) + b"abcd"
        with pytest.raises(CorruptRecordException):
            decompress(data, 2)


def test_lz4_is_readable_by_old_java_clients():
    info = frame.get_frame_info(compress(TEXT, Compression.LZ4))
    assert info["block_size"] == 64 * 1024
    assert not info["block_linked"]
    assert info["content_size"] == 0
    assert not info["content_checksum"]


def test_lz4_with_every_option_is_read():
    for options in (
        {"block_linked": True},
        {"content_checksum": True, "block_checksum": True},
        {"store_size": False},
        {"block_size": frame.BLOCKSIZE_MAX4MB},
    ):
        assert decompress(frame.compress(TEXT, **options), 3) == TEXT


def test_zstd_without_content_size_is_read():
    compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True)
    data = compressor.compress(TEXT)
    assert zstandard.frame_content_size(data) == -1
    assert decompress(data, 4) == TEXT
    assert decompress(data + data, 4) == TEXT + TEXT


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize("frames", [1, 3])
def test_decompression_bombs_stop_at_the_limit(codec, frames):
    """Decompressing a few KB to 100 MB stops at 1 MB and allocates little more."""
    import tracemalloc

    bomb = compress(bytes(100_000_000), codec, 1) * frames
    tracemalloc.start()
    try:
        with pytest.raises(RecordTooLargeError):
            decompress(bomb, codec, limit=1_000_000)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_false_zstd_content_size_allocates_nothing():
    """The frame claims four exbibytes and has three bytes."""
    claim = b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + b"\x01\x00\x00"
    assert zstandard.frame_content_size(claim) == 2**62
    with pytest.raises(CorruptRecordException):
        decompress(claim, 4)


def test_contexts_are_not_shared_between_threads():
    errors = []

    def work(seed):
        data = random.Random(seed).randbytes(100) * 500
        try:
            for codec in REAL * 20:
                assert decompress(compress(data, codec), codec) == data
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_context_is_reset_after_an_error():
    for codec in REAL:
        compressed = compress(TEXT, codec)
        with pytest.raises(CorruptRecordException):
            decompress(compressed[: len(compressed) // 2], codec)
        assert decompress(compressed, codec) == TEXT


@pytest.mark.parametrize("limit", [1000, DEFAULT_LIMIT])
def test_an_lz4_frame_with_a_content_size_spoils_no_others_when_it_fails(limit):
    sized = frame.compress(TEXT, store_size=True)  # as python-lz4 and kafka-python do
    with pytest.raises((CorruptRecordException, RecordTooLargeError)):
        decompress(sized[:-10], Compression.LZ4, limit=limit)
    assert decompress(compress(TEXT, Compression.LZ4), Compression.LZ4) == TEXT
    assert decompress(sized, Compression.LZ4) == TEXT


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("level", [1, 19])
@pytest.mark.parametrize("sized", [True, False])
def test_a_low_limit_changes_no_zstd_result(frames, level, sized):
    import zstandard

    options = zstandard.ZstdCompressionParameters.from_level(
        level, write_content_size=sized, write_checksum=not sized
    )
    text = random.Random(level).randbytes(70_000) + b"a" * 300_000
    compressor = zstandard.ZstdCompressor(compression_params=options)
    data = b"".join(compressor.compress(text) for _ in range(frames))
    for limit in (frames * len(text), 2 * 1024 * 1024, DEFAULT_LIMIT):
        assert decompress(data, Compression.ZSTD, limit=limit) == text * frames
    with pytest.raises(RecordTooLargeError):
        decompress(data, Compression.ZSTD, limit=frames * len(text) - 1)
    for cut in (len(data) - 1, len(data) // 2, 20, 10, 5):
        with pytest.raises(CorruptRecordException):
            decompress(data[:cut], Compression.ZSTD, limit=2 * 1024 * 1024)
