"""Concurrent lookups of coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiokafka_lite.cluster.coordinators import CoordinatorKind, Coordinators
from aiokafka_lite.errors import GroupAuthorizationFailedError, KafkaTimeoutError

GROUP = CoordinatorKind.GROUP


class Asked:
    """A lookup that ends when the test releases it."""

    def __init__(self) -> None:
        self.begun = 0
        self.outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> int:
        self.begun += 1
        return await self.outcome


def soon(seconds: float = 10.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def several(coordinators: Coordinators, looks: list[Asked]) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(coordinators.find(GROUP, "g", look, soon())) for look in looks]


async def passes() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_concurrent_callers_share_one_lookup() -> None:
    coordinators, look = Coordinators(), Asked()
    asking = several(coordinators, [look] * 4)
    await passes()
    look.outcome.set_result(3)
    assert await asyncio.gather(*asking) == [3] * 4
    assert look.begun == 1
    assert await coordinators.find(GROUP, "g", look, soon()) == 3
    assert look.begun == 1


async def test_other_keys_and_kinds_are_looked_up_concurrently() -> None:
    coordinators, look = Coordinators(), Asked()
    asking = [
        asyncio.create_task(coordinators.find(kind, key, look, soon()))
        for kind in (GROUP, CoordinatorKind.TRANSACTION)
        for key in ("g", "h")
    ]
    await passes()
    assert look.begun == 4
    look.outcome.set_result(1)
    await asyncio.gather(*asking)


async def test_lasting_error_is_raised_to_all_callers() -> None:
    coordinators, look = Coordinators(), Asked()
    asking = several(coordinators, [look] * 3)
    await passes()
    look.outcome.set_exception(GroupAuthorizationFailedError("g"))
    errors = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(error) for error in errors] == [GroupAuthorizationFailedError] * 3
    assert len(set(map(id, errors))) == 3
    assert look.begun == 1
    assert coordinators.get(GROUP, "g") is None


async def test_retriable_error_makes_the_next_caller_look_up_again() -> None:
    coordinators = Coordinators()
    first, second = Asked(), Asked()
    asking = several(coordinators, [first, second, second])
    await passes()
    first.outcome.set_exception(KafkaTimeoutError("its deadline, not theirs"))
    await passes()
    assert (first.begun, second.begun) == (1, 1)
    second.outcome.set_result(2)
    with pytest.raises(KafkaTimeoutError):
        await asking[0]
    assert await asyncio.gather(*asking[1:]) == [2, 2]


async def test_waiting_caller_keeps_its_own_deadline() -> None:
    coordinators, look = Coordinators(), Asked()
    (asking,) = several(coordinators, [look])
    await passes()
    with pytest.raises(KafkaTimeoutError):
        await coordinators.find(GROUP, "g", look, soon(0.05))
    look.outcome.set_result(1)
    assert await asking == 1


@pytest.mark.parametrize("who", [0, 1, 2])
async def test_cancelling_one_caller_does_not_affect_others(who: int) -> None:
    coordinators, look = Coordinators(), Asked()
    again = Asked()
    asking = several(coordinators, [look, again, again])
    await passes()
    asking[who].cancel()
    await passes()
    assert asking[who].cancelled()
    again.outcome.set_result(5)
    if who:
        look.outcome.set_result(5)
    others = [task for task in asking if task is not asking[who]]
    assert await asyncio.gather(*others) == [5, 5]


async def test_only_the_wrong_coordinator_is_forgotten() -> None:
    coordinators = Coordinators()
    coordinators.set(GROUP, "g", 1)
    coordinators.forget(GROUP, "g", 2)
    assert coordinators.get(GROUP, "g") == 1
    coordinators.forget(GROUP, "g", 1)
    assert coordinators.get(GROUP, "g") is None
    coordinators.set(GROUP, "g", 1)
    coordinators.forget(GROUP, "g")
    assert coordinators.get(GROUP, "g") is None


async def test_caller_after_a_bug_in_a_lookup_looks_up_itself() -> None:
    coordinators, look = Coordinators(), Asked()
    look.outcome.set_exception(ZeroDivisionError())
    again = Asked()
    again.outcome.set_result(1)
    asking: list[Callable[[], object]] = [look, again]
    results = await asyncio.gather(
        *(coordinators.find(GROUP, "g", each, soon()) for each in asking),  # type: ignore[arg-type]
        return_exceptions=True,
    )
    assert type(results[0]) is ZeroDivisionError
    assert results[1] == 1
