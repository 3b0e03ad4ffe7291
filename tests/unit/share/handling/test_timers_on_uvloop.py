"""The timers of `run` on uvloop, whose handles of past times have no `when()`."""

import asyncio

from aiokafka_lite.share.handling.lock_keeper import LockKeeper
from aiokafka_lite.share.handling.postponed import Postponed
from tests.unit.share.handling.fake_queue import FakeQueue, FakeRecord

PATIENCE = 60.0


async def test_releases_are_in_order_if_the_first_is_due_at_once() -> None:
    released: list[str] = []
    all_are_released = asyncio.Event()

    def release(name: str) -> None:
        released.append(name)
        if len(released) == 3:
            all_are_released.set()

    postponed = Postponed(release)
    now = asyncio.get_running_loop().time()
    postponed.add("first", now - 1)
    postponed.add("last", now + 0.02)
    postponed.add("second", now)
    await asyncio.wait_for(all_are_released.wait(), PATIENCE)
    assert released == ["first", "second", "last"]


async def test_records_are_acquired_while_a_scan_of_the_locks_is_due() -> None:
    queue = FakeQueue(lock=30.0)
    record = FakeRecord(queue, 0, None, 1)
    lost = asyncio.get_running_loop().create_future()
    keeper: LockKeeper[FakeRecord] = LockKeeper(
        lambda: [] if lost.done() else [record], lambda record, why: lost.set_result(why)
    )
    keeper.check_soon()
    keeper.on_acquired(record, queue.loop.time())
    record.lock_deadline = 0.0
    await asyncio.wait_for(lost, PATIENCE)
    keeper.close()
