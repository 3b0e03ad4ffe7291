"""Passes topic metadata from the client to a membership.

It makes the client track topics that it does not track yet: those of a leader's other members, and
those that the broker matched with a pattern, of which only the ids are known at first.
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
"""The first Metadata version that can request topics by id (KIP-516)."""


class Briefing:
    """Passes topic metadata to one membership.

    Args:
        cluster: The source of the metadata.
        membership: The machine that receives it.
        options: Options of the membership.
    """

    def __init__(
        self, cluster: Cluster, membership: Membership, options: MembershipOptions
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._options = options
        self._layouts = Layouts()

    def publish(self, metadata: Metadata, also: Iterable[str] = ()) -> Mapping[str, TopicLayout]:
        """Pass the layouts of the watched topics that exist to the membership.

        Args:
            also: Further topics to include.

        Returns:
            The layouts.
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
        """Metadata that covers all these topics, including those that do not exist.

        The topics stay tracked for a while; a caller that needs them longer must add them to the
        cluster.

        Raises:
            KafkaTimeoutError: The metadata did not arrive in time.
            KafkaError: The refresh failed with a lasting error.
        """
        cluster = self._cluster
        newer_than = max(map(cluster.add_topic, names), default=-1)
        known = cluster.metadata.topics
        topics = [known[name] for name in names if name in known]
        if any(not topic.partitions and not topic.refused for topic in topics):
            # The topic did not exist at the time of the request; it may have been created since.
            newer_than = cluster.request_update()
        return await cluster.wait_for_version(newer_than, self._deadline())

    async def resolve(self, on_resolved: Callable[[], None]) -> None:
        """Look up the names of assigned topics and pass them on, until none is missing.

        Args:
            on_resolved: Called whenever names were passed on.
        """
        self.publish(self._cluster.metadata)
        on_resolved()
        asked = 0
        while wanted := self._membership.unresolved_topic_ids:
            # If the client tracks these names, its metadata still has the deleted topics.
            self._cluster.request_update()
            try:
                layouts = await self._by_id(wanted)
            except KafkaError as error:
                client_id, group_id = self._options.client_id, self._options.group_id
                text = (
                    "%s: looking up the names of assigned topics of group %s failed; retrying: %s"
                )
                log.warning(text, client_id, group_id, error, extra=self._options.log_fields)
            else:
                for name in layouts:
                    self._cluster.add_topic(name)
                self._membership.on_metadata(layouts, asyncio.get_running_loop().time())
                on_resolved()
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
