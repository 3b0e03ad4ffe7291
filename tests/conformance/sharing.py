"""Members of share groups, which scenarios let join, acquire and acknowledge records."""

import asyncio
import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from aiokafka_lite.protocol.messages import share_acknowledge, share_fetch
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.conformance.membership import new_group
from tests.conformance.requests import NOW, produce
from tests.conformance.target import PATIENCE, Target
from tests.unit.testing.raw import make_batch

__all__ = [
    *("ACCEPT", "GAP", "REJECT", "RELEASE", "RENEW", "Range", "Sharer", "batch_of"),
    *("configure_group", "fill", "form_sharers", "new_sharer"),
]

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP_RESOURCE: Final = 32
NO_SESSION: Final = 122  # SHARE_SESSION_NOT_FOUND

Range = tuple[int, int, Sequence[int]]
"""First offset, last offset, types."""


def batch_of(count: int, value: bytes = b"v") -> bytes:
    """A batch of records."""
    return make_batch(*[(NOW, b"k%d" % index, value) for index in range(count)])


async def fill(target: Target, topic: str, *sizes: int) -> None:
    """Append batches of these sizes to partition 0, without recording."""
    for size in sizes:
        answer = await target.quietly(produce(topic, batch_of(size)), 8, "producer")
        assert not answer.responses[0].partition_responses[0].error_code, answer


async def configure_group(target: Target, group: str, **configs: object) -> None:
    """Set configurations of a group, and wait for them; underscores stand for dots."""
    wanted = {name.replace("_", "."): str(value) for name, value in configs.items()}
    settings = [AlterableConfig(name, 0, value) for name, value in wanted.items()]
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(GROUP_RESOURCE, group, settings)]
    )
    answer = await target.quietly(request, 1, "admin")
    assert not answer.responses[0].error_code, answer
    described = DescribeConfigsRequest([DescribeConfigsResource(GROUP_RESOURCE, group, [*wanted])])
    async with asyncio.timeout(PATIENCE):  # a broker applies them after the response
        while True:
            (told,) = (await target.quietly(described, 4, "admin")).results
            if {each.name: each.value for each in told.configs} == wanted:
                return
            await asyncio.sleep(0.05)


class Sharer:
    """One member with its own connection."""

    def __init__(
        self,
        target: Target,
        group: str,
        name: str,
        topics: Iterable[str],
        home: str | None = None,
    ) -> None:
        self.target = target
        self.group = group
        self.name = name  # the connection to the leader
        self.home = home or name  # the connection to the group coordinator
        digest = hashlib.md5(f"{group} {name}".encode()).digest()
        self.member_id = base64.urlsafe_b64encode(b"\1" + digest[1:]).rstrip(b"=").decode()
        self.topics = list(topics)
        self.epoch = 0
        self.session = 0
        self.ids: dict[str, UUID] = {}

    # Membership

    def report(self, epoch: int | None = None, **fields: Any) -> ShareGroupHeartbeatRequest:
        """A heartbeat."""
        sent = self.epoch if epoch is None else epoch
        if sent == 0:
            fields = {"subscribed_topic_names": self.topics, **fields}
        return ShareGroupHeartbeatRequest(self.group, self.member_id, sent, **fields)

    async def beat(self, **fields: Any) -> Any:
        """Send a heartbeat, without recording."""
        answer = await self.target.quietly(self.report(**fields), 1, self.home)
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    async def look_up(self) -> None:
        """Learn the ids of its topics."""
        for topic in self.topics:
            request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
            (found,) = (await self.target.quietly(request, 12, "topics")).topics
            self.ids[topic] = found.topic_id

    async def join(self) -> None:
        """Join, and wait for all partitions of its topics."""
        await self.look_up()

        def has_all(answer: Any) -> bool:
            if not answer.error_code:
                self.epoch = answer.member_epoch
            held = answer.assignment.topic_partitions if answer.assignment else []
            return not answer.error_code and len(held) == len(self.topics)

        for _ in range(600):
            names = self.topics
            if has_all(await self.beat(subscribed_topic_names=names)):
                return
            await self._pause()
        raise TimeoutError("no assignment")

    async def beat_until_assigned(self, *partitions: int) -> None:
        """Send heartbeats until it has these partitions of its first topic."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await self.beat(subscribed_topic_names=self.topics)
                held = answer.assignment.topic_partitions if answer.assignment else []
                if any(sorted(one.partitions) == list(partitions) for one in held):
                    return
                await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(0.05)

    async def warm_up(self, *partitions: int) -> None:
        """Make the leader load the state of empty partitions, which takes some time.

        Returns after two consecutive fetches without an error.
        """
        epoch = loaded = 0
        async with asyncio.timeout(PATIENCE):
            while loaded < 2:
                request = self.fetch_request(*partitions, epoch=epoch, max_wait_ms=300, min_bytes=1)
                answer = await self.target.quietly(request, 2, self.name)
                fetched = [each for topic in answer.responses for each in topic.partitions]
                failed = answer.error_code or any(each.error_code for each in fetched)
                loaded = 0 if failed else loaded + 1
                epoch = 0 if answer.error_code else epoch + 1
        await self.target.quietly(self.fetch_request(epoch=-1), 2, self.name)
        self.session = 0

    async def leave(self) -> Any:
        answer = await self.target.ask(self.report(-1), 1, self.home)
        self.epoch = 0
        return answer

    async def await_end_of_session(self) -> None:
        """Wait until the leader has closed its session; rename its connection."""
        request = ShareAcknowledgeRequest(self.group, self.member_id, 1000)
        async with asyncio.timeout(PATIENCE):
            while (await self.target.quietly(request, 2, "probe")).error_code != NO_SESSION:
                await self._pause()
        self.name += "'"

    # Records

    def fetch_request(
        self,
        *partitions: int,
        acks: dict[int, Sequence[Range]] | None = None,
        forget: Sequence[int] = (),
        epoch: int | None = None,
        topic: str | None = None,
        **fields: Any,
    ) -> ShareFetchRequest:
        """A fetch of the first topic; each request counts."""
        topic_id = self.ids[topic or self.topics[0]]
        named = {**dict.fromkeys(partitions, ()), **(acks or {})}
        parts = [
            share_fetch.FetchPartition(
                index, [share_fetch.AcknowledgementBatch(a, b, list(c)) for a, b, c in ranges]
            )
            for index, ranges in named.items()
        ]
        options = {"max_bytes": 2**20, "max_records": 500, "batch_size": 500, **fields}
        return ShareFetchRequest(
            self.group,
            self.member_id,
            self._count(epoch),
            topics=[share_fetch.FetchTopic(topic_id, parts)] if parts else [],
            forgotten_topics_data=(
                [share_fetch.ForgottenTopic(topic_id, list(forget))] if forget else []
            ),
            **options,
        )

    async def fetch(self, *partitions: int, version: int = 2, **fields: Any) -> Any:
        """Fetch, and record the response."""
        return await self.target.ask(self.fetch_request(*partitions, **fields), version, self.name)

    async def get(self, *partitions: int, **fields: Any) -> Any:
        """Fetch with a wait until there are records, and record the response."""
        fields = {"max_wait_ms": 20_000, "min_bytes": 1, **fields}
        return await self.fetch(*partitions, **fields)

    async def acknowledge(
        self,
        acks: dict[int, Sequence[Range]] | None = None,
        *,
        epoch: int | None = None,
        renew: bool = False,
        version: int = 2,
        topic: str | None = None,
    ) -> Any:
        """Acknowledge, and record the response."""
        request = self.acknowledge_request(acks, epoch=epoch, renew=renew, topic=topic)
        return await self.target.ask(request, version, self.name)

    def acknowledge_request(
        self,
        acks: dict[int, Sequence[Range]] | None = None,
        *,
        epoch: int | None = None,
        renew: bool = False,
        topic: str | None = None,
    ) -> ShareAcknowledgeRequest:
        """Acknowledgements for partitions of the first topic; each request counts."""
        parts = [
            share_acknowledge.AcknowledgePartition(
                index, [share_acknowledge.AcknowledgementBatch(a, b, list(c)) for a, b, c in ranges]
            )
            for index, ranges in (acks or {}).items()
        ]
        topics = (
            [share_acknowledge.AcknowledgeTopic(self.ids[topic or self.topics[0]], parts)]
            if parts
            else []
        )
        return ShareAcknowledgeRequest(
            self.group, self.member_id, self._count(epoch), renew, topics
        )

    def _count(self, epoch: int | None) -> int:
        sent = self.session if epoch is None else epoch
        self.session = sent + 1
        return sent


async def new_sharer(target: Target, *topics: str, **configs: object) -> Sharer:
    """A member, alone in its group, that reads from the beginning."""
    group = await new_group(target)
    await configure_group(target, group, **{"share_auto_offset_reset": "earliest", **configs})
    member = Sharer(target, group, "a", topics)
    await member.join()
    return member


async def form_sharers(target: Target, first: Sharer, *names: str) -> list[Sharer]:
    """More members of a group."""
    found = [Sharer(target, first.group, name, first.topics) for name in names]
    for one in found:
        await one.join()
    return found
