"""The links of one share consumer: which leader has which partitions, and how many records each
link may acquire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.leader_requests import LeaderRequests
from aiokafka_lite.share.acquired_records import Decoding
from aiokafka_lite.share.acquisition import Acquisition
from aiokafka_lite.share.leaders.leader_link import LeaderLink
from aiokafka_lite.share.leaders.link_owner import Claimant, LeadersOptions, LinkOwner
from aiokafka_lite.share.share_session import PartitionId
from aiokafka_lite.structs import TopicPartition

__all__ = ["LeaderLinks"]


class LeaderLinks:
    """One link for each leader.

    Args:
        cluster: Provides the leaders.
        owner: The consumer.
        options: The consumer's.
        decoding: How to decode records.
        tasks: Owner of the links' tasks.
        loop: The event loop.
    """

    def __init__(
        self,
        cluster: Cluster,
        owner: LinkOwner,
        options: LeadersOptions,
        decoding: Decoding,
        tasks: TaskOwner,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cluster = cluster
        self._owner: Final = owner
        self._options = options
        self._decoding = decoding
        self._tasks = tasks
        self._loop = loop
        self._links: dict[int, LeaderLink] = {}
        self._link_tasks: dict[int, asyncio.Task[None]] = {}
        self._leader_requests = LeaderRequests(cluster, loop)

    def route(self, assignment: Iterable[TopicPartition]) -> None:
        """Give each leader its partitions."""
        metadata = self._cluster.metadata
        wanted: dict[int, dict[PartitionId, TopicPartition]] = {}
        missing = False
        for tp in assignment:
            topic = metadata.topics.get(tp.topic)
            leader = metadata.leader(tp.topic, tp.partition)
            if topic is None or topic.topic_id is None or leader is None:
                missing = True
                continue
            key = PartitionId(topic.topic_id, tp.partition)
            wanted.setdefault(leader.node_id, {})[key] = tp
        for node_id in wanted:
            if node_id not in self._links:
                self._open(node_id)
        for node_id, link in self._links.items():
            link.set_wanted(wanted.get(node_id, {}))
        self._leader_requests.update(missing=missing)
        self.wake()

    def _open(self, node_id: int) -> None:
        options = self._options
        link = self._links[node_id] = LeaderLink(
            node_id,
            self._cluster,
            self._owner,
            options,
            self._decoding,
            options.retry_backoff,
            self._loop,
            self._on_idle,
        )
        self._link_tasks[node_id] = self._tasks.spawn(link.run(), f"share session {node_id}")

    def _on_idle(self, link: LeaderLink) -> None:
        """A leader no longer has a partition of this consumer, and its session is closed."""
        del self._links[link.node_id]
        del self._link_tasks[link.node_id]

    def wake(self) -> None:
        """Let every link check for its next request."""
        for link in self._links.values():
            link.wake()

    @property
    def claimed(self) -> int:
        """Records that the fetches in flight may acquire."""
        return sum(each.claimed for each in self._links.values())

    def claim(self, link: Claimant, wanted: int) -> tuple[int, bool]:
        """Divide the records that the reads can take among the links that could fetch now.

        Args:
            link: One of them.
            wanted: Records that the reads can take.

        Returns:
            The number of records for this link, and True if it should not wait long for them.
        """
        if len(self._links) == 1 and link.able:
            free = max(wanted - link.claimed, 0)
            return free, not free
        free = wanted - self.claimed
        able = [each for each in self._links.values() if each.able]
        share, rest = divmod(max(free, 0), len(able))
        if share == 0:
            # Too few for all links: those that fetched longest ago come first.
            able.sort(key=lambda each: each.fetched_at)
            return (1 if link in able[:rest] else 0), True
        if link is able[0]:
            share += rest
        return share, False

    def find(self, tp: TopicPartition, offset: int) -> Acquisition | None:
        """Return the newest acquisition that locks an offset, or None.

        A former leader's may be older, and not known to be lost yet.
        """
        each_found = (link.pending.find(tp, offset) for link in self._links.values())
        found = [acquisition for acquisition in each_found if acquisition is not None]
        return max(found, key=attrgetter("deadline"), default=None)

    async def flush(self) -> None:
        """Send all marks now, and wait for their results."""
        await asyncio.gather(*(link.flush() for link in list(self._links.values())))

    async def close(self, deadline: float) -> None:
        """Send the last marks, and close the sessions, until the deadline (loop time)."""
        for link in self._links.values():
            link.stop()
        # Separately: a leader that does not answer must not delay the requests to the others.
        closings = [
            self._tasks.spawn(
                self._close(link, self._link_tasks[node_id], deadline), f"close {node_id}"
            )
            for node_id, link in self._links.items()
        ]
        if closings:
            await asyncio.wait(closings, timeout=max(0.0, deadline - self._loop.time()))

    async def _close(self, link: LeaderLink, task: asyncio.Task[None], deadline: float) -> None:
        """Wait for the exchange in progress of a link, and close its session."""
        await asyncio.wait([task], timeout=max(0.0, deadline - self._loop.time()))
        if task.done():
            await link.close(deadline)

    def abort(self) -> None:
        """End at once, without awaiting."""
        self._leader_requests.close()
        for link in self._links.values():
            link.abort()
