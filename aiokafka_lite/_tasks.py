"""The background tasks of one owner: named, supervised, and cancelled within a deadline.

Every long-lived task of this package is spawned here, so that none is lost: an unexpected exception
goes to the owner's callback, and `close` returns the tasks that did not end.

Non-obvious:
- The event loop keeps a running task, the task keeps this object, and this object keeps the
  callback. A callback that is a bound method of a public object would keep that object alive after
  the application drops it: pass a method of an inner object, or a weak one.
- A task is removed in its done callback, one loop pass after its coroutine has ended; `close`
  returns after that.
- The application's task factory is not used: `asyncio.eager_task_factory` would take a task's first
  steps within `spawn`, before its owner has stored the task.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aiokafka_lite.errors import IllegalStateError

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class TaskOwner:
    """Spawns tasks, reports their unexpected exceptions, and cancels them together.

    Args:
        name: Prefix of the tasks' names, as debuggers and logs show them.
        on_error: Called with a task's name and the exception that ended it. Cancellation is not
            an error. Called in the event loop, one loop pass after the task ended.
        loop: Event loop of the tasks; by default the loop that runs when a task is spawned.
    """

    def __init__(
        self,
        name: str,
        on_error: Callable[[str, BaseException], None],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.name = name
        self._loop = loop
        self._on_error = on_error
        self._tasks: set[asyncio.Task[Any]] = set()  # spawn adds, _on_done removes
        self._closed = False

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the tasks that have not ended, sorted."""
        return tuple(sorted(task.get_name() for task in self._tasks))

    @property
    def closed(self) -> bool:
        """True if no more tasks can be spawned (some may still be ending)."""
        return self._closed

    def spawn(self, coroutine: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """Start a task.

        Args:
            coroutine: The coroutine that it runs.
            name: Its name, without the owner's prefix.

        Returns:
            The task. It may be awaited or cancelled; its exception is reported in any case.

        Raises:
            IllegalStateError: The owner is closed; the coroutine was closed unstarted.
        """
        if self._closed:
            coroutine.close()
            raise IllegalStateError(f"{self.name} is closed: task {name!r} was not started")
        loop = self._loop or asyncio.get_running_loop()
        task = asyncio.Task(coroutine, loop=loop, name=f"{self.name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        exception = task.exception()
        if exception is not None:
            self._on_error(task.get_name(), exception)

    def cancel(self) -> None:
        """Cancel every task and accept no new one, without waiting; finalizers may call it.

        A task of this owner may call it: it does not cancel itself.
        """
        self._closed = True
        try:
            itself = asyncio.current_task()
        except RuntimeError:  # no loop runs in this thread
            itself = None
        for task in self._tasks - {itself}:
            task.cancel()

    async def close(self, deadline: float) -> tuple[str, ...]:
        """Cancel every task and wait until all have ended; idempotent.

        A task of this owner may call it: it does not cancel or wait for itself.

        Args:
            deadline: Time on the loop's clock at which the wait ends.

        Returns:
            Names of the tasks that had not ended by the deadline, usually none. They are also
            logged.

        Cancellation: stops the wait; the tasks stay cancelled.
        """
        self._closed = True
        loop = asyncio.get_running_loop()
        itself = asyncio.current_task()
        ending = {task for task in self._tasks if task is not itself}
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=max(0.0, deadline - loop.time()))
            # A task that was done before the wait still has its done callback queued.
            await asyncio.sleep(0)
        stuck = sorted((task for task in ending if not task.done()), key=asyncio.Task.get_name)
        for task in stuck:
            # The task may have swallowed the first cancellation: this is the last attempt.
            task.cancel()
            log.warning("Task %s did not end before the deadline: %r", task.get_name(), task)
        return tuple(task.get_name() for task in stuck)
