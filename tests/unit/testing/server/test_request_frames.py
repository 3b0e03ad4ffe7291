"""FrameReceiver: the frames do not depend on how the bytes arrive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.testing.server.request_frames import (
    LARGEST_REQUEST,
    SCRATCH_BYTES,
    FrameReceiver,
)


def feed(receiver: FrameReceiver, data: bytes, step: int) -> list[bytes]:
    frames: list[bytes] = []
    rest = memoryview(data)
    while rest:
        buffer = receiver.get_buffer()
        count = min(len(buffer), len(rest), step)
        assert count > 0
        buffer[:count] = rest[:count]
        rest = rest[count:]
        frames += map(bytes, receiver.on_bytes(count))
    return frames


sizes = st.one_of(
    st.integers(0, 300), st.sampled_from([SCRATCH_BYTES - 4, SCRATCH_BYTES - 3, SCRATCH_BYTES * 3])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(sizes, max_size=8), st.sampled_from([1, 3, 1000, 2**20]))
def test_any_arrival(lengths: list[int], step: int) -> None:
    if sum(lengths) > 2000:
        step = max(step, 1000)  # byte by byte only for small ones
    wanted = [bytes([index]) * length for index, length in enumerate(lengths)]
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in wanted)
    assert feed(FrameReceiver(), data, step) == wanted


@pytest.mark.parametrize("length", [-1, LARGEST_REQUEST + 1])
def test_absurd_lengths(length: int) -> None:
    with pytest.raises(KafkaProtocolError):
        feed(FrameReceiver(), length.to_bytes(4, "big", signed=True), 4)
