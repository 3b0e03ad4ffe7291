"""What a member has to know of topics, told from the client's metadata.

Where the client does not track them it is asked to: of a leader those of the other members, and
those that the broker chose by a pattern, of which nothing but the ids is known at first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.cluster.retry import ANY, call
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.membership import Membership, MembershipOptions, TopicLayout
from aiokafka_lite.group.topic_layouts import Layouts
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = ["Briefing"]

log: Final = logging.getLogger(__name__)

_BY_ID_FROM: Final = 12
"""The first version of Metadata in which topics can be asked for by their id (KIP-516)."""


class Briefing:
    """Tells one membership of topics.

    Args:
        cluster: Its metadata is told.
        membership: It is told to this one.
        options: Those of the membership.
    """

    def __init__(
        self, cluster: Cluster, membership: Membership, options: MembershipOptions
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._options = options
        self._layouts = Layouts()

    def tell(self, metadata: Metadata, also: Iterable[str] = ()) -> Mapping[str, TopicLayout]:
        """Tell of what the membership watches, as far as it exists.

        Args:
            also: Topics to tell of besides.

        Returns:
            What was told.
        """
        membership, names = self._membership, metadata.topic_names
        by_id = (
            names[topic_id] for topic_id in membership.unresolved_topic_ids if topic_id in names
        )
        topics = membership.watched_topics.union(also, by_id)
        now = asyncio.get_running_loop().time()
        layouts = self._layouts.of(topics, metadata, now)
        membership.on_metadata(layouts, now)
        return layouts

    async def load(self, names: Collection[str]) -> Metadata:
        """Metadata in which a broker has told of all these topics, be it that they do not exist.

        They stay tracked for a while; who needs them for longer has to say so to the cluster.

        Raises:
            KafkaTimeoutError: Nothing was told in time.
            KafkaError: A lasting error of the cluster.
        """
        cluster = self._cluster
        newer_than = max(map(cluster.add_topic, names), default=-1)
        known = cluster.metadata.topics
        topics = [known[name] for name in names if name in known]
        if any(not topic.partitions and not topic.refused for topic in topics):
            # It did not exist when it was asked for, and may have been made since.
            newer_than = cluster.request_update()
        return await cluster.wait_for_version(newer_than, self._deadline())

    async def resolve(self, on_told: Callable[[], None]) -> None:
        """Find the names of assigned topics and tell them, until none is missing.

        Args:
            on_told: Called whenever something was told.
        """
        self.tell(self._cluster.metadata)
        on_told()
        asked = 0
        while wanted := self._membership.unresolved_topic_ids:
            # If the client tracks them by name, its metadata is of topics that are gone.
            self._cluster.request_update()
            try:
                layouts = await self._by_id(wanted)
            except KafkaError as error:
                log.warning("The names of assigned topics are unknown; retrying: %s", error)
            else:
                for name in layouts:
                    self._cluster.add_topic(name)
                self._membership.on_metadata(layouts, asyncio.get_running_loop().time())
                on_told()
            asked += 1
            await asyncio.sleep(self._options.retry_backoff.delay(asked))

    async def _by_id(self, topic_ids: Collection[UUID]) -> dict[str, TopicLayout]:
        def build(version: int) -> MetadataRequest:
            topics = [MetadataRequestTopic(topic_id, None) for topic_id in sorted(topic_ids)]
            return MetadataRequest(topics, allow_auto_topic_creation=False)

        request = PerVersion(MetadataRequest, build)
        response = await call(self._cluster, request, ANY, self._deadline(), oldest=_BY_ID_FROM)
        return {
            topic.name: TopicLayout(len(topic.partitions), topic_id=topic.topic_id)
            for topic in response.topics
            if topic.name is not None and not topic.error_code
        }

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._options.request_timeout
