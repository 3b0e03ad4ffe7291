"""Every error code of the requests about groups and transactions, against Java's admin client.

Java's tables are the switches of its handlers in kafka-clients 4.4.0, package
org.apache.kafka.clients.admin.internals: `RemoveMembersFromConsumerGroupHandler`,
`ListConsumerGroupOffsetsHandler`, `DeleteConsumerGroupOffsetsHandler`,
`ListShareGroupOffsetsHandler`, `AlterShareGroupOffsetsHandler`, `DeleteShareGroupOffsetsHandler`,
`FenceProducersHandler`, `AbortTransactionHandler`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite.admin import AbortTransactionSpec, AIOKafkaAdminClient
from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    init_producer_id,
    leave_group,
    offset_delete,
    offset_fetch,
    write_txn_markers,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.error_table import assert_reactions, reactions

pytestmark = pytest.mark.unhurried

COORDINATOR = "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"
SETTLING = f"{COORDINATOR} REBALANCE_IN_PROGRESS"
MOVED = (
    "NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE BROKER_NOT_AVAILABLE UNKNOWN_TOPIC_OR_PARTITION"
)
ONE = TopicPartition("orders", 0)

Call = Callable[[AIOKafkaAdminClient, str], Awaitable[Any]]
"""Calls the client about a group or transactional id; returns or raises the outcome of one item."""
Answer = Callable[[Any, int, int], Any]
"""The response to a request, with an error code for all of it and one for its only item."""


# --- each request: its caller, and its response


def left(request: Any, whole: int, item: int) -> Any:
    m = leave_group
    return m.LeaveGroupResponse(
        error_code=whole, members=[m.MemberResponse("", "member", item)] if not whole else []
    )


async def remove(admin: AIOKafkaAdminClient, group: str) -> object:
    return (await admin.remove_members_from_consumer_group(group, ["member"]))["member"]


def fetched(request: Any, whole: int, item: int) -> Any:
    m = offset_fetch
    partition = m.OffsetFetchResponsePartitions(0, 4, error_code=item, metadata="")
    topics = [] if whole else [m.OffsetFetchResponseTopics("orders", partitions=[partition])]
    [group] = request.groups
    return m.OffsetFetchResponse(groups=[m.OffsetFetchResponseGroup(group.group_id, topics, whole)])


async def fetch(admin: AIOKafkaAdminClient, group: str) -> object:
    found = (await admin.list_consumer_groups_offsets({group: [ONE]})).value(group)
    return found[ONE]


def deleted(request: Any, whole: int, item: int) -> Any:
    m = offset_delete
    topic = m.OffsetDeleteResponseTopic("orders", [m.OffsetDeleteResponsePartition(0, item)])
    return m.OffsetDeleteResponse(whole, topics=[] if whole else [topic])


async def delete(admin: AIOKafkaAdminClient, group: str) -> object:
    return (await admin.delete_consumer_group_offsets(group, [ONE]))[ONE]


def share_listed(request: Any, whole: int, item: int) -> Any:
    m = describe_share_group_offsets
    partition = m.DescribeShareGroupOffsetsResponsePartition(0, 4, 3, 2, error_code=item)
    topic = m.DescribeShareGroupOffsetsResponseTopic("orders", partitions=[partition])
    [group] = request.groups
    return m.DescribeShareGroupOffsetsResponse(
        groups=[
            m.DescribeShareGroupOffsetsResponseGroup(
                group.group_id, [] if whole else [topic], error_code=whole
            )
        ]
    )


async def share_list(admin: AIOKafkaAdminClient, group: str) -> object:
    return (await admin.list_share_group_offsets([group])).value(group)[ONE]


def share_altered(request: Any, whole: int, item: int) -> Any:
    m = alter_share_group_offsets
    partition = m.AlterShareGroupOffsetsResponsePartition(0, item)
    topic = m.AlterShareGroupOffsetsResponseTopic("orders", partitions=[partition])
    return m.AlterShareGroupOffsetsResponse(error_code=whole, responses=[] if whole else [topic])


async def share_alter(admin: AIOKafkaAdminClient, group: str) -> object:
    return (await admin.alter_share_group_offsets(group, {ONE: 4}))[ONE]


def share_deleted(request: Any, whole: int, item: int) -> Any:
    m = delete_share_group_offsets
    topic = m.DeleteShareGroupOffsetsResponseTopic("orders", error_code=item)
    return m.DeleteShareGroupOffsetsResponse(error_code=whole, responses=[] if whole else [topic])


async def share_delete(admin: AIOKafkaAdminClient, group: str) -> object:
    return (await admin.delete_share_group_offsets(group, ["orders"]))["orders"]


def initialized(request: Any, whole: int, item: int) -> Any:
    return init_producer_id.InitProducerIdResponse(
        error_code=whole, producer_id=-1 if whole else 7, producer_epoch=-1 if whole else 3
    )


async def fence(admin: AIOKafkaAdminClient, transactional_id: str) -> object:
    return (await admin.fence_producers([transactional_id]))[transactional_id]


def marked(request: Any, whole: int, item: int) -> Any:
    m = write_txn_markers
    partition = m.WritableTxnMarkerPartitionResult(0, item)
    topic = m.WritableTxnMarkerTopicResult("orders", [partition])
    [marker] = request.markers
    return m.WriteTxnMarkersResponse([m.WritableTxnMarkerResult(marker.producer_id, [topic])])


async def abort(admin: AIOKafkaAdminClient, name: str) -> object:
    return await admin.abort_transaction(AbortTransactionSpec(ONE, int(name.split("-")[1]), 0))


def names_group(request: Any, name: str) -> bool:
    return bool(request.group_id == name)


def names_groups(request: Any, name: str) -> bool:
    return [each.group_id for each in request.groups] == [name]


def names_id(request: Any, name: str) -> bool:
    return bool(request.transactional_id == name)


def names_producer(request: Any, name: str) -> bool:
    return f"one-{request.markers[0].producer_id}" == name


TABLES: list[tuple[str, ApiKey, Call, Answer, Callable[[Any, str], bool], bool, str]] = [
    ("members", ApiKey.LEAVE_GROUP, remove, left, names_group, True, COORDINATOR),
    ("a member", ApiKey.LEAVE_GROUP, remove, left, names_group, False, ""),
    # Java leaves a partition with an error out of its result; here it fails or is awaited. A group
    # that a broker is too old for is requested alone, as from brokers before 3.0.
    (
        "offsets of a group",
        *(ApiKey.OFFSET_FETCH, fetch, fetched, names_groups, True),
        f"{COORDINATOR} UNSTABLE_OFFSET_COMMIT UNSUPPORTED_VERSION",
    ),
    (
        "an offset",
        *(ApiKey.OFFSET_FETCH, fetch, fetched, names_groups, False),
        f"{COORDINATOR} UNSTABLE_OFFSET_COMMIT",
    ),
    ("deleting offsets", ApiKey.OFFSET_DELETE, delete, deleted, names_group, True, COORDINATOR),
    ("deleting an offset", ApiKey.OFFSET_DELETE, delete, deleted, names_group, False, ""),
    (
        "offsets of a share group",
        *(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, share_list, share_listed, names_groups, True),
        COORDINATOR,
    ),
    (
        "an offset of a share group",
        *(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, share_list, share_listed, names_groups, False),
        "",
    ),
    (
        "altering share offsets",
        *(ApiKey.ALTER_SHARE_GROUP_OFFSETS, share_alter, share_altered, names_group, True),
        SETTLING,
    ),
    (
        "altering a share offset",
        *(ApiKey.ALTER_SHARE_GROUP_OFFSETS, share_alter, share_altered, names_group, False),
        "",
    ),
    (
        "deleting share offsets",
        *(ApiKey.DELETE_SHARE_GROUP_OFFSETS, share_delete, share_deleted, names_group, True),
        SETTLING,
    ),
    (
        "deleting share offsets of a topic",
        *(ApiKey.DELETE_SHARE_GROUP_OFFSETS, share_delete, share_deleted, names_group, False),
        "",
    ),
    (
        "fencing",
        *(ApiKey.INIT_PRODUCER_ID, fence, initialized, names_id, True),
        f"{COORDINATOR} CONCURRENT_TRANSACTIONS",
    ),
    ("aborting", ApiKey.WRITE_TXN_MARKERS, abort, marked, names_producer, False, MOVED),
]


@pytest.mark.parametrize(
    ("api", "call", "answer", "names", "whole", "retried"),
    [row[1:] for row in TABLES],
    ids=[row[0] for row in TABLES],
)
async def test_every_error_code_gets_javas_reaction(
    brokers: FakeCluster,
    admin: AIOKafkaAdminClient,
    api: ApiKey,
    call: Call,
    answer: Answer,
    names: Callable[[Any, str], bool],
    whole: bool,
    retried: str,
) -> None:
    async def reaction_to(code: int) -> str:
        name = f"one-{code & 0xFFFF}"

        def failing(request: Any) -> Any:
            return answer(request, code if whole else 0, 0 if whole else code)

        def mine(request: Any) -> bool:
            return names(request, name)

        first = brokers.control(api, when=mine, respond_with=failing)
        second = brokers.control(api, when=mine, respond_with=lambda request: answer(request, 0, 0))
        try:
            outcome = await call(admin, name)
        except BrokerResponseError as error:
            outcome = error
        assert first.hits == 1
        if isinstance(outcome, BrokerResponseError):
            assert second.hits == 0
            second.remove()
            return f"fails with {outcome.errno}"
        assert second.hits == 1
        return "is retried"

    table = reactions(otherwise="fails", **{"is retried": retried})
    await assert_reactions(
        {
            code: f"fails with {code}" if reaction == "fails" else reaction
            for code, reaction in table.items()
        },
        reaction_to,
    )
