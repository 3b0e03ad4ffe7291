"""Share groups, mostly with responses that the tests build."""

import asyncio
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AclOperation,
    AIOKafkaAdminClient,
    FeatureUpdate,
    FeatureUpgradeType,
    ShareGroupOffset,
)
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFound,
    GroupLoadInProgressError,
    IllegalArgumentError,
    KafkaProtocolError,
    NonEmptyGroup,
    NotCoordinatorForGroupError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.error_table import assert_reactions, reactions

pytestmark = pytest.mark.unhurried

ONE, TWO, THREE = (TopicPartition("orders", number) for number in range(3))


def bodies(brokers: FakeCluster, api: ApiKey) -> list[Any]:
    return [seen.body for seen in brokers.requests if seen.api_key == api]


def described(request: Any) -> share_group_describe.ShareGroupDescribeResponse:
    """One member with two partitions in each group."""
    m = share_group_describe
    member = m.Member(
        "member-1",
        "rack-a",
        5,
        "client",
        "/host",
        ["orders"],
        m.Assignment([m.TopicPartitions(topic_name="orders", partitions=[0, 1])]),
    )
    return m.ShareGroupDescribeResponse(
        groups=[
            m.DescribedGroup(0, None, group, "Stable", 6, 5, "simple", [member], 1 << 3)
            for group in request.group_ids
        ]
    )


def offsets_of(request: Any) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponse:
    """Partition 0: offset 4, lag 2; partition 1: none; partition 2: an error."""
    m = describe_share_group_offsets
    parts = m.DescribeShareGroupOffsetsResponsePartition
    return m.DescribeShareGroupOffsetsResponse(
        groups=[
            m.DescribeShareGroupOffsetsResponseGroup(
                group.group_id,
                [
                    m.DescribeShareGroupOffsetsResponseTopic(
                        "orders",
                        partitions=[
                            parts(0, 4, 3, 2),
                            parts(1, -1, -1, -1),
                            parts(2, error_code=TopicAuthorizationFailedError.errno),
                        ],
                    )
                ],
            )
            for group in request.groups
        ]
    )


def altered(request: Any) -> alter_share_group_offsets.AlterShareGroupOffsetsResponse:
    m = alter_share_group_offsets
    return m.AlterShareGroupOffsetsResponse(
        responses=[
            m.AlterShareGroupOffsetsResponseTopic(
                topic.topic_name,
                partitions=[
                    m.AlterShareGroupOffsetsResponsePartition(
                        each.partition_index,
                        0 if topic.topic_name == "orders" else UnknownTopicOrPartitionError.errno,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def deleted(request: Any) -> delete_share_group_offsets.DeleteShareGroupOffsetsResponse:
    m = delete_share_group_offsets
    return m.DeleteShareGroupOffsetsResponse(
        responses=[
            m.DeleteShareGroupOffsetsResponseTopic(
                topic.topic_name,
                error_code=0
                if topic.topic_name == "orders"
                else UnknownTopicOrPartitionError.errno,
                error_message=None if topic.topic_name == "orders" else "no such topic",
            )
            for topic in request.topics
        ]
    )


async def test_share_groups_are_described(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, respond_with=described, times=None)
    results = await admin.describe_share_groups(
        [f"g-{number}" for number in range(6)], include_authorized_operations=True
    )
    assert list(results) == [f"g-{number}" for number in range(6)]
    found = results.value("g-1")
    assert (found.group_id, found.state, found.assignor) == ("g-1", "Stable", "simple")
    assert (found.group_epoch, found.assignment_epoch) == (6, 5)
    assert found.authorized_operations == {AclOperation.READ}
    assert found.coordinator_id == await admin.find_coordinator("g-1")
    [member] = found.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("member-1", "rack-a", 5)
    assert (member.client_id, member.host) == ("client", "/host")
    assert member.subscribed_topics == {"orders"}
    assert member.assignment == {ONE, TWO}
    assert len(bodies(brokers, ApiKey.SHARE_GROUP_DESCRIBE)) <= 3


async def test_the_error_of_a_share_group_leaves_the_others(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    for group in "abc":
        brokers.move_coordinator(group, 1)

    def mixed(request: Any) -> Any:
        response = described(request)
        for group in list(response.groups):
            if group.group_id == "b":
                group.error_code = GroupIdNotFound.errno
                group.error_message = "no such group"
            if group.group_id == "c":
                response.groups.remove(group)
            if group.group_id == "d":
                group.members[0].assignment.topic_partitions[0].partitions = [-1]  # type: ignore[union-attr]
        return response

    brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, respond_with=mixed, times=None)
    results = await admin.describe_share_groups(["a", "b", "c", "d"])
    assert list(results.valid()) == ["a"]
    with pytest.raises(GroupIdNotFound, match="group 'b': no such group"):
        results.value("b")
    with pytest.raises(KafkaProtocolError, match="group 'c': the response omits it"):
        results.value("c")
    with pytest.raises(KafkaProtocolError, match="negative partition"):
        results.value("d")


async def test_only_share_groups_with_a_retriable_error_are_requested_again(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    for group in "ab":
        brokers.move_coordinator(group, 1)

    def loading(request: Any) -> Any:
        response = described(request)
        response.groups[-1].error_code = GroupLoadInProgressError.errno
        return response

    brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, respond_with=loading, times=1)
    brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, respond_with=described, times=None)
    (await admin.describe_share_groups(["a", "b"])).raise_for_errors()
    asked = bodies(brokers, ApiKey.SHARE_GROUP_DESCRIBE)
    assert [body.group_ids for body in asked] == [["a", "b"], ["b"]]


async def test_a_moved_coordinator_is_looked_up_again(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    def moved(request: Any) -> Any:
        response = altered(request)
        response.error_code = NotCoordinatorForGroupError.errno
        return response

    await admin.find_coordinator("g")
    before = brokers.count(ApiKey.FIND_COORDINATOR)
    brokers.control(ApiKey.ALTER_SHARE_GROUP_OFFSETS, respond_with=moved)
    brokers.control(ApiKey.ALTER_SHARE_GROUP_OFFSETS, respond_with=altered)
    (await admin.alter_share_group_offsets("g", {ONE: 1})).raise_for_errors()
    assert brokers.count(ApiKey.FIND_COORDINATOR) == before + 1


async def test_share_group_offsets_are_listed(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, respond_with=offsets_of, times=None)
    results = await admin.list_share_group_offsets(["g"])
    found = results.value("g")
    assert found.valid() == {ONE: ShareGroupOffset(4, 3, 2), TWO: None}
    with pytest.raises(TopicAuthorizationFailedError, match="group 'g', partition orders-2"):
        found.value(THREE)
    four = TopicPartition("orders", 3)
    named = (await admin.list_share_group_offsets({"g": [ONE, four]})).value("g")
    assert named.value(ONE) == ShareGroupOffset(4, 3, 2)
    with pytest.raises(KafkaProtocolError, match="partition orders-3: the response omits it"):
        named.value(four)
    everything, some = bodies(brokers, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
    assert everything.groups[0].topics is None
    assert [(each.topic_name, each.partitions) for each in some.groups[0].topics] == [
        ("orders", [0, 3])
    ]


async def test_share_group_offsets_are_set(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(ApiKey.ALTER_SHARE_GROUP_OFFSETS, respond_with=altered)
    none = TopicPartition("none", 0)
    results = await admin.alter_share_group_offsets("g", {ONE: 4, TWO: 5, none: 6})
    assert results.valid() == {ONE: None, TWO: None}
    with pytest.raises(UnknownTopicOrPartitionError, match="partition none-0"):
        results.value(none)
    [body] = bodies(brokers, ApiKey.ALTER_SHARE_GROUP_OFFSETS)
    assert body.group_id == "g"
    assert [
        (topic.topic_name, each.partition_index, each.start_offset)
        for topic in body.topics
        for each in topic.partitions
    ] == [("orders", 0, 4), ("orders", 1, 5), ("none", 0, 6)]

    def busy(request: Any) -> Any:
        response = altered(request)
        response.error_code, response.error_message = NonEmptyGroup.errno, "it has members"
        return response

    brokers.control(ApiKey.ALTER_SHARE_GROUP_OFFSETS, respond_with=busy)
    with pytest.raises(NonEmptyGroup, match="group 'g': it has members"):
        await admin.alter_share_group_offsets("g", {ONE: 4})


async def test_share_group_offsets_are_deleted(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(ApiKey.DELETE_SHARE_GROUP_OFFSETS, respond_with=deleted)
    results = await admin.delete_share_group_offsets("g", ["orders", "none"])
    assert results.valid() == {"orders": None}
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'none': no such topic"):
        results.value("none")

    def unknown(request: Any) -> Any:
        return delete_share_group_offsets.DeleteShareGroupOffsetsResponse(
            error_code=GroupIdNotFound.errno
        )

    brokers.control(ApiKey.DELETE_SHARE_GROUP_OFFSETS, respond_with=unknown)
    with pytest.raises(GroupIdNotFound, match="group 'g'"):
        await admin.delete_share_group_offsets("g", ["orders"])
    brokers.control(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        respond_with=delete_share_group_offsets.DeleteShareGroupOffsetsResponse(),
    )
    results = await admin.delete_share_group_offsets("g", ["orders"])
    assert isinstance(results["orders"], KafkaProtocolError)


async def test_share_groups_are_deleted(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    (await admin.alter_consumer_group_offsets("g", {ONE: 1})).raise_for_errors()
    results = await admin.delete_share_groups(["g", "none"])
    assert results["g"] is None
    assert isinstance(results["none"], GroupIdNotFound)


async def test_brokers_without_share_groups() -> None:
    async with (
        FakeCluster(1, version="4.0") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        for call in (
            admin.describe_share_groups(["g"]),
            admin.list_share_group_offsets(["g"]),
            admin.alter_share_group_offsets("g", {ONE: 1}),
            admin.delete_share_group_offsets("g", ["orders"]),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"share groups requires Kafka 4\.1"):
                await call


async def test_brokers_that_have_share_groups_switched_off(admin: AIOKafkaAdminClient) -> None:
    off = FeatureUpdate(0, FeatureUpgradeType.SAFE_DOWNGRADE)
    (await admin.update_features({"share.version": off})).raise_for_errors()
    results = await admin.describe_share_groups(["g"])
    assert isinstance(results["g"], UnsupportedVersionError)
    with pytest.raises(UnsupportedVersionError):
        await admin.alter_share_group_offsets("g", {ONE: 1})


async def test_bad_arguments_send_nothing(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    before = len(brokers.requests)
    calls: list[tuple[Any, type[Exception]]] = [
        (lambda: admin.describe_share_groups("g"), TypeError),
        (lambda: admin.list_share_group_offsets("g"), TypeError),
        (lambda: admin.list_share_group_offsets({"g": [3]}), TypeError),  # type: ignore[list-item]
        (lambda: admin.alter_share_group_offsets("g", [ONE]), IllegalArgumentError),  # type: ignore[arg-type]
        (lambda: admin.alter_share_group_offsets("g", {ONE: -1}), IllegalArgumentError),
        (lambda: admin.alter_share_group_offsets(3, {ONE: 1}), TypeError),  # type: ignore[arg-type]
        (lambda: admin.delete_share_group_offsets("g", "orders"), TypeError),
        (lambda: admin.delete_share_groups("g"), TypeError),
    ]
    for call, error in calls:
        with pytest.raises(error):
            await call()
    assert len(brokers.requests) == before


async def test_a_cancelled_call_leaves_the_client_usable(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    fault = brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, delay=60)
    call = asyncio.create_task(admin.describe_share_groups(["g"]))
    await fault.struck()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    brokers.disconnect()
    brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, respond_with=described)
    (await admin.describe_share_groups(["g"])).raise_for_errors()


async def test_every_error_of_a_share_group(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    async def reaction_to(code: int) -> str:
        group = f"g-{code}"

        def failing(request: Any) -> Any:
            response = described(request)
            response.groups[0].error_code = code
            return response

        def names_it(request: Any) -> bool:
            return list(request.group_ids) == [group]

        brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, when=names_it, respond_with=failing)
        brokers.control(ApiKey.SHARE_GROUP_DESCRIBE, when=names_it, respond_with=described)
        outcome = (await admin.describe_share_groups([group]))[group]
        errno = getattr(outcome, "errno", None)
        return "is retried" if errno is None else f"fails with {errno}"

    retried = "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"
    table = reactions(otherwise="fails", **{"is retried": retried})
    await assert_reactions(
        {
            code: f"fails with {code}" if reaction == "fails" else reaction
            for code, reaction in table.items()
        },
        reaction_to,
    )


async def test_a_refused_group_is_an_error(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    def refused(request: Any) -> Any:
        response = offsets_of(request)
        response.groups[0].error_code = GroupAuthorizationFailedError.errno
        return response

    brokers.control(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, respond_with=refused)
    results = await admin.list_share_group_offsets(["g"])
    assert isinstance(results["g"], GroupAuthorizationFailedError)
