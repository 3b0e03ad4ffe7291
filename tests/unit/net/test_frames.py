"""Splitting received bytes gives the same frames for any chunks, and rejects bad lengths."""

from collections.abc import Iterable
from itertools import chain, repeat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.net.buffers import ReceiveBuffers
from aiokafka_lite.net.frames import (
    FIRST_SCRATCH,
    LARGEST_SCRATCH,
    WINDOW_AFTER_LARGE,
    Frame,
    FrameReceiver,
)

LIMIT = 1 << 20
EDGES = [WINDOW_AFTER_LARGE, FIRST_SCRATCH, 65536, LARGEST_SCRATCH]
sizes = st.one_of(
    st.integers(4, 200),
    st.builds(lambda edge, off: max(4, edge + off), st.sampled_from(EDGES), st.integers(-9, 9)),
    st.integers(4, 600_000),
)
chunks = st.one_of(
    st.integers(1, 9), st.integers(1, 5000), st.sampled_from(EDGES), st.just(1 << 30)
)


def body(size: int, seed: int) -> bytes:
    """Bytes that differ between frames and positions."""
    pattern = bytes((seed * 37 + n * 11) % 251 for n in range(251))
    return (pattern * (size // 251 + 1))[:size]


def framed(bodies: Iterable[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in bodies)


def feed(receiver: FrameReceiver, data: bytes, cuts: Iterable[int]) -> list[Frame]:
    """Pass bytes to the receiver in chunks, as a socket does."""
    frames: list[Frame] = []
    position = 0
    for cut in cuts:
        if position == len(data) or receiver.error is not None:
            break
        window = receiver.window()
        assert len(window) > 0
        piece = data[position : position + min(cut, len(window))]
        window[: len(piece)] = piece
        position += len(piece)
        frames.extend(receiver.on_received(len(piece)))
    return frames


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(sizes, max_size=8), st.lists(chunks, min_size=1, max_size=30))
def test_any_split_of_the_bytes_gives_the_same_frames(wanted: list[int], cuts: list[int]) -> None:
    bodies = [body(size, n) for n, size in enumerate(wanted)]
    receiver = FrameReceiver(LIMIT, ReceiveBuffers())
    frames = feed(receiver, framed(bodies), chain(cuts, repeat(40_000)))
    # All frames are compared at the end: none may be in memory that was reused.
    assert [bytes(frame) for frame in frames] == bodies
    assert receiver.idle
    assert receiver.error is None


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(sizes, max_size=8), chunks)
def test_buffers_of_dropped_frames_are_reused(wanted: list[int], cut: int) -> None:
    """Their buffers are reused while the next frames arrive."""
    bodies = [body(size, n) for n, size in enumerate(wanted)]
    data = framed(bodies)
    receiver = FrameReceiver(LIMIT, ReceiveBuffers(budget=1 << 20))
    seen = []
    position = 0
    while position < len(data):
        window = receiver.window()
        piece = data[position : position + min(max(cut, 512), len(window))]
        window[: len(piece)] = piece
        position += len(piece)
        for frame in receiver.on_received(len(piece)):
            seen.append(bytes(frame))
            del frame
    assert seen == bodies


def test_one_byte_at_a_time() -> None:
    bodies = [body(size, size) for size in (4, 5, 300, 20_000)]
    receiver = FrameReceiver(LIMIT, ReceiveBuffers())
    frames = feed(receiver, framed(bodies), repeat(1))
    assert [bytes(frame) for frame in frames] == bodies


def test_receiver_with_a_partial_frame_is_not_idle() -> None:
    receiver = FrameReceiver(LIMIT, ReceiveBuffers())
    assert receiver.idle
    assert feed(receiver, framed([body(50, 1)])[:20], repeat(100)) == []
    assert not receiver.idle
    large = FrameReceiver(LIMIT, ReceiveBuffers())
    assert feed(large, framed([body(500_000, 1)])[:-1], repeat(1 << 20)) == []
    assert not large.idle


def test_small_frames_own_their_bytes_and_large_ones_are_received_in_place() -> None:
    receiver = FrameReceiver(LIMIT, ReceiveBuffers())
    small, large = feed(receiver, framed([body(9, 0), body(900_000, 1)]), repeat(1 << 20))
    assert isinstance(small, bytes)
    assert isinstance(large, memoryview)
    assert isinstance(large.obj, bytearray)


def test_little_of_the_next_large_frame_is_read_into_the_scratch() -> None:
    receiver = FrameReceiver(LIMIT, ReceiveBuffers())
    feed(receiver, framed([body(900_000, 1)]), repeat(1 << 20))
    assert len(receiver.window()) == WINDOW_AFTER_LARGE
    feed(receiver, framed([body(90, 1)]), repeat(1 << 20))
    assert len(receiver.window()) > WINDOW_AFTER_LARGE


def test_many_small_frames_grow_the_window_to_its_limit() -> None:
    receiver = FrameReceiver(LIMIT, ReceiveBuffers())
    assert len(receiver.window()) == FIRST_SCRATCH
    bodies = [body(100, n) for n in range(20_000)]
    frames = feed(receiver, framed(bodies), repeat(1 << 20))
    assert [bytes(frame) for frame in frames] == bodies
    assert len(receiver.window()) == LARGEST_SCRATCH


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x00\x00\x00\x00", "length of 0 bytes"),
        (b"\x00\x00\x00\x03", "length of 3 bytes"),
        (b"\xff\xff\xff\xff", "length of -1 bytes"),
        (b"\x80\x00\x00\x00", "length of -2147483648 bytes"),
        ((LIMIT + 1).to_bytes(4, "big"), "larger than the limit of 1048576 bytes"),
        (b"\x7f\xff\xff\xff", "larger than the limit"),
        (b"HTTP/1.1 400 Bad Request", "speaks HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x50", "speaks TLS"),
    ],
)
def test_invalid_lengths_set_the_error(raw: bytes, text: str) -> None:
    receiver = FrameReceiver(LIMIT, ReceiveBuffers())
    good = body(30, 1)
    assert feed(receiver, framed([good]) + raw + b"more", repeat(1 << 20)) == [good]
    assert isinstance(receiver.error, KafkaProtocolError)
    assert text in str(receiver.error)
    assert receiver.on_received(4) == ()


def test_the_limit_itself_is_accepted() -> None:
    receiver = FrameReceiver(1000, ReceiveBuffers())
    [frame] = feed(receiver, framed([body(1000, 1)]), repeat(1 << 20))
    assert len(frame) == 1000


def test_rejected_length_allocates_no_memory() -> None:
    class NoBuffers(ReceiveBuffers):
        def take(self, size: int) -> bytearray:
            raise AssertionError("memory was taken")

    receiver = FrameReceiver(LIMIT, NoBuffers())
    feed(receiver, (2**31 - 1).to_bytes(4, "big"), repeat(4))
    assert receiver.error is not None


def test_empty_frames_are_accepted_if_allowed() -> None:
    """SASL tokens of old brokers may be empty."""
    receiver = FrameReceiver(LIMIT, ReceiveBuffers(), smallest=0)
    assert feed(receiver, framed([b"", b"x", b""]), repeat(3)) == [b"", b"x", b""]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=3000), st.integers(1, 700))
def test_random_bytes_give_frames_or_one_error(data: bytes, cut: int) -> None:
    receiver = FrameReceiver(2000, ReceiveBuffers())
    frames = feed(receiver, data, repeat(cut))
    taken = sum(4 + len(frame) for frame in frames)
    assert taken <= len(data)
    assert framed(bytes(frame) for frame in frames) == data[:taken]
    if receiver.error is None:
        left = data[taken:]
        assert len(left) < 4 or int.from_bytes(left[:4], "big") > len(left) - 4


def test_receiving_more_than_the_window_raises() -> None:
    with pytest.raises(ValueError, match="more bytes"):
        FrameReceiver(LIMIT, ReceiveBuffers()).on_received(FIRST_SCRATCH + 1)
    with pytest.raises(ValueError, match="more bytes"):
        FrameReceiver(LIMIT, ReceiveBuffers()).on_received(-1)
