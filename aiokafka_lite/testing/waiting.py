"""The answer to a request that waits until a group, or whoever else was asked, has decided."""

from collections.abc import Callable
from typing import TypeVar

from aiokafka_lite.protocol.message import Response
from aiokafka_lite.testing.context import Delayed
from aiokafka_lite.testing.groups.reply import Reply

__all__ = ["when_answered"]

R = TypeVar("R", bound=Response)


class _Waiting(Delayed):
    timeout = None  # whoever was asked has timers of its own

    def __init__(self, reply: Reply[Response]) -> None:
        self._reply = reply
        self.watched = [reply.watchers]

    def take_if_ready(self) -> Response | None:
        return self._reply.answer

    def take_now(self) -> Response:
        answer = self._reply.answer
        if answer is None:
            raise RuntimeError("nothing but the answer ends this wait")
        return answer


def when_answered(ask: Callable[[Reply[R]], None]) -> R | Delayed:
    """Ask for something; the answer if it is there at once, else a wait for it."""
    reply: Reply[R] = Reply()
    ask(reply)
    return _Waiting(reply) if reply.answer is None else reply.answer  # type: ignore[arg-type]
