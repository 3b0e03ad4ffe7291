"""SlowExchange runs steps in a thread, even if the caller is cancelled."""

import asyncio
import threading
from collections.abc import Generator

import pytest

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafka_lite.net.slow_exchange import SlowExchange


def in_a_minute() -> float:
    return asyncio.get_running_loop().time() + 60


class Steps:
    """An exchange whose second step blocks until it is released."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> Generator[bytes, bytes, None]:
        try:
            answer = yield b"first"
            self.reached.set()
            self.go_on.wait(10)
            if answer == b"lie":
                raise AuthenticationFailedError("the broker proved nothing")
            yield b"second:" + answer
        finally:
            self.ended.set()


async def test_event_loop_runs_during_a_step() -> None:
    steps = Steps()
    exchange = SlowExchange(steps(), "SLOW")
    assert next(exchange) == b"first"
    step = asyncio.ensure_future(exchange.advance(b"answer", in_a_minute()))
    async with asyncio.timeout(10):
        while not steps.reached.is_set():
            await asyncio.sleep(0)
        steps.go_on.set()
        assert await step == b"second:answer"
        assert await exchange.advance(b"", in_a_minute()) is None


async def test_error_of_a_step_is_raised() -> None:
    steps = Steps()
    steps.go_on.set()
    exchange = SlowExchange(steps(), "SLOW")
    next(exchange)
    with pytest.raises(AuthenticationFailedError, match="proved nothing"):
        await exchange.advance(b"lie", in_a_minute())


async def test_cancelled_caller_does_not_wait_for_the_thread() -> None:
    steps = Steps()
    exchange = SlowExchange(steps(), "SLOW")
    next(exchange)
    step = asyncio.ensure_future(exchange.advance(b"answer", in_a_minute()))
    async with asyncio.timeout(10):
        while not steps.reached.is_set():
            await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
    exchange.close()  # the thread runs the step
    steps.go_on.set()


async def test_slow_step_times_out() -> None:
    steps = Steps()
    exchange = SlowExchange(steps(), "SLOW")
    next(exchange)
    try:
        with pytest.raises(KafkaConnectionError, match="SLOW produced no token"):
            await exchange.advance(b"answer", asyncio.get_running_loop().time() + 0.05)
    finally:
        steps.go_on.set()


def test_closing_ends_the_exchange() -> None:
    steps = Steps()
    exchange = SlowExchange(steps(), "SLOW")
    next(exchange)
    exchange.close()
    assert steps.ended.is_set()


async def test_no_thread_is_a_retriable_error_and_ends_the_exchange(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when the system is temporarily short of memory."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    steps = Steps()
    exchange = SlowExchange(steps(), "SLOW")
    next(exchange)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(KafkaConnectionError, match="SLOW produced no token: can't start"):
            await exchange.advance(b"answer", in_a_minute())
    exchange.close()
    assert steps.ended.is_set()
