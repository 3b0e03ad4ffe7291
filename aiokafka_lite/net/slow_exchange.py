"""A SASL exchange with expensive steps, each of which runs in a separate thread.

In the event loop, a broker could make these steps block it. Asyncio's default executor cannot be
used, because the application may have filled it.
"""

import asyncio
import threading
from collections.abc import Generator
from types import TracebackType

from aiokafka_lite.errors import KafkaConnectionError

__all__ = ["SlowExchange"]


class SlowExchange(Generator[bytes, bytes, None]):
    """An exchange (see `authenticate`) that `advance` drives without blocking; `send` blocks.

    Args:
        steps: The exchange itself.
        name: Name of the mechanism, for the thread and for errors.
        slow_start: True if the first token is expensive, too.
    """

    def __init__(
        self, steps: Generator[bytes, bytes, None], name: str, *, slow_start: bool = False
    ) -> None:
        self.slow_start = slow_start
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
        """Close the exchange. A step that is running in a thread finishes by itself."""
        if not self._in_thread:
            self._steps.close()

    async def advance(self, value: bytes | None, deadline: float) -> bytes | None:
        """Return the client's next token after the broker's `value`; None when complete.

        Args:
            value: The broker's token; None for the client's first one.
            deadline: Loop time by which the step must end.

        Raises:
            AuthenticationFailedError: The broker's token is not valid.
            KafkaConnectionError: The step took too long, or no thread could be started; the
                exchange cannot be continued.

        Cancellation: stops the wait; the thread finishes the step.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[bytes | None] = loop.create_future()

        def settle(token: bytes | None, error: BaseException | None) -> None:
            if outcome.done():
                return  # the caller was cancelled, or timed out
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
                pass  # the exchange is complete
            except BaseException as error:
                failure = error
            self._in_thread = False
            try:
                loop.call_soon_threadsafe(settle, token, failure)
            except RuntimeError:
                if not loop.is_closed():  # otherwise nothing waits for the outcome
                    raise

        thread = threading.Thread(target=step, name=f"aiokafka_lite: {self._name}", daemon=True)
        self._in_thread = True
        try:
            thread.start()
        except RuntimeError as error:  # the system cannot start another thread now
            self._in_thread = False
            raise KafkaConnectionError(f"{self._name} produced no token: {error}") from error
        try:
            async with asyncio.timeout_at(deadline):
                return await outcome
        except TimeoutError:
            raise KafkaConnectionError(
                f"{self._name} produced no token for the broker within request_timeout_ms"
            ) from None
