"""Groups of both protocols are described; groups are deleted, members removed."""

import asyncio
from itertools import chain
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.admin import (
    AclOperation,
    AIOKafkaAdminClient,
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupListing,
)
from aiokafka_lite.errors import (
    BrokerResponseError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFound,
    GroupLoadInProgressError,
    IllegalArgumentError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NonEmptyGroup,
    NotCoordinatorForGroupError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.error_table import assert_reactions, reactions

pytestmark = pytest.mark.unhurried

PARTITIONS = frozenset(TopicPartition("orders", number) for number in range(6))


def consumer(brokers: FakeCluster, group: str, **options: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders", bootstrap_servers=brokers.bootstrap_servers, group_id=group, **options
    )


async def commit(brokers: FakeCluster, *groups: str) -> None:
    """Leave committed offsets of groups without members."""
    for group in groups:
        async with AIOKafkaConsumer(
            bootstrap_servers=brokers.bootstrap_servers, group_id=group
        ) as committer:
            tp = TopicPartition("orders", 0)
            committer.assign([tp])
            await committer.commit({tp: 1})


def asked_of(brokers: FakeCluster, api: ApiKey, field: str) -> list[Any]:
    return [getattr(seen.body, field) for seen in brokers.requests if seen.api_key == api]


async def test_groups_of_both_protocols_are_described(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await commit(brokers, "simple")
    async with (
        consumer(brokers, "classic", client_id="one", group_instance_id="first"),
        consumer(brokers, "modern", client_id="two", group_protocol="consumer") as modern,
    ):
        await modern.getmany(timeout_ms=1)
        results = await admin.describe_consumer_groups(
            ["modern", "classic", "simple", "none"], typed=True, include_authorized_operations=True
        )
        assert list(results) == ["modern", "classic", "simple", "none"]
        classic, found = results.value("classic"), results.value("modern")

        assert (classic.type, classic.state, classic.is_simple) == ("classic", "Stable", False)
        [member] = classic.members
        assert (member.client_id, member.group_instance_id) == ("one", "first")
        assert member.assignment == PARTITIONS
        assert (member.member_epoch, member.upgraded) == (None, False)
        assert classic.coordinator_id == await admin.find_coordinator("classic")
        assert AclOperation.READ in (classic.authorized_operations or ())

        assert found.type == "consumer"
        [member] = found.members
        assert member.client_id == "two"
        assert member.upgraded is True
        assert member.subscribed_topics == {"orders"}
        assert member.target_assignment == PARTITIONS
        assert (member.member_epoch, found.group_epoch) == (found.assignment_epoch,) * 2
        assert AclOperation.READ in (found.authorized_operations or ())

    simple = results.value("simple")
    assert (simple.state, simple.is_simple, simple.members) == ("Empty", True, ())
    with pytest.raises(GroupIdNotFound, match="group 'none'"):
        results.value("none")


async def test_listed_groups_are_described_by_their_type(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await commit(brokers, "simple")
    async with consumer(brokers, "modern", group_protocol="consumer") as modern:
        await modern.getmany(timeout_ms=1)
        listed = (await admin.list_groups()).raise_for_errors()
        found = await admin.describe_consumer_groups([*listed, "none"], typed=True)
        assert {group: each.type for group, each in found.valid().items()} == {
            "simple": "classic",
            "modern": "consumer",
        }
        assert isinstance(found["none"], GroupIdNotFound)
        modern_ones = asked_of(brokers, ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids")
        assert sorted(chain.from_iterable(modern_ones)) == ["modern", "none"]
        classic_ones = asked_of(brokers, ApiKey.DESCRIBE_GROUPS, "groups")
        assert sorted(chain.from_iterable(classic_ones)) == ["none", "simple"]

        simple = [each for each in listed if each.group_id == "simple"]
        [response] = await admin.describe_consumer_groups(simple)
        assert [each.group for each in response.groups] == ["simple"]


@pytest.mark.parametrize("newest", [5, 6])
async def test_group_is_described_although_its_type_changed_since_it_was_listed(
    newest: int,
) -> None:
    """Version 5 of DescribeGroups reports a non-classic group as dead, version 6 as unknown."""
    async with (
        FakeCluster(
            1, {"orders": 6}, api_versions={ApiKey.DESCRIBE_GROUPS: (0, newest)}
        ) as brokers,
        AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers) as admin,
        consumer(brokers, "g", group_protocol="consumer") as member,
    ):
        await member.getmany(timeout_ms=1)
        outdated = [GroupListing(each, "consumer", "Empty", "classic") for each in ("g", "gone")]
        found = await admin.describe_consumer_groups(outdated, typed=True)
        assert found.value("g").type == "consumer"
        assert len(found.value("g").members) == 1
        if newest >= 6:
            assert isinstance(found["gone"], GroupIdNotFound)
        else:
            assert found.value("gone").state == "Dead"
        assert asked_of(brokers, ApiKey.DESCRIBE_GROUPS, "groups") == [["g", "gone"], ["gone"]]


@pytest.mark.parametrize(
    "disabled",
    [
        {"features": {"group.version": 0}},
        {"broker_configs": {"group.coordinator.rebalance.protocols": "classic"}},
    ],
    ids=["feature", "config"],
)
async def test_classic_groups_are_described_if_the_consumer_protocol_is_not_enabled(
    disabled: dict[str, Any],
) -> None:
    async with (
        FakeCluster(1, {"orders": 6}, **disabled) as brokers,
        AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers) as admin,
        consumer(brokers, "g", group_instance_id="first"),
    ):
        found = await admin.describe_consumer_groups(["g", "none"], typed=True)
        assert (found.value("g").type, found.value("g").state) == ("classic", "Stable")
        assert isinstance(found["none"], GroupIdNotFound)
        assert asked_of(brokers, ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids") == [["g", "none"]]
        removed = await admin.remove_members_from_consumer_group("g")
        assert removed.raise_for_errors() == {"first": None}


async def test_groups_that_are_no_ids_are_refused(admin: AIOKafkaAdminClient) -> None:
    for wrong in ("g", 5, None, [b"g"], [None]):
        for typed in (True, False):
            with pytest.raises(TypeError, match="group_ids"):
                await admin.describe_consumer_groups(wrong, typed=typed)  # type: ignore[call-overload]


async def test_groups_are_described_as_aiokafka_does(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await commit(brokers, "simple")
    async with consumer(brokers, "classic", client_id="one"):
        responses = await admin.describe_consumer_groups(["classic", "simple", "none"])
        groups = {group[1]: group for response in responses for group in response.groups}
        error_code, name, state, protocol_type, protocol, members, *_ = groups["classic"]
        assert (error_code, name, state, protocol_type) == (0, "classic", "Stable", "consumer")
        assert protocol
        [(member_id, client_id, host, metadata, assignment)] = members
        assert member_id.startswith("one")
        assert client_id == "one"
        assert host
        assert metadata
        assert assignment
        assert groups["none"].error_code == GroupIdNotFound.errno
        assert groups["simple"].state == "Empty"
        [alone] = await admin.describe_consumer_groups(
            ["classic"], await admin.find_coordinator("classic"), True
        )
        [group] = alone.to_object()["groups"]
        assert group["members"][0]["client_id"] == "one"
        assert group["authorized_operations"] > 0


async def test_a_broker_that_does_not_coordinate_the_group_is_an_error(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    other = (await admin.find_coordinator("g") + 1) % 3
    with pytest.raises(KafkaTimeoutError, match="group 'g'"):
        await admin.describe_consumer_groups(["g"], other, timeout_ms=200)


async def test_classic_groups_of_any_protocol_are_described(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    def connect(response: Any) -> None:
        response.groups[0].protocol_type = "connect"

    async with consumer(brokers, "g"), consumer(brokers, "modern", group_protocol="consumer"):
        brokers.control(ApiKey.DESCRIBE_GROUPS, after_handling=True, edit=connect, times=None)
        described = (await admin.describe_classic_groups(["g"])).value("g")
        assert isinstance(described, ClassicGroupDescription)
        assert (described.protocol_type, described.is_simple) == ("connect", False)
        assert described.members[0].metadata
        assert described.authorized_operations is None
        typed = await admin.describe_consumer_groups(["g"], typed=True)
        with pytest.raises(IllegalArgumentError, match="describe_classic_groups"):
            typed.value("g")
    missing = await admin.describe_classic_groups(["none"])
    assert isinstance(missing["none"], GroupIdNotFound)


async def test_an_unreadable_assignment_fails_only_its_group(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    def spoil(response: Any) -> None:
        for group in response.groups:
            if group.group_id == "bad":
                group.members[0].member_assignment = b"\x00\x00\xff"

    async with consumer(brokers, "good"), consumer(brokers, "bad"):
        brokers.control(ApiKey.DESCRIBE_GROUPS, after_handling=True, edit=spoil, times=None)
        results = await admin.describe_consumer_groups(["good", "bad"], typed=True)
        assert results.value("good").members[0].assignment == PARTITIONS
        with pytest.raises(KafkaProtocolError, match="group 'bad': the assignment of a member"):
            results.value("bad")


async def test_a_negative_partition_in_an_assignment_fails_the_group(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    def spoil(response: Any) -> None:
        response.groups[0].members[0].assignment.topic_partitions[0].partitions.append(-1)

    async with consumer(brokers, "g", group_protocol="consumer") as member:
        async with asyncio.timeout(20):
            while not member.assignment():
                await member.getmany(timeout_ms=10)
        brokers.control(ApiKey.CONSUMER_GROUP_DESCRIBE, after_handling=True, edit=spoil)
        results = await admin.describe_consumer_groups(["g"], typed=True)
        with pytest.raises(KafkaProtocolError, match="negative partition"):
            results.value("g")


async def test_a_group_that_the_response_leaves_out_fails(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(
        ApiKey.DESCRIBE_GROUPS,
        after_handling=True,
        edit=lambda response: response.groups.clear(),
        times=None,
    )
    for results in (
        await admin.describe_classic_groups(["g"]),
        await admin.describe_consumer_groups(["g"], typed=True),
    ):
        with pytest.raises(KafkaProtocolError, match="group 'g': the response omits it"):
            results.value("g")
    with pytest.raises(KafkaProtocolError, match="group 'g'"):
        await admin.describe_consumer_groups(["g"])


async def test_a_failure_of_the_fallback_keeps_what_was_described(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    async with consumer(brokers, "modern", group_protocol="consumer"):
        brokers.control(ApiKey.DESCRIBE_GROUPS, drop=True, times=None)
        results = await admin.describe_consumer_groups(
            ["modern", "classic"], typed=True, timeout_ms=500
        )
        assert results.value("modern").type == "consumer"
        assert isinstance(results["classic"], KafkaTimeoutError)


async def test_only_groups_with_a_retriable_error_are_requested_again(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await commit(brokers, "a", "b")
    node = await admin.find_coordinator("a")
    brokers.move_coordinator("b", node)

    def load(response: Any) -> None:
        for group in response.groups:
            if group.group_id == "b":
                group.error_code = GroupLoadInProgressError.errno

    brokers.control(ApiKey.DESCRIBE_GROUPS, after_handling=True, edit=load)
    results = await admin.describe_classic_groups(["a", "b"])
    assert {each.state for each in results.raise_for_errors().values()} == {"Empty"}
    assert asked_of(brokers, ApiKey.DESCRIBE_GROUPS, "groups") == [["a", "b"], ["b"]]

    brokers.control(ApiKey.DESCRIBE_GROUPS, after_handling=True, edit=load)
    responses = await admin.describe_consumer_groups(["a", "b"])
    assert sorted(group.group for each in responses for group in each.groups) == ["a", "b"]
    assert asked_of(brokers, ApiKey.DESCRIBE_GROUPS, "groups")[2:] == [["a", "b"], ["b"]]


@pytest.mark.parametrize("api", ["describe", "delete"])
async def test_a_moved_coordinator_is_looked_up_again(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, api: str
) -> None:
    await commit(brokers, "g")
    old = (await admin.describe_classic_groups(["g"])).value("g").coordinator_id
    assert old is not None
    brokers.move_coordinator("g", (old + 1) % 3)
    if api == "describe":
        again = (await admin.describe_classic_groups(["g"])).value("g")
        assert again.coordinator_id == (old + 1) % 3
    else:
        (await admin.delete_consumer_groups(["g"])).raise_for_errors()
    assert await admin.find_coordinator("g") == (old + 1) % 3


async def test_coordinators_are_found_by_type(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.move_coordinator("g", 2)
    assert await admin.find_coordinator("g") == 2
    brokers.move_coordinator("g", 1)
    assert await admin.find_coordinator("g", timeout_ms=5000) == 1  # never from the cache
    assert await admin.find_coordinator("tx", 1) in (0, 1, 2)
    brokers.control(ApiKey.FIND_COORDINATOR, error=GroupAuthorizationFailedError, times=None)
    with pytest.raises(GroupAuthorizationFailedError):
        await admin.find_coordinator("g")


async def test_groups_are_deleted(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    await commit(brokers, "a", "b")
    async with consumer(brokers, "busy"):
        results = await admin.delete_consumer_groups(["a", "busy", "none", "b"])
    assert list(results) == ["a", "busy", "none", "b"]
    assert results.valid() == {"a": None, "b": None}
    assert isinstance(results["busy"], NonEmptyGroup)
    assert isinstance(results["none"], GroupIdNotFound)
    assert "earlier attempt" not in str(results["none"])
    assert [each.group_id for each in (await admin.list_groups()).valid()] == ["busy"]


async def test_the_error_of_a_repeated_deletion_names_the_earlier_attempt(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await commit(brokers, "g")
    brokers.control(ApiKey.DELETE_GROUPS, after_handling=True, disconnect=True)
    results = await admin.delete_consumer_groups(["g"])
    with pytest.raises(GroupIdNotFound, match=r"earlier attempt .* may have deleted it"):
        results.value("g")


async def test_static_members_are_removed_by_instance_id(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    member = consumer(brokers, "g", group_instance_id="one")
    await member.start()
    await member.stop()  # a static member stays until its session times out
    results = await admin.remove_members_from_consumer_group("g", ["one", "two"], reason="test")
    assert results["one"] is None
    with pytest.raises(UnknownMemberIdError, match="member 'two' of group 'g'"):
        results.value("two")
    [leaving] = asked_of(brokers, ApiKey.LEAVE_GROUP, "members")
    assert [(each.member_id, each.group_instance_id, each.reason) for each in leaving] == [
        ("", "one", "test"),
        ("", "two", "test"),
    ]
    assert brokers.group("g").members == {}


async def test_all_members_are_removed(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    static = consumer(brokers, "g", group_instance_id="one")
    await static.start()
    await static.stop()
    results = await admin.remove_members_from_consumer_group("g")
    assert dict(results) == {"one": None}
    assert dict(await admin.remove_members_from_consumer_group("g")) == {}
    assert brokers.count(ApiKey.LEAVE_GROUP) == 1
    with pytest.raises(GroupIdNotFound):
        await admin.remove_members_from_consumer_group("none")


async def test_a_repeated_removal_names_the_earlier_attempt(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    static = consumer(brokers, "g", group_instance_id="one")
    await static.start()
    await static.stop()
    brokers.control(ApiKey.LEAVE_GROUP, after_handling=True, disconnect=True)
    results = await admin.remove_members_from_consumer_group("g", ["one"])
    with pytest.raises(UnknownMemberIdError, match=r"earlier attempt .* may have removed it"):
        results.value("one")


async def test_the_errors_of_members_are_final(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    def fence(response: Any) -> None:
        response.members[0].error_code = FencedInstanceIdError.errno

    brokers.control(ApiKey.LEAVE_GROUP, after_handling=True, edit=fence)
    results = await admin.remove_members_from_consumer_group("g", ["one"])
    assert isinstance(results["one"], FencedInstanceIdError)
    brokers.control(
        ApiKey.LEAVE_GROUP, after_handling=True, edit=lambda response: response.members.clear()
    )
    results = await admin.remove_members_from_consumer_group("g", ["one"])
    assert isinstance(results["one"], KafkaProtocolError)
    brokers.control(
        ApiKey.LEAVE_GROUP,
        after_handling=True,
        edit=lambda response: setattr(response, "error_code", GroupAuthorizationFailedError.errno),
    )
    with pytest.raises(GroupAuthorizationFailedError):
        await admin.remove_members_from_consumer_group("g", ["one"])


async def test_old_brokers_name_what_they_lack() -> None:
    async with (
        FakeCluster(1, version="1.0") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 1\.1"):
            await admin.delete_consumer_groups(["g"])
        with pytest.raises(
            UnsupportedVersionError, match=r"Removing members from a group requires Kafka 2\.4"
        ):
            await admin.remove_members_from_consumer_group("g", ["one"])
        for call in (
            admin.describe_consumer_groups(["g"], include_authorized_operations=True),
            admin.describe_consumer_groups(["g"], include_authorized_operations=True, typed=True),
            admin.describe_classic_groups(["g"], include_authorized_operations=True),
        ):
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 2\.3"):
                await call
        described = (await admin.describe_consumer_groups(["g"], typed=True)).value("g")
        assert (described.type, described.state) == ("classic", "Dead")
        assert isinstance(described, ConsumerGroupDescription)
        assert described.authorized_operations is None


async def test_a_reason_is_left_out_for_brokers_without_it() -> None:
    async with (
        FakeCluster(1, {"orders": 1}, version="3.1") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        results = await admin.remove_members_from_consumer_group("g", ["one"], reason="why")
        assert isinstance(results["one"], UnknownMemberIdError)


async def test_bad_arguments_send_nothing(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    before = len(brokers.requests)
    calls: list[tuple[Any, type[Exception]]] = [
        (lambda: admin.describe_consumer_groups("g"), TypeError),
        (lambda: admin.describe_consumer_groups([3]), TypeError),  # type: ignore[list-item]
        (lambda: admin.describe_consumer_groups(["g"], -1), IllegalArgumentError),
        (lambda: admin.describe_consumer_groups(["g"], 1, typed=True), IllegalArgumentError),
        (lambda: admin.describe_consumer_groups(["g"], None, "yes"), TypeError),  # type: ignore[call-overload]
        (lambda: admin.describe_classic_groups(3), TypeError),  # type: ignore[arg-type]
        (lambda: admin.find_coordinator("g", 3), IllegalArgumentError),
        (lambda: admin.find_coordinator("g", "0"), TypeError),  # type: ignore[arg-type]
        (lambda: admin.find_coordinator(b"g"), TypeError),  # type: ignore[arg-type]
        (lambda: admin.delete_consumer_groups("g"), TypeError),
        (lambda: admin.delete_consumer_groups(["g" * 40_000]), ValueError),
        (lambda: admin.remove_members_from_consumer_group("g", []), IllegalArgumentError),
        (lambda: admin.remove_members_from_consumer_group("g", "one"), TypeError),
        (lambda: admin.remove_members_from_consumer_group("g", reason=3), TypeError),  # type: ignore[arg-type]
    ]
    for call, error in calls:
        with pytest.raises(error):
            await call()
    assert len(brokers.requests) == before
    assert dict(await admin.delete_consumer_groups([])) == {}
    assert await admin.describe_consumer_groups([]) == []
    assert len(brokers.requests) == before


async def test_a_cancelled_call_leaves_the_client_usable(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await commit(brokers, "g")
    fault = brokers.control(ApiKey.DELETE_GROUPS, delay=60)
    call = asyncio.create_task(admin.delete_consumer_groups(["g"]))
    await fault.struck()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    brokers.disconnect()
    (await admin.delete_consumer_groups(["g"])).raise_for_errors()


RETRIED = "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"


@pytest.mark.parametrize("api", [ApiKey.DELETE_GROUPS, ApiKey.DESCRIBE_GROUPS])
async def test_every_error_of_a_group(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, api: ApiKey
) -> None:
    async def reaction_to(code: int) -> str:
        group = f"group-{api}-{code}"

        def fail(response: Any) -> None:
            items = response.results if api == ApiKey.DELETE_GROUPS else response.groups
            items[0].error_code = code

        def names_it(request: Any) -> bool:
            named = request.groups_names if api == ApiKey.DELETE_GROUPS else request.groups
            return list(named) == [group]

        fault = brokers.control(api, when=names_it, after_handling=True, edit=fail)
        results: Any
        if api == ApiKey.DELETE_GROUPS:
            results = await admin.delete_consumer_groups([group])
        else:
            results = await admin.describe_classic_groups([group])
        assert fault.hits == 1
        error = results[group]
        assert isinstance(error, BrokerResponseError)
        if error.errno == code and code != GroupIdNotFound.errno:
            assert isinstance(error, for_code(code))
            return "fails"
        assert isinstance(error, GroupIdNotFound)  # of the second request
        asked = asked_of(brokers, api, "groups_names" if api == ApiKey.DELETE_GROUPS else "groups")
        return "fails" if asked.count([group]) == 1 else "is retried"

    await assert_reactions(reactions(otherwise="fails", **{"is retried": RETRIED}), reaction_to)


async def test_errors_are_kafka_errors(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    brokers.control(ApiKey.DELETE_GROUPS, error=NotCoordinatorForGroupError, times=None)
    results = await admin.delete_consumer_groups(["g"], timeout_ms=300)
    error = results["g"]
    assert isinstance(error, KafkaError)
    assert "group 'g'" in str(error)
