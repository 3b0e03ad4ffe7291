"""Receive buffers are reused once no view of them exists, and never before."""

from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.net.buffers import SMALLEST, ReceiveBuffers, is_unseen

LARGE = 4 * SMALLEST


def test_buffer_is_reused_once_its_last_view_is_released() -> None:
    buffers = ReceiveBuffers()
    first = buffers.take(LARGE)
    view = memoryview(first)[10:20]
    second = buffers.take(LARGE)
    assert second is not first
    seen = memoryview(second)
    view.release()
    assert buffers.take(LARGE) is first
    seen.release()


def test_view_of_a_view_keeps_the_buffer() -> None:
    buffers = ReceiveBuffers()
    first = buffers.take(LARGE)
    part = memoryview(first)[:100][5:6]
    assert buffers.take(LARGE) is not first
    assert bytes(part) == b"\0"
    del part
    assert is_unseen(first)


def test_buffer_is_reused_for_slightly_smaller_frames_only() -> None:
    buffers = ReceiveBuffers()
    first = buffers.take(LARGE)
    assert buffers.take(LARGE // 2) is first
    assert buffers.take(LARGE // 8) is not first


def test_best_fitting_buffer_is_chosen() -> None:
    buffers = ReceiveBuffers()
    large = buffers.take(LARGE)
    seen = memoryview(large)
    fitting = buffers.take(LARGE // 2)
    seen.release()
    assert buffers.take(LARGE // 2) is fitting


def test_buffers_are_never_too_small_and_barely_too_large() -> None:
    for size in (0, 1, SMALLEST - 1, SMALLEST, SMALLEST + 1, LARGE + 1, 3_000_001):
        assert size <= len(ReceiveBuffers().take(size)) <= max(size * 1.26, size)


def test_small_buffers_are_not_kept() -> None:
    buffers = ReceiveBuffers()
    buffers.take(SMALLEST - 1)
    assert buffers.kept_bytes == 0


def test_kept_buffers_stay_within_the_budget() -> None:
    buffers = ReceiveBuffers(budget=2 * LARGE)
    views = [memoryview(buffers.take(LARGE)) for _ in range(5)]
    assert buffers.kept_bytes == 2 * LARGE
    assert len({id(view.obj) for view in views}) == 5


def test_idle_buffers_are_dropped_for_a_needed_size() -> None:
    buffers = ReceiveBuffers(budget=2 * LARGE)
    for view in [memoryview(buffers.take(LARGE)) for _ in range(2)]:
        view.release()
    wanted = buffers.take(2 * LARGE)
    assert buffers.kept_bytes == 2 * LARGE
    assert buffers.take(2 * LARGE) is wanted


def test_buffer_larger_than_the_budget_is_not_kept() -> None:
    buffers = ReceiveBuffers(budget=LARGE)
    assert len(buffers.take(2 * LARGE)) >= 2 * LARGE
    assert buffers.kept_bytes == 0


def test_checking_for_views_changes_nothing() -> None:
    buffer = bytearray(range(256)) * 1000
    before = bytes(buffer)
    with memoryview(buffer) as view:
        assert not is_unseen(buffer)
        assert view == before
    address = _address(buffer)
    assert is_unseen(buffer)
    assert len(buffer) == len(before)
    assert buffer[:-1] == before[:-1]
    assert _address(buffer) == address


def test_clear_drops_all_buffers() -> None:
    buffers = ReceiveBuffers()
    first = buffers.take(LARGE)
    buffers.clear()
    assert buffers.kept_bytes == 0
    assert buffers.take(LARGE) is not first


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5)), max_size=40))
def test_no_two_frames_ever_share_memory(steps: list[tuple[int, int]]) -> None:
    """Receives frames of all sizes, keeps them for a while and drops them in any order."""
    buffers = ReceiveBuffers(budget=6 * SMALLEST)
    alive: list[tuple[memoryview, int]] = []
    for number, (quarters, dropped) in enumerate(steps):
        size = quarters * SMALLEST // 4
        view = memoryview(buffers.take(size))[:size]
        mark = number % 256
        view[:] = bytes([mark]) * size
        alive.append((view, mark))
        assert all(each[0] == each[-1] == mark for each, mark in alive)
        assert len({id(each.obj) for each, _ in alive}) == len(alive)
        assert buffers.kept_bytes <= buffers.budget
        del view
        if dropped < len(alive):
            del alive[dropped]


def _address(buffer: bytearray) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
