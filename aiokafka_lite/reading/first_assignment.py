"""Waits for the first assignment of a subscription, for the `start` of a consumer or a share
consumer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import ConsumerStoppedError, KafkaTimeoutError
from aiokafka_lite.group.membership import MembershipOptions

__all__ = ["FirstAssignment"]

EMPTY_FOR: Final = 6.0
"""Seconds that `start` waits for the first partition if rebalances are not eager. The other
members receive the partitions to revoke within a heartbeat interval (5 seconds by default in
KIP-848), and a share group may have no partition for this member."""


class FirstAssignment:
    """Waits for the first assignment of the current subscription.

    Args:
        cluster: The cluster, which caches the group's coordinator.
        options: The membership's options.
        subscribed: Returns True while the application's subscription needs a membership.
        assigned: Returns True if any partition is assigned.
        gradual: True if rebalances are not eager, so that the first assignment may be empty.
        raise_failure: Raises the membership's failure, if any.
        heartbeat: Sends a heartbeat to ask for an assignment; None with the classic protocol.
        loop: The event loop of the consumer.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: MembershipOptions,
        *,
        subscribed: Callable[[], bool],
        assigned: Callable[[], bool],
        gradual: bool,
        raise_failure: Callable[[], None],
        heartbeat: Callable[[], None] | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._subscribed = subscribed
        self._assigned = assigned
        self._gradual = gradual
        self._raise_failure = raise_failure
        self._heartbeat = heartbeat
        self._loop = loop
        self._made = False  # True after the first assignment of the subscription
        self._changed = asyncio.Event()
        self._ended = False

    def on_assigned(self, made: bool) -> None:
        """Record that the membership has an assignment.

        Args:
            made: False if the application unsubscribed meanwhile.
        """
        self._made = made
        self._changed.set()

    def on_unsubscribed(self) -> None:
        """Record that the subscription has ended."""
        self.on_assigned(False)

    def on_failed(self) -> None:
        """Record that the membership has failed."""
        self._changed.set()

    def end(self) -> None:
        """Close: a pending wait raises."""
        self._ended = True
        self._changed.set()

    async def wait(self) -> None:
        """Wait for the first assignment, including the listener's call.

        Raises:
            KafkaTimeoutError: No coordinator was found within the request timeout. (The other
                members may take longer.)
            KafkaError: The membership has failed.
            ConsumerStoppedError: The consumer was stopped meanwhile.
        """
        group_id, timeout = self._options.group_id, self._options.request_timeout
        while not self._made and self._subscribed():
            self._check()
            self._changed.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                if self._cluster.coordinators.get(CoordinatorKind.GROUP, group_id) is None:
                    raise KafkaTimeoutError(
                        f"No coordinator of group {group_id} was found within {timeout:g} s"
                    ) from None
        if self._gradual:
            await self._wait_for_some()

    async def _wait_for_some(self) -> None:
        """Wait a limited time for the first partitions: there may be none to assign.

        If rebalances are not eager, a new member has no partitions until other members have revoked
        some. With KIP-848 and in a share group, the broker responds at once, even if a topic is
        still unknown to it or it has not resolved a pattern.
        """
        until, pause = self._loop.time() + EMPTY_FOR, 0.1
        while not self._assigned() and self._subscribed():
            self._check()
            left = until - self._loop.time()
            if left <= 0:
                return
            if self._heartbeat is not None:
                self._heartbeat()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause, left)):
                    await self._changed.wait()
            pause = min(2 * pause, 1.0)

    def _check(self) -> None:
        if self._ended:
            raise ConsumerStoppedError()
        self._raise_failure()
