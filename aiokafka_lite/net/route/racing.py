"""Tries the addresses of a name with a short delay between them, and uses the first that accepts.

A name may have addresses that do not answer: of a stopped broker, or of an address family that the
network drops. Tried strictly one after the other, each of them would cost a whole timeout.

Source: RFC 8305 (Happy Eyeballs), sections 4 and 5.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from aiokafka_lite.errors import KafkaConnectionError

AddressInfo: TypeAlias = tuple[int, int, int, str, Any]
"""An entry of getaddrinfo: family, type, protocol, canonical name, address."""

STAGGER: Final = 0.25
"""Seconds before the next address is tried as well; RFC 8305 recommends this."""


def interleaved(infos: Iterable[AddressInfo], skip: int = 0) -> list[AddressInfo]:
    """Return the addresses with alternating families, starting with the family of the first one.

    Args:
        infos: In the system's order of preference.
        skip: Number of addresses to move to the end, because they accepted connections but their
            broker did not answer.
    """
    by_family: dict[int, deque[AddressInfo]] = {}
    for info in infos:
        by_family.setdefault(info[0], deque()).append(info)
    ordered = []
    while by_family:
        for family, waiting in list(by_family.items()):
            ordered.append(waiting.popleft())
            if not waiting:
                del by_family[family]
    first = skip % len(ordered) if ordered else 0
    return ordered[first:] + ordered[:first]


class Race:
    """Connects to one of several addresses.

    Args:
        infos: The addresses, in the order to try them.
        connect: Returns a connected socket for an address, or raises OSError in time.

    Attributes:
        failures: The address and error of each attempt that failed; the user adds those of accepted
            addresses that turned out to be unusable.
    """

    def __init__(
        self,
        infos: Sequence[AddressInfo],
        connect: Callable[[AddressInfo], Awaitable[socket.socket]],
    ) -> None:
        self.failures: list[tuple[Any, OSError | KafkaConnectionError]] = []
        self._waiting = deque(infos)
        self._connect = connect

    async def winner(self) -> tuple[AddressInfo, socket.socket] | None:
        """Return the next address that accepts, and its socket; None if no address is left.

        Slower attempts are cancelled; the next call tries their addresses again.

        Cancellation: closes all sockets.
        """
        if len(self._waiting) == 1:
            return await self._only(self._waiting.popleft())
        running: dict[asyncio.Task[socket.socket], AddressInfo] = {}
        won: asyncio.Task[socket.socket] | None = None
        try:
            try:
                while won is None and (self._waiting or running):
                    if self._waiting:
                        info = self._waiting.popleft()
                        name = f"connect to {info[4][0]}"
                        connecting = _awaited(self._connect(info))
                        running[asyncio.create_task(connecting, name=name)] = info
                    pause = STAGGER if self._waiting else None
                    done, _ = await asyncio.wait(
                        running, timeout=pause, return_when=asyncio.FIRST_COMPLETED
                    )
                    won = self._take_outcomes(done, running)
            finally:
                await _end(task for task in running if task is not won)
        except BaseException:
            if won is not None:
                won.result().close()
            raise
        if won is None:
            return None
        info = running.pop(won)
        self._waiting.extendleft(reversed(running.values()))
        return info, won.result()

    async def _only(self, info: AddressInfo) -> tuple[AddressInfo, socket.socket] | None:
        try:
            return info, await self._connect(info)
        except OSError as error:
            self.failures.append((info[4], error))
            return None

    def _take_outcomes(
        self,
        done: set[asyncio.Task[socket.socket]],
        running: dict[asyncio.Task[socket.socket], AddressInfo],
    ) -> asyncio.Task[socket.socket] | None:
        """Record failed attempts and return the first that succeeded, in the order of starting."""
        won = None
        for task, info in list(running.items()):
            if task not in done:
                continue
            error = task.exception()
            if error is None:
                won = won or task
            elif isinstance(error, OSError):
                del running[task]
                self.failures.append((info[4], error))
            else:
                raise error
        return won


async def _awaited(connecting: Awaitable[socket.socket]) -> socket.socket:
    return await connecting


async def _end(running: Iterable[asyncio.Task[socket.socket]]) -> None:
    """Cancel attempts, and close the sockets of those that connected meanwhile. Cancellation: stops
    the wait; the sockets are closed nevertheless."""
    ending = []
    for task in running:
        if task.done():
            _close_outcome(task)
        else:
            task.add_done_callback(_close_outcome)
            task.cancel()
            ending.append(task)
    if ending:
        await asyncio.wait(ending)


def _close_outcome(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()
