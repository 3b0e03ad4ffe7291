"""Delayed answers to requests that wait for a group or another component."""

from collections.abc import Callable
from typing import Generic, TypeVar

from aiokafka_lite.protocol.message import Response
from aiokafka_lite.testing.context import Delayed
from aiokafka_lite.testing.groups.reply import Reply

__all__ = ["when_answered"]

R = TypeVar("R", bound=Response)


class _Waiting(Delayed, Generic[R]):
    timeout = None  # the component has its own timers

    def __init__(self, reply: Reply[R], finish: Callable[[R], R]) -> None:
        self._reply = reply
        self._finish = finish
        self.watched = [reply.watchers]

    def take_if_ready(self) -> R | None:
        answer = self._reply.answer
        return None if answer is None else self._finish(answer)

    def take_now(self) -> R:
        raise RuntimeError("this wait has no timeout; only the answer ends it")


def _as_it_is(response: R) -> R:
    return response


def when_answered(
    ask: Callable[[Reply[R]], None], finish: Callable[[R], R] = _as_it_is
) -> R | Delayed:
    """Return the answer if `ask` provides it immediately, else a wait for it.

    Args:
        ask: Fills the reply, now or later.
        finish: Adapts the answer to the request's version.
    """
    reply: Reply[R] = Reply()
    ask(reply)
    if reply.answer is None:
        return _Waiting(reply, finish)
    return finish(reply.answer)
