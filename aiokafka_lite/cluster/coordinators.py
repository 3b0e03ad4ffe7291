"""Caches the coordinators of groups and transactional ids.

At most one lookup of a key is in progress; concurrent callers wait for its outcome. If it fails
with a retriable error or is cancelled, the next waiting caller looks the key up itself, within its
own deadline.
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
    """The kind of key that is coordinated; the values are FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinators:
    """Cache of lookups: node ids by (kind, key). `retry.CoordinatorOf` fills it."""

    def __init__(self) -> None:
        self._nodes: dict[_Place, int] = {}
        # Lookups in progress; the result is the error, or None.
        self._look_ups: dict[_Place, asyncio.Future[KafkaError | None]] = {}

    def get(self, kind: CoordinatorKind, key: str) -> int | None:
        return self._nodes.get((kind, key))

    def set(self, kind: CoordinatorKind, key: str, node_id: int) -> None:
        self._nodes[kind, key] = node_id

    def forget(self, kind: CoordinatorKind, key: str, node_id: int | None = None) -> None:
        """Drop a coordinator that is wrong or unreachable; the next use looks it up again.

        Args:
            node_id: Drop it only if it is still this node; None: in any case.
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
        """The coordinator's node id, cached or looked up.

        Args:
            look_up: Asks a broker, until the deadline. Of concurrent calls for one key, only one
                runs its `look_up`.
            deadline: In loop time; bounds the wait for another caller's lookup.

        Raises:
            KafkaTimeoutError: The coordinator was not found in time.
            KafkaError: The lookup failed; a lasting error is raised to all waiting callers.

        Cancellation: stops this wait; another waiting caller takes the lookup over.
        """
        place = (kind, key)
        began = asyncio.get_running_loop().time()
        while (node_id := self._nodes.get(place)) is None:
            under_way = self._look_ups.get(place)
            if under_way is None:
                return await self._look_up(place, look_up)
            try:
                async with asyncio.timeout_at(deadline):
                    error = await asyncio.shield(under_way)
            except TimeoutError:
                passed = asyncio.get_running_loop().time() - began
                raise KafkaTimeoutError(
                    f"The coordinator of {key!r} was not found within {passed:.3g} s"
                ) from None
            if error is not None and not error.retriable:
                # A copy: a shared error would collect the tracebacks of all callers.
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
