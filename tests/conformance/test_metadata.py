"""Metadata and coordinators: automatic topic creation, permissions, invalid requests."""

from uuid import UUID

from aiokafka_lite.protocol.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.conformance.administering import HARNESS
from tests.conformance.conftest import Compare
from tests.conformance.target import Target


def named(*names: str | None, **fields: bool) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], **fields)


async def test_auto_created_topics(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for version in (1, 3, 4, 8, 12, 13):
            name = target.unique("asked-for")
            first = await target.ask(named(name, "a b", ""), version)
            assert not any(topic.partitions for topic in first.topics)
            await target.until(named(name), version, lambda answer: not answer.topics[0].error_code)
        refused = named(target.unique("asked-for"), allow_auto_topic_creation=False)
        for _ in range(2):
            await target.ask(refused, 12)

    await compare(scenario, broker_configs=HARNESS)


async def test_authorized_operations(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, absent = await target.topic(), target.unique("absent")
        for version in (8, 9, 10, 11, 12, 13):
            for wanted in (False, True):
                await target.ask(
                    named(
                        topic,
                        absent,
                        "a b",
                        allow_auto_topic_creation=False,
                        include_topic_authorized_operations=wanted,
                        **(
                            {"include_cluster_authorized_operations": wanted}
                            if version <= 10
                            else {}
                        ),
                    ),
                    version,
                )

    await compare(scenario)


async def test_topics_by_id(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        (told,) = (await target.quietly(named(topic), 12)).topics
        by_id = MetadataRequestTopic(told.topic_id, None)
        absent = MetadataRequestTopic(UUID(int=77), None)
        for version in (12, 13):
            await target.ask(MetadataRequest([by_id, absent], False), version)
            await target.ask(MetadataRequest([by_id, absent], True), version)
        await target.ask(
            MetadataRequest([by_id], False, include_topic_authorized_operations=True), 12
        )

    await compare(scenario)


async def test_coordinators(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = target.unique("group")
        await target.coordinator_of(group)
        await target.coordinator_of(group, 1)
        for version in range(7):
            for kind in (0, 1) if version else (0,):
                request = FindCoordinatorRequest(group, kind, [])
                if version >= 4:
                    request = FindCoordinatorRequest("", kind, [group, f"{group}-2"])
                await target.ask(request, version)
        for version in (1, 3, 4, 5):
            for kind in (2, 3, -1):
                request = FindCoordinatorRequest(group, kind, [])
                if version >= 4:
                    request = FindCoordinatorRequest("", kind, [group])
                await target.ask(request, version)
        await target.ask(FindCoordinatorRequest("", 0, [""]), 4)
        await target.ask(FindCoordinatorRequest("", 2, ["not a share key"]), 6)

    await compare(scenario)
