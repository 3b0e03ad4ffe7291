"""Requests for metadata while an assigned partition has no known leader."""

from __future__ import annotations

import asyncio

from aiokafka_lite.cluster.cluster import Cluster

__all__ = ["LeaderRequests"]


class LeaderRequests:
    """Requests metadata again, with increasing backoff, while a leader is missing: the cluster does
    not do this for partitions that its metadata lacks.

    Args:
        cluster: Whose metadata to refresh.
        loop: The event loop.
    """

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop) -> None:
        self._cluster = cluster
        self._loop = loop
        self._missing = False
        self._failures = 0  # updates in a row that lack a leader
        self._due = False  # a timer will send the next request
        self._closed = False

    def update(self, *, missing: bool) -> None:
        """Metadata or the assignment changed.

        Args:
            missing: True if an assigned partition has no known leader.
        """
        self._missing = missing
        if not missing:
            self._failures = 0
        elif not self._due and not self._closed:
            self._due = True
            self._failures += 1
            self._loop.call_later(self._cluster.retry_backoff.delay(self._failures), self._on_timer)

    def close(self) -> None:
        """Stop requesting. Idempotent."""
        self._closed = True

    def _on_timer(self) -> None:
        self._due = False
        if self._missing and not self._closed:
            self._cluster.request_update()
