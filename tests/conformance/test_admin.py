"""Administration of topics and the cluster: partitions, elections, reassignments, features,
quorum."""

import pytest

from aiokafka_lite.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokafka_lite.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokafka_lite.protocol.messages.describe_cluster import DescribeClusterRequest
from aiokafka_lite.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from aiokafka_lite.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from aiokafka_lite.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from aiokafka_lite.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from aiokafka_lite.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from aiokafka_lite.protocol.messages.unregister_broker import UnregisterBrokerRequest
from aiokafka_lite.protocol.messages.unregister_controller import UnregisterControllerRequest
from aiokafka_lite.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tests.conformance.administering import HARNESS, in_sync, move, placed
from tests.conformance.conftest import Compare
from tests.conformance.target import Target


async def test_creating_topics(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        async def create(*topics: CreatableTopic, version: int = 7, **fields: bool) -> None:
            await target.ask(CreateTopicsRequest(list(topics), 5000, **fields), version)

        def named(partitions: int = -1, factor: int = -1, **configs: str) -> CreatableTopic:
            settings = [
                CreatableTopicConfig(name.replace("_", "."), value)
                for name, value in configs.items()
            ]
            return CreatableTopic(target.unique("made"), partitions, factor, [], settings)

        def assigned(*replicas: list[int], partitions: int = -1) -> CreatableTopic:
            assignments = [
                CreatableReplicaAssignment(index, nodes) for index, nodes in enumerate(replicas)
            ]
            return CreatableTopic(target.unique("made"), partitions, -1, assignments)

        for version in range(2, 8):
            await create(named(2, 1, retention_ms="5000"), version=version)
            await create(named(1, 1), version=version, validate_only=True)
        for partitions, factor in [(0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 32767), (-1, -1)]:
            await create(named(partitions, factor))
        await create(named(100_000, 1), validate_only=True)
        for nodes in ([[0], [0]], [[5]], [[]], [[0, 0]], [[-1]], [[0], [0, 1]]):
            await create(assigned(*nodes))
        await create(assigned([0], partitions=1))
        gap = CreatableTopic(target.unique("made"), -1, -1, [CreatableReplicaAssignment(1, [0])])
        await create(gap)
        twice = named(1, 1)
        await create(twice, twice, named(1, 1))
        await create(twice)
        await create(twice)
        for name in ("", ".", "..", "a b", "x" * 250, "__cluster_metadata"):
            await create(CreatableTopic(name, 1, 1))
        underscored = target.unique("a_b")
        await create(CreatableTopic(underscored, 1, 1))
        await create(CreatableTopic(underscored.replace("_", "."), 1, 1))
        for config in ({"nope": "1"}, {"retention_ms": "x"}, {"cleanup_policy": "compact,delete"}):
            await create(named(1, 1, **config))
        null = CreatableTopic(target.unique("made"), 1, 1, [], [CreatableTopicConfig("a", None)])
        await create(null)

    await compare(scenario, broker_configs=HARNESS)


async def test_deleting_topics(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for version in range(1, 7):
            name, absent = await target.topic(), target.unique("absent")
            if version < 6:
                wanted = [name, absent, "", "a b"]
                await target.ask(DeleteTopicsRequest([], wanted, 5000), version)
                await target.ask(DeleteTopicsRequest([], [name], 5000), version)
                await target.ask(DeleteTopicsRequest([], [absent, absent], 5000), version)
            else:
                states = [DeleteTopicState(name=name), DeleteTopicState(name=absent)]
                await target.ask(DeleteTopicsRequest(states, [], 5000), version)
        await target.ask(DeleteTopicsRequest([DeleteTopicState()], [], 5000), 6)
        name = await target.topic()
        wanted = [MetadataRequestTopic(name=name)]
        (told,) = (await target.quietly(MetadataRequest(wanted, False), 12)).topics
        by_id = DeleteTopicState(topic_id=told.topic_id)
        await target.ask(DeleteTopicsRequest([by_id, DeleteTopicState(name=name)], [], 5000), 6)
        await target.ask(DeleteTopicsRequest([by_id], [], 5000), 6)
        await target.ask(DeleteTopicsRequest([by_id], [], 5000), 6)

    await compare(scenario)


async def test_creating_partitions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)

        async def grow(
            count: int,
            replicas: list[list[int]] | None = None,
            *,
            name: str = topic,
            validate_only: bool = True,
            version: int = 3,
        ) -> None:
            assignments = replicas and [CreatePartitionsAssignment(nodes) for nodes in replicas]
            wanted = CreatePartitionsTopic(name, count, [] if replicas == [] else assignments)
            await target.ask(
                CreatePartitionsRequest([wanted], 5000, validate_only=validate_only), version
            )

        for count in (2, 1, 0, -1, 100_000, 3):
            for version in range(4):
                await grow(count, version=version)
        for count, replicas in [
            *[(4, [[0], [0]]), (4, [[0]]), (3, [[5]]), (3, [[]]), (3, [[0, 0]]), (3, [[0, 1]])],
            (3, []),
        ]:
            await grow(count, replicas)
        await grow(3, name=target.unique("absent"))
        await grow(3, name="a b")
        await grow(3, validate_only=False)
        await grow(5, [[0], [0]], validate_only=False)
        described = DescribeTopicPartitionsRequest([TopicRequest(topic)])
        await target.until(described, 0, lambda answer: len(answer.topics[0].partitions) == 5)
        twice = [CreatePartitionsTopic(topic, count, None) for count in (6, 7)]
        await target.ask(CreatePartitionsRequest(twice, 5000, True), 3)

    await compare(scenario)


async def test_describing_partitions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        first, second = await target.topic(3), await target.topic(2)
        absent = target.unique("a-absent")
        names = [second, absent, first, "a b", first]
        wanted = [TopicRequest(name) for name in names]
        for limit in (2000, 1, 0, -1, 3, 4, 5):
            await target.ask(DescribeTopicPartitionsRequest(wanted, limit), 0)
        for name, index in [
            *[(first, 0), (first, 2), (first, 3), (first, 9), (first, -1), (second, 1)],
            *[("zz", 0), ("", 0), (absent, 0), ("a b", 4)],
        ]:
            request = DescribeTopicPartitionsRequest(wanted, 3, Cursor(name, index))
            answer = await target.ask(request, 0)
            target.note("next", answer.next_cursor)

    await compare(scenario)


async def test_electing_leaders(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, absent = await target.topic(2), target.unique("absent")
        wanted = [TopicPartitions(topic, [0, 1, 7]), TopicPartitions(absent, [0])]
        for version, kind in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (1, 2), (2, 9)]:
            await target.ask(ElectLeadersRequest(kind, wanted, 5000), version)
        await target.ask(ElectLeadersRequest(0, [], 5000), 2)

    await compare(scenario)


async def test_reassigning_partitions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, absent = await target.topic(2), target.unique("absent")
        for replicas in ([0], None, [], [5], [-1], [0, 0], [0, 1]):
            for index in (0, 7):
                wanted = [ReassignableTopic(topic, [ReassignablePartition(index, replicas)])]
                wanted.append(ReassignableTopic(absent, [ReassignablePartition(0, replicas)]))
                for version, may_change in [(0, True), (1, True), (1, False)]:
                    await target.ask(
                        AlterPartitionReassignmentsRequest(5000, may_change, wanted), version
                    )
        asked = [ListPartitionReassignmentsTopics(name, [0, 9]) for name in (topic, absent)]
        await target.ask(ListPartitionReassignmentsRequest(5000, asked), 0)
        await target.ask(ListPartitionReassignmentsRequest(5000, []), 0)

    await compare(scenario)


async def test_log_dirs(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, absent = await target.topic(2), target.unique("absent")
        wanted = [DescribableLogDirTopic(topic, [0, 7]), DescribableLogDirTopic(absent, [0])]
        for version in range(1, 6):
            await target.ask(DescribeLogDirsRequest(wanted), version)
            await target.ask(DescribeLogDirsRequest([]), version)
        moved = [AlterReplicaLogDirTopic(topic, [0, 7]), AlterReplicaLogDirTopic(absent, [0])]
        for version in (1, 2):
            asked = AlterReplicaLogDirsRequest([AlterReplicaLogDir("/nowhere", moved)])
            await target.ask(asked, version)
        (found,) = (await target.quietly(DescribeLogDirsRequest([]), 4)).results
        here = AlterReplicaLogDirsRequest([AlterReplicaLogDir(found.log_dir, moved)])
        await target.ask(here, 2)

    await compare(scenario)


async def test_describing_the_cluster(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for version in range(3):
            for wanted in (False, True):
                await target.ask(DescribeClusterRequest(wanted), version)
        for endpoint_type in (0, 2, 3):
            await target.ask(DescribeClusterRequest(False, endpoint_type), 1)
        answer = await target.ask(DescribeClusterRequest(False, 1, True), 2)
        target.note("fenced", [broker.is_fenced for broker in answer.brokers])

    await compare(scenario)


async def test_the_quorum(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        async def describe(version: int, *asked: tuple[str, list[int]]) -> None:
            topics = [
                DescribeQuorumRequestTopicData(
                    name, [DescribeQuorumRequestPartitionData(index) for index in indexes]
                )
                for name, indexes in asked
            ]
            answer = await target.quietly(DescribeQuorumRequest(topics), version)
            target.note(
                "quorum",
                (
                    answer.error_code,
                    tuple(
                        (topic.topic_name, part.partition_index, part.error_code)
                        for topic in answer.topics
                        for part in topic.partitions
                    ),
                    tuple(
                        (part.leader_id, [voter.replica_id for voter in part.current_voters])
                        for topic in answer.topics
                        for part in topic.partitions
                    ),
                    tuple(
                        tuple(listener.name for listener in node.listeners) for node in answer.nodes
                    ),
                ),
            )

        for version in range(3):
            await describe(version, ("__cluster_metadata", [0]))
            await describe(version, ("__cluster_metadata", [1]))
            await describe(version, (target.unique("absent"), [0, 1]))
            await describe(version)

    await compare(scenario)


UPDATES = [
    *[("nope", 1, 1), ("group.version", 9, 1), ("group.version", 0, 1), ("group.version", 1, 1)],
    *[("group.version", 0, 2), ("group.version", 0, 9), ("group.version", -1, 2)],
    *[("metadata.version", 33, 1), ("metadata.version", 32, 1), ("metadata.version", 32, 2)],
    *[("metadata.version", 32, 3), ("metadata.version", 0, 3), ("kraft.version", 1, 1)],
    *[("transaction.version", 1, 2), ("eligible.leader.replicas.version", 0, 2)],
]


@pytest.mark.parametrize("version", [1, 2])
async def test_updating_features(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        for name, level, kind in UPDATES:
            update = FeatureUpdateKey(name, level, upgrade_type=kind)
            await target.ask(UpdateFeaturesRequest(5000, [update], True), version)
        some = [FeatureUpdateKey(name, level) for name, level in (("group.version", 1), ("a", 1))]
        await target.ask(UpdateFeaturesRequest(5000, some, True), version)
        await target.ask(UpdateFeaturesRequest(5000, [], True), version)

    await compare(scenario)


async def test_brokers_and_voters_that_are_not_there(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        await target.ask(UnregisterBrokerRequest(99), 0)
        await target.ask(UnregisterControllerRequest(99), 0)
        await target.ask(RemoveRaftVoterRequest("another", 0), 0)
        cluster_id = (await target.quietly(DescribeClusterRequest(), 0)).cluster_id
        await target.ask(RemoveRaftVoterRequest(cluster_id, 0), 0)
        await target.ask(RemoveRaftVoterRequest(None, 0), 0)

    await compare(scenario)


async def test_electing_leaders_after_a_broker_failure(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        many = await placed(target, [2, 0, 1], [0, 1, 2])
        single = await placed(target, [2])
        await target.kill(2)
        await in_sync(target, many, 2, 2, replicas=3)

        def is_leaderless(answer: DescribeTopicPartitionsResponse) -> bool:
            return bool(answer.topics[0].partitions[0].leader_id == -1)

        await target.until(DescribeTopicPartitionsRequest([TopicRequest(single)]), 0, is_leaderless)
        wanted = [TopicPartitions(many, [0, 1]), TopicPartitions(single, [0])]
        for kind in (0, 1):
            await target.ask(ElectLeadersRequest(kind, wanted, 5000), 2)
        await target.restart(2)
        await in_sync(target, many, 3, 3)
        for _ in range(2):
            await target.ask(ElectLeadersRequest(0, wanted[:1], 5000), 2)

    await compare3(scenario)


async def test_moving_replicas(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await placed(target, [0, 1], [1, 2])

        await move(target, topic, 0, [2, 1, 0])
        await in_sync(target, topic, 3, 2)
        await move(target, topic, 0, [2, 1])
        await in_sync(target, topic, 2, 2)
        await move(target, topic, 1, [1, 2, 0], may_change=False)
        await move(target, topic, 1, [1])
        await in_sync(target, topic, 2, 1)
        await move(target, topic, 1, [0, 2, 1])
        await in_sync(target, topic, 2, 3)
        await move(target, topic, 1, [0, 2])
        await in_sync(target, topic, 2, 2)
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        (told,) = (await target.quietly(request, 9)).topics
        for part in sorted(told.partitions, key=lambda part: part.partition_index):
            target.note("replicas", tuple(part.replica_nodes))

    await compare3(scenario)
