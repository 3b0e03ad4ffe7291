"""A SASL exchange whose steps cost much of a processor: each runs in a thread of its own.

Neither the event loop nor asyncio's default executor is used for them: the first would stand still
for as long as a broker likes, and the second is the application's, which may have filled it.
"""

import asyncio
import threading
from collections.abc import Generator
from types import TracebackType
from typing import Final

from aiokafka_lite.errors import KafkaConnectionError

__all__ = ["SlowExchange"]

LONGEST_STEP: Final = 30.0
"""Seconds that a step may take: many times what the mechanisms allow a broker to ask for."""


class SlowExchange(Generator[bytes, bytes, None]):
    """An exchange (see `authenticate`) to be driven by `advance`; `send` blocks.

    Args:
        steps: The exchange.
        name: Of the mechanism, for the thread and for errors.
    """

    def __init__(self, steps: Generator[bytes, bytes, None], name: str) -> None:
        self._steps = steps
        self._name = name
        self._in_thread = False

    def send(self, value: bytes | None, /) -> bytes:
        return next(self._steps) if value is None else self._steps.send(value)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: object = None,
        tb: TracebackType | None = None,
        /,
    ) -> bytes:
        if isinstance(typ, BaseException):
            return self._steps.throw(typ)
        return self._steps.throw(typ, val, tb)

    def close(self) -> None:
        """End it. A step that a thread is at is left alone: it ends by itself."""
        if not self._in_thread:
            self._steps.close()

    async def advance(self, value: bytes | None) -> bytes | None:
        """The next token after the broker's; None when the client is content.

        Raises:
            AuthenticationFailedError: As of the exchange.
            KafkaConnectionError: It took too long; the exchange is of no more use.

        Cancellation: stops the wait; the thread goes on to the end of the step.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[bytes | None] = loop.create_future()

        def settle(token: bytes | None, error: BaseException | None) -> None:
            if outcome.done():
                return  # nobody waits any more
            if error is None:
                outcome.set_result(token)
            else:
                outcome.set_exception(error)

        def step() -> None:
            token: bytes | None = None
            failure: BaseException | None = None
            try:
                token = self.send(value)
            except StopIteration:
                pass  # the client is content
            except BaseException as error:
                failure = error
            self._in_thread = False
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, token, failure)

        self._in_thread = True
        threading.Thread(target=step, name=f"aiokafka_lite: {self._name}", daemon=True).start()
        try:
            async with asyncio.timeout(LONGEST_STEP):
                return await outcome
        except TimeoutError:
            raise KafkaConnectionError(
                f"{self._name} took longer than {LONGEST_STEP:g} s to answer the broker"
            ) from None
