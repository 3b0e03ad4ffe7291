"""One timer for many deadlines."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka_lite.net.deadline_timer import NEVER, Alarm


class Timers:
    """A fake event loop that only has timers, which the test fires."""

    def __init__(self) -> None:
        self.armed: list[float] = []
        self._callback: Callable[[], None] | None = None

    def call_at(self, at: float, callback: Callable[[], None]) -> Any:
        self.armed.append(at)
        self._callback = callback
        return self

    def cancel(self) -> None:
        self.armed.pop()
        self._callback = None

    def go_off(self) -> None:
        callback, self._callback = self._callback, None
        self.armed.pop()
        assert callback is not None
        callback()


def made(on_due: Callable[[], None]) -> tuple[Alarm, Timers]:
    timers = Timers()
    loop: Any = timers
    return Alarm(loop, on_due), timers


def test_timer_is_armed_for_the_earliest_deadline() -> None:
    heard: list[float] = []
    alarm, timers = made(lambda: heard.append(alarm.at))
    assert alarm.at == NEVER
    for at, armed in ((20.0, 20.0), (30.0, 20.0), (10.0, 10.0)):
        alarm.arm(at)
        assert (alarm.at, timers.armed) == (armed, [armed])
    timers.go_off()
    assert heard == [NEVER], "who is called arms it again"


def test_callback_can_rearm_the_timer() -> None:
    alarm, timers = made(lambda: alarm.arm(40.0))
    alarm.arm(20.0)
    timers.go_off()
    assert timers.armed == [40.0]


def test_cancelled_timer_never_fires() -> None:
    alarm, timers = made(lambda: None)
    alarm.arm(20.0)
    alarm.cancel()
    alarm.arm(10.0)
    alarm.cancel()
    assert timers.armed == []


async def test_timer_fires_in_an_event_loop() -> None:
    loop = asyncio.get_running_loop()
    due = asyncio.Event()
    alarm = Alarm(loop, due.set)
    alarm.arm(loop.time() + 3600)
    alarm.arm(loop.time())
    await due.wait()
