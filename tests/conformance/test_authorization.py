"""Authorization: every API with users of different rights, compared with `StandardAuthorizer`."""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    unregister_controller,
    update_features,
    write_txn_markers,
)
from aiokafka_lite.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from aiokafka_lite.testing.security.acl_table import (
    CLUSTER_NAME,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from tests.conformance.conftest import Compare
from tests.conformance.requests import GOOD, NOW
from tests.conformance.target import ConnectionEnded, Target
from tests.unit.testing.raw import make_batch

pytestmark = pytest.mark.real

PRODUCER = {"producer_id": 4321, "producer_epoch": 0, "base_sequence": 0}
IDEMPOTENT = make_batch((NOW, b"k", b"v"), **PRODUCER)
TRANSACTIONAL = make_batch((NOW, b"k", b"v"), **PRODUCER, transactional=True)

GROUP_RESOURCE = 32
Grant = tuple[str, Operation, Resource, str]
Case = tuple[Request, int]


class Names:
    """The requests and their resources, the same on both targets."""

    def __init__(self, target: Target, topic: str, topic_id: UUID) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.missing = target.unique("missing")
        self.group = target.unique("group")
        self.txn = target.unique("txn")


async def grant(target: Target, grants: Sequence[Grant], deny: Sequence[Grant] = ()) -> None:
    """Create ACLs and wait until they take effect."""
    creations = [
        AclCreation(resource, name, Pattern.LITERAL, f"User:{user}", "*", operation, permission)
        for permission, given in ((Permission.ALLOW, grants), (Permission.DENY, deny))
        for user, operation, resource, name in given
    ]
    response = await target.quietly(CreateAclsRequest(creations), 3, "admin")
    assert not any(result.error_code for result in response.results)
    await target.published()


async def assign_at_once(target: Target, group: str) -> None:
    """Let a group assign at each heartbeat, however long after the last assignment it comes."""
    changes = [incremental_alter_configs.AlterableConfig("consumer.assignment.interval.ms", 0, "0")]
    resource = incremental_alter_configs.AlterConfigsResource(GROUP_RESOURCE, group, changes)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
    response = await target.quietly(request, 1, "admin")
    assert not response.responses[0].error_code, response


async def walk(
    compare: Compare,
    users: Sequence[str],
    grants: Callable[[Names], tuple[list[Grant], list[Grant]]],
    cases: Callable[[Names], list[Case]],
) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        asked = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=topic)])
        described = await target.quietly(asked, 12, "admin")
        names = Names(target, topic, described.topics[0].topic_id)
        warm = init_producer_id.InitProducerIdRequest(None, 60_000)
        while (await target.quietly(warm, 4, "admin")).error_code:  # Kafka fetches ids at first
            await asyncio.sleep(0.05)
        await target.coordinator_of(names.group)
        await target.coordinator_of(names.txn, 1)
        await assign_at_once(target, f"{names.group}-new")
        await grant(target, *grants(names))
        for user in users:
            for request, version in cases(names):
                target.note("who", f"{user}: {request.name} v{version}")
                try:
                    await target.ask(request, version, user)
                except ConnectionEnded:
                    target.disconnect(user)

    await compare(scenario)


def topic_grants(names: Names) -> tuple[list[Grant], list[Grant]]:
    return [
        ("bob", Operation.READ, Resource.TOPIC, names.topic),
        ("bob", Operation.READ, Resource.TOPIC, names.missing),
        ("carol", Operation.WRITE, Resource.TOPIC, names.topic),
        ("carol", Operation.CREATE, Resource.TOPIC, names.missing),
        ("dave", Operation.DESCRIBE, Resource.TOPIC, names.topic),
        ("dave", Operation.DESCRIBE_CONFIGS, Resource.TOPIC, names.topic),
        ("eve", Operation.ALL, Resource.TOPIC, names.topic),
    ], [("eve", Operation.READ, Resource.TOPIC, names.topic)]


def topic_cases(names: Names) -> list[Case]:
    def metadata_of(*topics: str, **fields: bool) -> Request:
        asked = [metadata.MetadataRequestTopic(name=name) for name in topics]
        return metadata.MetadataRequest(asked, False, **fields)

    def produce_of(topic: str, batch: bytes, txn: str | None = None, **by: UUID) -> Request:
        data = produce.TopicProduceData(
            topic, partition_data=[produce.PartitionProduceData(0, batch)], **by
        )
        return produce.ProduceRequest(txn, -1, 3000, [data])

    def fetch_of(topic: str, **by: UUID) -> Request:
        wanted = fetch.FetchTopic(topic, partitions=[fetch.FetchPartition(0, fetch_offset=0)], **by)
        return fetch.FetchRequest(topics=[wanted])

    both = (names.topic, names.missing)
    listed = [
        list_offsets.ListOffsetsTopic(topic, [list_offsets.ListOffsetsPartition(0, -1, -1)])
        for topic in both
    ]
    epochs = [
        offset_for_leader_epoch.OffsetForLeaderTopic(
            topic, [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)]
        )
        for topic in both
    ]
    deleted = [
        delete_records.DeleteRecordsTopic(topic, [delete_records.DeleteRecordsPartition(0, 0)])
        for topic in both
    ]
    asked_id = metadata.MetadataRequestTopic(names.topic_id, None)
    producers = [describe_producers.TopicRequest(topic, [0]) for topic in both]
    described = [describe_topic_partitions.TopicRequest(topic) for topic in both]
    return [
        (metadata_of(*both), 4),
        (metadata_of(*both, include_topic_authorized_operations=True), 9),
        (metadata_of(names.topic, include_cluster_authorized_operations=True), 9),
        (metadata.MetadataRequest([asked_id], False), 12),
        (produce_of(names.topic, GOOD), 9),
        (produce_of(names.missing, GOOD), 9),
        (produce_of(names.topic, IDEMPOTENT), 9),
        (produce_of(names.topic, TRANSACTIONAL, names.txn), 9),
        (produce_of("", GOOD, topic_id=names.topic_id), 13),
        (fetch_of(names.topic), 11),
        (fetch_of(names.missing), 11),
        (fetch_of("", topic_id=names.topic_id), 13),
        (list_offsets.ListOffsetsRequest(-1, topics=listed), 5),
        (offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, epochs), 3),
        (offset_for_leader_epoch.OffsetForLeaderEpochRequest(-2, epochs), 4),
        (delete_records.DeleteRecordsRequest(deleted, 5000), 2),
        (describe_producers.DescribeProducersRequest(producers), 0),
        (describe_topic_partitions.DescribeTopicPartitionsRequest(described, 100, None), 0),
        (init_producer_id.InitProducerIdRequest(None, 60_000), 2),
    ]


async def test_topics(compare_guarded: Compare) -> None:
    users = ("alice", "bob", "carol", "dave", "eve")
    await walk(compare_guarded, users, topic_grants, topic_cases)


def group_grants(names: Names) -> tuple[list[Grant], list[Grant]]:
    return [
        ("bob", Operation.READ, Resource.GROUP, names.group),
        ("carol", Operation.READ, Resource.GROUP, names.group),
        ("carol", Operation.READ, Resource.TOPIC, names.topic),
        ("dave", Operation.DESCRIBE, Resource.GROUP, names.group),
        ("dave", Operation.DESCRIBE, Resource.TOPIC, names.topic),
        ("eve", Operation.DELETE, Resource.GROUP, names.group),
        ("bob", Operation.READ, Resource.GROUP, f"{names.group}-new"),
        ("carol", Operation.READ, Resource.GROUP, f"{names.group}-new"),
        ("carol", Operation.DESCRIBE, Resource.TOPIC, names.missing),
    ], []


def group_cases(names: Names) -> list[Case]:
    both = (names.topic, names.missing)
    group = names.group
    committed = [
        offset_commit.OffsetCommitRequestTopic(
            topic, partitions=[offset_commit.OffsetCommitRequestPartition(0, 7)]
        )
        for topic in both
    ]
    fetched = [offset_fetch.OffsetFetchRequestTopic(topic, [0]) for topic in both]
    grouped = [
        offset_fetch.OffsetFetchRequestTopics(topic, partition_indexes=[0]) for topic in both
    ]
    of_topics = offset_fetch.OffsetFetchRequestGroup(group, None, -1, grouped)
    of_all = offset_fetch.OffsetFetchRequestGroup(group, None, -1, None)
    dropped = [
        offset_delete.OffsetDeleteRequestTopic(
            topic, [offset_delete.OffsetDeleteRequestPartition(0)]
        )
        for topic in both
    ]
    protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
    by_id = [
        offset_commit.OffsetCommitRequestTopic(
            topic_id=names.topic_id, partitions=[offset_commit.OffsetCommitRequestPartition(0, 8)]
        )
    ]
    of_ids = offset_fetch.OffsetFetchRequestGroup(
        group,
        None,
        -1,
        [offset_fetch.OffsetFetchRequestTopics(topic_id=names.topic_id, partition_indexes=[0])],
    )
    of_other = offset_fetch.OffsetFetchRequestGroup(f"{group}-other", None, -1, grouped)

    def joins_with(**fields: object) -> Request:
        request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            f"{group}-new", "member", 0, rebalance_timeout_ms=5000, topic_partitions=[]
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    joins = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group, "member", 5, None, None, -1, None, None, None, None
    )
    return [
        (find_coordinator.FindCoordinatorRequest(group, 0), 2),
        (find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4),
        (
            join_group.JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", protocols),
            5,
        ),
        (sync_group.SyncGroupRequest(group, 1, "nobody"), 3),
        (heartbeat.HeartbeatRequest(group, 1, "nobody"), 3),
        (leave_group.LeaveGroupRequest(group, "nobody"), 2),
        (leave_group.LeaveGroupRequest(group, members=[leave_group.MemberIdentity("nobody")]), 4),
        (offset_commit.OffsetCommitRequest(group, -1, "", None, -1, committed), 8),
        (offset_fetch.OffsetFetchRequest(group, fetched), 5),
        (offset_fetch.OffsetFetchRequest(group, None), 5),
        (offset_fetch.OffsetFetchRequest(groups=[of_topics]), 8),
        (offset_fetch.OffsetFetchRequest(groups=[of_all]), 8),
        (offset_delete.OffsetDeleteRequest(group, dropped), 0),
        (describe_groups.DescribeGroupsRequest([group], True), 5),
        (consumer_group_describe.ConsumerGroupDescribeRequest([group], True), 1),
        (joins, 1),
        (joins_with(subscribed_topic_names=list(both)), 1),
        (joins_with(subscribed_topic_regex="nothing-.*-that-there-is"), 1),
        (offset_commit.OffsetCommitRequest(group, -1, "", None, -1, by_id), 10),
        (offset_fetch.OffsetFetchRequest(groups=[of_ids]), 10),
        (offset_fetch.OffsetFetchRequest(groups=[of_all, of_other]), 9),
        (list_groups.ListGroupsRequest(), 4),
        (delete_groups.DeleteGroupsRequest([group]), 2),
    ]


async def test_groups(compare_guarded: Compare) -> None:
    users = ("alice", "bob", "carol", "dave", "eve")
    await walk(compare_guarded, users, group_grants, group_cases)


def transaction_grants(names: Names) -> tuple[list[Grant], list[Grant]]:
    return [
        ("bob", Operation.WRITE, Resource.TRANSACTIONAL_ID, names.txn),
        ("carol", Operation.WRITE, Resource.TRANSACTIONAL_ID, names.txn),
        ("carol", Operation.WRITE, Resource.TOPIC, names.topic),
        ("carol", Operation.READ, Resource.TOPIC, names.topic),
        ("carol", Operation.READ, Resource.GROUP, names.group),
        ("dave", Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, names.txn),
        ("eve", Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME),
        ("eve", Operation.READ, Resource.GROUP, names.group),
    ], []


def transaction_cases(names: Names) -> list[Case]:
    both = (names.topic, names.missing)
    added = [add_partitions_to_txn.AddPartitionsToTxnTopic(topic, [0]) for topic in both]
    marked = [write_txn_markers.WritableTxnMarkerTopic(names.topic, [0])]
    commits = [
        txn_offset_commit.TxnOffsetCommitRequestTopic(
            topic, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(0, 7, -1, "")]
        )
        for topic in both
    ]
    verified = add_partitions_to_txn.AddPartitionsToTxnTransaction(names.txn, 1, 0, True, added)
    return [
        (find_coordinator.FindCoordinatorRequest(names.txn, 1), 2),
        (find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=[names.txn]), 4),
        (init_producer_id.InitProducerIdRequest(None, 60_000), 4),
        (init_producer_id.InitProducerIdRequest(names.txn, 60_000), 4),
        (
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=names.txn,
                v3_and_below_producer_id=99_999,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=added,
            ),
            3,
        ),
        (add_partitions_to_txn.AddPartitionsToTxnRequest([verified]), 4),
        (add_offsets_to_txn.AddOffsetsToTxnRequest(names.txn, 99_999, 0, names.group), 3),
        (
            txn_offset_commit.TxnOffsetCommitRequest(
                names.txn, names.group, 99_999, 0, topics=commits
            ),
            3,
        ),
        (end_txn.EndTxnRequest(names.txn, 99_999, 0, True), 3),
        (
            write_txn_markers.WriteTxnMarkersRequest(
                [write_txn_markers.WritableTxnMarker(77_777, 0, False, marked, 0)]
            ),
            1,
        ),
        (describe_transactions.DescribeTransactionsRequest([names.txn]), 0),
        (list_transactions.ListTransactionsRequest(), 0),
    ]


async def test_transactions(compare_guarded: Compare) -> None:
    users = ("alice", "bob", "carol", "dave", "eve")
    await walk(compare_guarded, users, transaction_grants, transaction_cases)


def admin_grants(names: Names) -> tuple[list[Grant], list[Grant]]:
    return [
        ("bob", Operation.CREATE, Resource.TOPIC, names.missing),
        ("bob", Operation.DESCRIBE, Resource.TOPIC, names.topic),
        ("bob", Operation.DESCRIBE_CONFIGS, Resource.TOPIC, names.topic),
        ("carol", Operation.CREATE, Resource.TOPIC, names.missing),
        ("carol", Operation.DESCRIBE_CONFIGS, Resource.TOPIC, names.missing),
        ("bob", Operation.DESCRIBE_CONFIGS, Resource.GROUP, names.group),
        ("carol", Operation.ALTER_CONFIGS, Resource.GROUP, names.group),
        ("carol", Operation.ALTER, Resource.TOPIC, names.topic),
        ("carol", Operation.ALTER_CONFIGS, Resource.TOPIC, names.topic),
    ], []


def admin_cases(names: Names) -> list[Case]:
    both = (names.topic, names.missing)
    topics = [create_topics.CreatableTopic(topic, 1, 1) for topic in both]
    states = [delete_topics.DeleteTopicState(names.missing)]
    unseen = [delete_topics.DeleteTopicState(None, names.topic_id)]
    grown = [create_partitions.CreatePartitionsTopic(topic, 2, None) for topic in both]
    topic_resource = 2
    broker_resource = 4
    resources = [(topic_resource, names.topic), (broker_resource, "0")]
    configs = [
        describe_configs.DescribeConfigsResource(*one, ["cleanup.policy"]) for one in resources
    ]
    altered = [
        alter_configs.AlterConfigsResource(
            topic_resource, topic, [alter_configs.AlterableConfig("retention.ms", "100000")]
        )
        for topic in both
    ]
    changed = [
        incremental_alter_configs.AlterConfigsResource(
            topic_resource,
            topic,
            [incremental_alter_configs.AlterableConfig("retention.ms", 0, "100000")],
        )
        for topic in both
    ]
    others = [
        describe_configs.DescribeConfigsResource(*one, ["consumer.session.timeout.ms"])
        for one in ((GROUP_RESOURCE, names.group), (topic_resource, names.missing))
    ]
    changed_others = [
        incremental_alter_configs.AlterConfigsResource(
            kind, name, [incremental_alter_configs.AlterableConfig(key, 0, value)]
        )
        for kind, name, key, value in (
            (GROUP_RESOURCE, names.group, "consumer.session.timeout.ms", "46000"),
            (broker_resource, "0", "log.cleaner.threads", "2"),
        )
    ]
    moved = [
        alter_partition_reassignments.ReassignableTopic(
            names.topic, [alter_partition_reassignments.ReassignablePartition(0, [0])]
        )
    ]
    quorum = describe_quorum.DescribeQuorumRequestTopicData(
        "__cluster_metadata", [describe_quorum.DescribeQuorumRequestPartitionData(0)]
    )
    dirs = alter_replica_log_dirs.AlterReplicaLogDir(
        "/nowhere", [alter_replica_log_dirs.AlterReplicaLogDirTopic(names.topic, [0])]
    )
    logs = [describe_log_dirs.DescribableLogDirTopic(names.topic, [0])]
    listed = [list_partition_reassignments.ListPartitionReassignmentsTopics(names.topic, [0])]
    elected = [elect_leaders.TopicPartitions(names.topic, [0])]
    return [
        (create_topics.CreateTopicsRequest(topics, 5000, True), 5),
        (create_topics.CreateTopicsRequest(topics, 5000, True), 7),
        (delete_topics.DeleteTopicsRequest(topic_names=list(both), timeout_ms=5000), 5),
        (delete_topics.DeleteTopicsRequest(states, timeout_ms=5000), 6),
        (delete_topics.DeleteTopicsRequest(unseen, timeout_ms=5000), 6),
        (create_partitions.CreatePartitionsRequest(grown, 5000, True), 3),
        (describe_configs.DescribeConfigsRequest(configs), 4),
        (alter_configs.AlterConfigsRequest(altered, True), 2),
        (incremental_alter_configs.IncrementalAlterConfigsRequest(changed, True), 1),
        (list_config_resources.ListConfigResourcesRequest(), 1),
        (describe_configs.DescribeConfigsRequest(others), 4),
        (incremental_alter_configs.IncrementalAlterConfigsRequest(changed_others, True), 1),
        (elect_leaders.ElectLeadersRequest(0, None, 5000), 2),
        (describe_cluster.DescribeClusterRequest(True), 1),
        (elect_leaders.ElectLeadersRequest(0, elected, 5000), 2),
        (
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(5000, topics=moved),
            0,
        ),
        (list_partition_reassignments.ListPartitionReassignmentsRequest(5000, listed), 0),
        (describe_log_dirs.DescribeLogDirsRequest(logs), 4),
        (alter_replica_log_dirs.AlterReplicaLogDirsRequest([dirs]), 2),
        (describe_quorum.DescribeQuorumRequest([quorum]), 1),
        (update_features.UpdateFeaturesRequest(5000, [], True), 1),
        (unregister_broker.UnregisterBrokerRequest(77), 0),
        (unregister_controller.UnregisterControllerRequest(77), 0),
    ]


async def test_admin(compare_guarded: Compare) -> None:
    await walk(compare_guarded, ("alice", "bob", "carol"), admin_grants, admin_cases)
