"""Committed offsets of groups are listed, set and deleted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFound,
    GroupLoadInProgressError,
    GroupSubscribedToTopicError,
    IllegalArgumentError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NotCoordinatorForGroupError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    UnsupportedVersionError,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.error_table import assert_reactions, reactions

pytestmark = pytest.mark.unhurried

ONE, TWO, THREE = (TopicPartition("orders", number) for number in range(3))
GROUPS = [f"group-{number}" for number in range(6)]


@pytest.fixture
async def offsets(admin: AIOKafkaAdminClient) -> None:
    for number, group in enumerate(GROUPS):
        wanted = {ONE: number, TWO: OffsetAndMetadata(7, "note", 3)}
        (await admin.alter_consumer_group_offsets(group, wanted)).raise_for_errors()


@pytest.fixture
async def old_brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(3, {"orders": 6}, version="2.8") as cluster:
        yield cluster


def versions(brokers: FakeCluster, api: ApiKey) -> list[int]:
    return [seen.version for seen in brokers.requests if seen.api_key == api]


@pytest.mark.usefixtures("offsets")
async def test_the_offsets_of_a_group_are_listed_as_aiokafka_does(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    assert await admin.list_consumer_group_offsets("group-3") == {
        ONE: OffsetAndMetadata(3, ""),
        TWO: OffsetAndMetadata(7, "note", 3),
    }
    node = await admin.find_coordinator("group-3")
    named = await admin.list_consumer_group_offsets("group-3", node, [THREE, ONE])
    assert named == {THREE: OffsetAndMetadata(-1, ""), ONE: OffsetAndMetadata(3, "")}
    assert await admin.list_consumer_group_offsets("none") == {}
    assert await admin.list_consumer_group_offsets("group-3", partitions=[]) == {}
    with pytest.raises(KafkaTimeoutError):
        await admin.list_consumer_group_offsets("group-3", (node + 1) % 3, timeout_ms=200)


@pytest.mark.usefixtures("offsets")
async def test_many_groups_are_listed_in_one_request_a_coordinator(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    results = await admin.list_consumer_groups_offsets([*GROUPS, "none"])
    assert list(results) == [*GROUPS, "none"]
    for number, group in enumerate(GROUPS):
        assert results.value(group).valid() == {
            ONE: OffsetAndMetadata(number, ""),
            TWO: OffsetAndMetadata(7, "note", 3),
        }
    assert dict(results.value("none")) == {}
    coordinators = {await admin.find_coordinator(group) for group in [*GROUPS, "none"]}
    assert brokers.count(ApiKey.OFFSET_FETCH) == len(coordinators)

    some = await admin.list_consumer_groups_offsets({"group-1": [ONE, THREE], "group-2": None})
    assert some.value("group-1").valid() == {ONE: OffsetAndMetadata(1, ""), THREE: None}
    assert set(some.value("group-2")) == {ONE, TWO}


async def test_groups_of_older_brokers_are_listed_one_by_one(old_brokers: FakeCluster) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=old_brokers.bootstrap_servers) as admin:
        for number, group in enumerate(GROUPS):
            (await admin.alter_consumer_group_offsets(group, {ONE: number})).raise_for_errors()
        old_brokers.control(
            ApiKey.OFFSET_FETCH,
            when=lambda request: request.group_id == "group-1",
            error=GroupAuthorizationFailedError,
            times=None,
        )
        results = await admin.list_consumer_groups_offsets(GROUPS)
        assert isinstance(results["group-1"], GroupAuthorizationFailedError)
        assert {group: found.value(ONE) for group, found in results.valid().items()} == {
            group: OffsetAndMetadata(number, "")
            for number, group in enumerate(GROUPS)
            if group != "group-1"
        }
        assert old_brokers.count(ApiKey.OFFSET_FETCH) == len(GROUPS)


async def test_options_need_newer_brokers() -> None:
    async with (
        FakeCluster(1, {"orders": 3}, version="0.10.1") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(
            UnsupportedVersionError, match=r"Listing all offsets of a group requires Kafka 0\.10\.2"
        ):
            await admin.list_consumer_group_offsets("g")
        with pytest.raises(UnsupportedVersionError, match=r"0\.10\.2"):
            await admin.list_consumer_groups_offsets(["g"])
        with pytest.raises(UnsupportedVersionError, match=r"require_stable requires Kafka 2\.5"):
            await admin.list_consumer_group_offsets("g", require_stable=True)
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.4"):
            await admin.delete_consumer_group_offsets("g", [ONE])
        (await admin.alter_consumer_group_offsets("g", {ONE: 4})).raise_for_errors()
        found = await admin.list_consumer_group_offsets("g", partitions=[ONE, TWO])
        assert [each.offset for each in found.values()] == [4, -1]


@pytest.mark.usefixtures("offsets")
async def test_the_error_of_a_partition_leaves_the_others(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def spoil(response: Any) -> None:
        [group] = response.groups
        for partition in group.topics[0].partitions:
            if partition.partition_index == 1:
                partition.error_code = TopicAuthorizationFailedError.errno

    brokers.control(ApiKey.OFFSET_FETCH, after_handling=True, edit=spoil, times=None)
    found = (await admin.list_consumer_groups_offsets(["group-1"])).value("group-1")
    assert found.valid() == {ONE: OffsetAndMetadata(1, "")}
    with pytest.raises(TopicAuthorizationFailedError, match="group 'group-1', partition orders-1"):
        found.value(TWO)
    with pytest.raises(TopicAuthorizationFailedError):
        await admin.list_consumer_group_offsets("group-1")


@pytest.mark.usefixtures("offsets")
async def test_a_partition_missing_from_the_response_fails(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    fault = brokers.control(
        ApiKey.OFFSET_FETCH,
        after_handling=True,
        edit=lambda response: [group.topics.clear() for group in response.groups],
    )
    found = (await admin.list_consumer_groups_offsets({"group-1": [ONE]})).value("group-1")
    with pytest.raises(KafkaProtocolError, match="partition orders-0: the response omits it"):
        found.value(ONE)
    assert fault.hits == 1
    brokers.control(
        ApiKey.OFFSET_FETCH, after_handling=True, edit=lambda response: response.groups.clear()
    )
    with pytest.raises(KafkaProtocolError, match="group 'group-1'"):
        (await admin.list_consumer_groups_offsets(["group-1"])).raise_for_errors()


@pytest.mark.usefixtures("offsets")
async def test_only_groups_with_a_retriable_error_are_requested_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    for group in GROUPS:
        brokers.move_coordinator(group, 1)

    def fail(response: Any) -> None:
        for group in response.groups:
            if group.group_id == "group-2":
                group.error_code = GroupLoadInProgressError.errno
            if group.group_id == "group-4":
                group.topics[0].partitions[0].error_code = UnstableOffsetCommitError.errno

    await admin.list_consumer_groups_offsets(GROUPS)  # finds the new coordinator
    before = len(brokers.requests)
    brokers.control(ApiKey.OFFSET_FETCH, after_handling=True, edit=fail)
    results = await admin.list_consumer_groups_offsets(GROUPS)
    assert results.raise_for_errors()["group-4"].value(ONE) == OffsetAndMetadata(4, "")
    asked: list[Any] = [
        seen.body for seen in brokers.requests[before:] if seen.api_key == ApiKey.OFFSET_FETCH
    ]
    assert [[group.group_id for group in body.groups] for body in asked] == [
        GROUPS,
        ["group-2", "group-4"],
    ]


@pytest.mark.usefixtures("offsets")
async def test_offsets_of_an_open_transaction_are_awaited(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    await admin.list_consumer_group_offsets("group-1", require_stable=True)
    await admin.list_consumer_groups_offsets(["group-1"], require_stable=True)
    await admin.list_consumer_group_offsets("group-1")
    sent: list[Any] = [
        seen.body for seen in brokers.requests if seen.api_key == ApiKey.OFFSET_FETCH
    ]
    assert [body.require_stable for body in sent] == [True, True, False]


async def test_offsets_are_set(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    results = await admin.alter_consumer_group_offsets(
        "g",
        {
            ONE: 4,
            TWO: (5, "why"),
            THREE: OffsetAndMetadata(6, "x" * 5000),
            TopicPartition("none", 0): 1,
        },
    )
    assert results.valid() == {ONE: None, TWO: None}
    assert isinstance(results[THREE], OffsetMetadataTooLargeError)
    with pytest.raises(UnknownTopicOrPartitionError, match="group 'g', partition none-0"):
        results.value(TopicPartition("none", 0))
    assert brokers.committed("g") == {ONE: 4, TWO: 5}


async def test_offsets_of_one_group_are_copied_to_another(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    (await admin.alter_consumer_group_offsets("g", {ONE: 5, TWO: (7, "x")})).raise_for_errors()
    for group in ("g", "none"):
        offsets = (await admin.list_consumer_groups_offsets([group])).value(group)
        (await admin.alter_consumer_group_offsets(f"copy of {group}", offsets)).raise_for_errors()
    assert brokers.committed("copy of g") == {ONE: 5, TWO: 7}
    assert brokers.committed("copy of none") == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_offsets_of_a_group_with_members_stay(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, protocol: str
) -> None:
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=brokers.bootstrap_servers,
        group_id="g",
        group_protocol=protocol,
        enable_auto_commit=False,
    ) as member:
        await member.getmany(timeout_ms=1)
        results = await admin.alter_consumer_group_offsets("g", {ONE: 4})
        with pytest.raises(UnknownMemberIdError, match="stop them before you change"):
            results.value(ONE)
        await member.commit({ONE: 1})
        deleted = await admin.delete_consumer_group_offsets("g", [ONE])
        assert isinstance(deleted[ONE], GroupSubscribedToTopicError)
    assert brokers.committed("g") == {ONE: 1}


@pytest.mark.usefixtures("offsets")
async def test_offsets_are_deleted(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    results = await admin.delete_consumer_group_offsets(
        "group-2", [ONE, THREE, TopicPartition("none", 0)]
    )
    assert results[ONE] is None
    assert isinstance(results[TopicPartition("none", 0)], UnknownTopicOrPartitionError)
    assert brokers.committed("group-2") == {TWO: 7}
    with pytest.raises(GroupIdNotFound):
        await admin.delete_consumer_group_offsets("none", [ONE])


async def test_partitions_that_a_change_leaves_out_fail(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def cut(response: Any) -> None:
        response.topics[0].partitions.pop()

    brokers.control(ApiKey.OFFSET_COMMIT, after_handling=True, edit=cut)
    results = await admin.alter_consumer_group_offsets("g", {ONE: 4, TWO: 5})
    assert [type(results[tp]) for tp in (ONE, TWO)] == [type(None), KafkaProtocolError]
    brokers.control(ApiKey.OFFSET_DELETE, after_handling=True, edit=cut)
    results = await admin.delete_consumer_group_offsets("g", [ONE, TWO])
    assert [type(results[tp]) for tp in (ONE, TWO)] == [type(None), KafkaProtocolError]


async def test_only_partitions_with_a_retriable_error_are_sent_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def fail(response: Any) -> None:
        response.topics[0].partitions[1].error_code = NotCoordinatorForGroupError.errno

    brokers.control(ApiKey.OFFSET_COMMIT, after_handling=True, edit=fail)
    (await admin.alter_consumer_group_offsets("g", {ONE: 4, TWO: 5})).raise_for_errors()
    sent: list[Any] = [
        seen.body for seen in brokers.requests if seen.api_key == ApiKey.OFFSET_COMMIT
    ]
    assert [
        [each.partition_index for topic in body.topics for each in topic.partitions]
        for body in sent
    ] == [[0, 1], [1]]


@pytest.mark.usefixtures("offsets")
async def test_a_moved_coordinator_is_looked_up_again(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    for change in ("alter", "list", "many", "delete"):
        node = (await admin.find_coordinator("group-2") + 1) % 3
        brokers.move_coordinator("group-2", node)
        if change == "alter":
            (await admin.alter_consumer_group_offsets("group-2", {ONE: 9})).raise_for_errors()
        elif change == "list":
            assert (await admin.list_consumer_group_offsets("group-2"))[ONE].offset == 9
        elif change == "many":
            (await admin.list_consumer_groups_offsets(["group-2"])).raise_for_errors()
        else:
            (await admin.delete_consumer_group_offsets("group-2", [ONE])).raise_for_errors()
    assert brokers.committed("group-2") == {TWO: 7}


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    before = len(brokers.requests)
    calls: list[tuple[Any, type[Exception]]] = [
        (lambda: admin.list_consumer_group_offsets(3), TypeError),  # type: ignore[arg-type]
        (lambda: admin.list_consumer_group_offsets("g", -1), IllegalArgumentError),
        (lambda: admin.list_consumer_group_offsets("g", partitions=["orders"]), TypeError),  # type: ignore[list-item]
        (lambda: admin.list_consumer_group_offsets("g", require_stable=1), TypeError),  # type: ignore[arg-type]
        (lambda: admin.list_consumer_groups_offsets("g"), TypeError),
        (lambda: admin.list_consumer_groups_offsets({"g": [3]}), TypeError),  # type: ignore[list-item]
        (lambda: admin.alter_consumer_group_offsets("g", [ONE]), ValueError),  # type: ignore[arg-type]
        (lambda: admin.alter_consumer_group_offsets("g", {ONE: -1}), ValueError),
        (lambda: admin.alter_consumer_group_offsets("g", {"orders": 1}), TypeError),  # type: ignore[dict-item]
        (lambda: admin.delete_consumer_group_offsets("g", 3), TypeError),  # type: ignore[arg-type]
    ]
    for call, error in calls:
        with pytest.raises(error):
            await call()
    assert dict(await admin.list_consumer_groups_offsets([])) == {}
    assert dict(await admin.alter_consumer_group_offsets("g", {})) == {}
    assert len(brokers.requests) == before


async def test_a_cancelled_listing_leaves_the_client_usable(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    fault = brokers.control(ApiKey.OFFSET_FETCH, delay=60)
    call = asyncio.create_task(admin.list_consumer_groups_offsets(["g"]))
    await fault.struck()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    brokers.disconnect()
    assert dict((await admin.list_consumer_groups_offsets(["g"])).value("g")) == {}


async def test_every_error_of_a_committed_partition(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    async def reaction_to(code: int) -> str:
        group = f"group-{code}"

        def fail(response: Any) -> None:
            response.topics[0].partitions[0].error_code = code

        brokers.control(
            ApiKey.OFFSET_COMMIT,
            when=lambda request: request.group_id == group,
            after_handling=True,
            edit=fail,
        )
        outcome = (await admin.alter_consumer_group_offsets(group, {ONE: 4}))[ONE]
        if code == UnknownMemberIdError.errno:
            assert "active members" in str(outcome)
        return "is retried" if outcome is None else "fails"

    # As Java's AlterConsumerGroupOffsetsHandler.
    retried = "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR "
    retried += "REBALANCE_IN_PROGRESS"
    await assert_reactions(reactions(otherwise="fails", **{"is retried": retried}), reaction_to)


async def test_offsets_of_many_groups_take_requests_of_limited_size(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    names = [f"group-{number}" for number in range(1100)]
    await admin.alter_consumer_group_offsets(names[777], {TopicPartition("orders", 3): 5})
    before = brokers.count(ApiKey.FIND_COORDINATOR)
    found = await admin.list_consumer_groups_offsets(names)
    assert list(found) == names
    valid = {name: dict(each) for name, each in found.valid().items() if each}
    assert list(valid) == [names[777]]
    assert brokers.count(ApiKey.FIND_COORDINATOR) - before == 3  # of 500 keys
    # Each of three coordinators has a third of the groups, in requests of 250.
    fetches = [seen.node_id for seen in brokers.requests if seen.api_key is ApiKey.OFFSET_FETCH]
    assert sorted(fetches.count(node_id) for node_id in set(fetches)) == [2, 2, 2]
