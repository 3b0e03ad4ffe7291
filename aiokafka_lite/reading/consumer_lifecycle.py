"""The lifecycle that AIOKafkaConsumer and AIOKafkaShareConsumer have in common: start,
`async with`, forks, and the end of a consumer that is dropped without `stop`.

A public consumer has a core, which does the work. A core whose start failed after it had connected
cannot be started again, so the consumer replaces it.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from abc import abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from aiokafka_lite import _fork
from aiokafka_lite.cluster.reach import StateClock
from aiokafka_lite.errors import IllegalStateError, KafkaError

__all__ = ["GIVE_UP_WITHIN", "ConsumerLifecycle"]

GIVE_UP_WITHIN: Final = 1.0
"""Maximum seconds for a failed or cancelled `start` to leave the group, and then to close."""


class Core(Protocol):
    """The part of a core that its lifecycle needs."""

    loop: asyncio.AbstractEventLoop
    starting: bool
    closed: bool
    refusal: KafkaError | None

    def check_home(self) -> None:
        """Raise IllegalStateError in another event loop, thread or process than the consumer's."""

    async def start(self, connect_by: float | None = None) -> None:
        """Start; `connect_by` is in loop time."""

    async def stop(self) -> None:
        """Stop within a few seconds. Idempotent."""

    async def finish(self, deadline: float) -> None:
        """Wait for the tasks of a closed core to end."""

    def abort(self) -> None:
        """Close everything at once, without awaiting."""

    def drop(self) -> None:
        """The event loop is closed: drop what the garbage collector cannot see."""

    def on_forked(self, error: KafkaError) -> None:
        """Reject every call in a forked child, without touching any resource."""


_Core = TypeVar("_Core", bound=Core)


class ConsumerLifecycle(Generic[_Core]):
    """Base class of the public consumers.

    Args:
        core: The first core.
        bootstrap_timeout: Seconds that `start` tries to connect, or None to try each address once.
    """

    _NAME: ClassVar[str]
    """The name of the public class, also in a subclass."""

    _KIND: ClassVar[str]
    """The name of this kind of client in errors."""

    _closed = True  # until the constructor ends
    _enter_failed = False  # the last `async with` failed to start

    def __init__(self, core: _Core, bootstrap_timeout: float | None) -> None:
        self._core = core
        self._bootstrap_timeout = bootstrap_timeout
        self._health_clock = StateClock()
        self._source_traceback = (
            traceback.extract_stack(sys._getframe(2)) if core.loop.get_debug() else None
        )
        self._closed = False
        _fork.watch(self)

    @abstractmethod
    def _core_after(self, failed: _Core) -> _Core:
        """Return a new core with the subscription of one whose start failed."""

    def _on_forked(self) -> None:
        """This process is a forked child (see `_fork`)."""
        self._core.on_forked(_fork.forked_error(self._KIND))

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._closed or self._core.refusal is not None:
            return
        core = self._core
        unclosed = not self._enter_failed  # otherwise the core was not started: nothing is open
        message = f"Unclosed {self._NAME}"
        if unclosed:
            _warn(f"{message} {self!r}", ResourceWarning, source=self)
        if core.loop.is_closed():
            core.drop()
            return
        # The garbage collector may run in any thread.
        core.loop.call_soon_threadsafe(core.abort)
        if unclosed:
            context: dict[str, Any] = {"consumer": self, "message": message}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            core.loop.call_exception_handler(context)

    async def _start(self) -> None:
        """Start the core, or replace it if its start failed after it had connected."""
        core = self._core
        core.check_home()
        if self._closed:
            raise IllegalStateError("The consumer was stopped")
        if core.closed:
            raise IllegalStateError("This consumer has failed: create a new one")
        if core.starting:
            raise IllegalStateError("The consumer was already started")
        self._enter_failed = False
        wait = self._bootstrap_timeout
        try:
            await core.start(None if wait is None else core.loop.time() + wait)
        except BaseException:
            await self._renew(core)
            raise

    async def _renew(self, core: _Core) -> None:
        """Replace a core whose start failed after it had connected, unless `stop` was called."""
        if core.closed and not self._closed:
            self._core = self._core_after(core)
            await core.finish(core.loop.time() + GIVE_UP_WITHIN)

    @abstractmethod
    async def start(self) -> None:
        """Connect, and join the group."""

    @abstractmethod
    async def stop(self) -> None:
        """Leave the group, and close all connections."""

    async def __aenter__(self) -> Self:
        self._core.check_home()
        try:
            await self.start()
        except BaseException:
            # Nothing is open. The consumer may be entered again, or dropped without `stop`.
            self._enter_failed = not self._core.starting
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
