"""Which broker coordinates which group or transactional id, as far as it was looked up.

However many ask for the same one, at most one look-up of it is under way: whoever comes meanwhile
waits for its outcome. If that is a failure that may pass, or the look-up was cancelled, the next of
those who wait looks it up itself, within its own deadline.
"""

from __future__ import annotations

import asyncio
import copy
import enum
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiokafka_lite.errors import KafkaError, KafkaTimeoutError

_Place: TypeAlias = "tuple[CoordinatorKind, str]"


class CoordinatorKind(enum.IntEnum):
    """What is coordinated; the numbers are FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinators:
    """The look-ups remembered: node ids by (kind, key). `retry.CoordinatorOf` fills it."""

    def __init__(self) -> None:
        self._nodes: dict[_Place, int] = {}
        # Those under way; the result is the error that they came to, or None.
        self._look_ups: dict[_Place, asyncio.Future[KafkaError | None]] = {}

    def get(self, kind: CoordinatorKind, key: str) -> int | None:
        return self._nodes.get((kind, key))

    def set(self, kind: CoordinatorKind, key: str, node_id: int) -> None:
        self._nodes[kind, key] = node_id

    def forget(self, kind: CoordinatorKind, key: str, node_id: int | None = None) -> None:
        """It turned out to be wrong, or cannot be reached: the next use looks it up again.

        Args:
            node_id: Only if this is the one; another one was found since.
        """
        if node_id is None or self._nodes.get((kind, key)) == node_id:
            self._nodes.pop((kind, key), None)

    async def find(
        self,
        kind: CoordinatorKind,
        key: str,
        look_up: Callable[[], Awaitable[int]],
        deadline: float,
    ) -> int:
        """The node id, remembered or looked up.

        Args:
            look_up: Asks a broker, until the deadline. Of those given for one key at a time, one
                is called.
            deadline: In loop time, for one who waits for another's look-up.

        Raises:
            KafkaTimeoutError: It was not known by then.
            KafkaError: What the look-up came to; a lasting error is raised to all who wait.

        Cancellation: stops this wait; another of those who wait goes on.
        """
        place = (kind, key)
        while (node_id := self._nodes.get(place)) is None:
            under_way = self._look_ups.get(place)
            if under_way is None:
                return await self._look_up(place, look_up)
            try:
                async with asyncio.timeout_at(deadline):
                    error = await asyncio.shield(under_way)
            except TimeoutError:
                raise KafkaTimeoutError(f"No coordinator of {key!r} was found in time") from None
            if error is not None and not error.retriable:
                # A copy: one error raised for all would collect all their tracebacks.
                raise copy.copy(error)
        return node_id

    async def _look_up(self, place: _Place, look_up: Callable[[], Awaitable[int]]) -> int:
        outcome: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        self._look_ups[place] = outcome
        failure: KafkaError | None = None
        try:
            node_id = await look_up()
            self._nodes[place] = node_id
            return node_id
        except KafkaError as error:
            failure = error
            raise
        finally:
            del self._look_ups[place]
            outcome.set_result(failure)
