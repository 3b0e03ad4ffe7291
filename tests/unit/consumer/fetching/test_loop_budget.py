"""Bursts of work are spread over iterations of the event loop, in order."""

import asyncio
from collections.abc import Callable

from aiokafka_lite.consumer.fetching.loop_budget import BUDGET, LoopBudget


class Clock:
    """A clock that each piece of work advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds
            self.done.append(name)

        return run


async def test_work_within_the_budget_runs_at_once() -> None:
    clock = Clock()
    budget = LoopBudget(asyncio.get_running_loop(), clock)
    for name in "ab":
        budget.run(clock.work(name, BUDGET / 3))
    assert clock.done == ["a", "b"]
    assert not budget.is_used_up()


async def test_work_beyond_the_budget_runs_in_later_iterations_in_order() -> None:
    clock = Clock()
    budget = LoopBudget(asyncio.get_running_loop(), clock)
    for name in "abcde":
        budget.run(clock.work(name, BUDGET * 0.6))
    assert clock.done == ["a", "b"]
    assert budget.is_used_up()
    await asyncio.sleep(0)
    assert clock.done == ["a", "b", "c", "d"]
    budget.run(clock.work("f", 0.0))  # does not overtake
    assert clock.done == ["a", "b", "c", "d"]
    await asyncio.sleep(0)
    assert clock.done == ["a", "b", "c", "d", "e", "f"]


async def test_each_iteration_has_a_budget_of_its_own() -> None:
    clock = Clock()
    budget = LoopBudget(asyncio.get_running_loop(), clock)
    budget.run(clock.work("a", BUDGET))
    assert budget.is_used_up()
    await asyncio.sleep(0)
    assert not budget.is_used_up()
    budget.run(clock.work("b", BUDGET))
    assert clock.done == ["a", "b"]


async def test_work_longer_than_the_budget_runs_alone() -> None:
    clock = Clock()
    budget = LoopBudget(asyncio.get_running_loop(), clock)
    for name in "abc":
        budget.run(clock.work(name, 10 * BUDGET))
    for done in (["a"], ["a", "b"], ["a", "b", "c"]):
        assert clock.done == done
        await asyncio.sleep(0)
