"""Groups are described, listed and deleted: coordinators, permissions, faults."""

from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFound,
    NonEmptyGroup,
    NotCoordinatorForGroupError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokafka_lite.protocol.messages.delete_groups import DeleteGroupsRequest
from aiokafka_lite.protocol.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest
from aiokafka_lite.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset
from aiokafka_lite.testing.security.acl_table import Acl, Operation, Pattern, Permission, Resource
from aiokafka_lite.testing.security.authorizer import Authorizer
from tests.unit.testing.groups.members import FakeMember
from tests.unit.testing.groups.reporters import FakeReporter
from tests.unit.testing.raw import SocketlessBroker


@pytest.fixture
def broker() -> SocketlessBroker:
    """A consumer group "new", a classic one "old", and "kept" of which only an offset is left."""
    broker = SocketlessBroker()
    broker.state.create_topic("t", 2)
    FakeReporter(broker, "m", "t", group="new").join()
    FakeMember(broker, "old").join()
    broker.state.groups.classic("kept").offsets.commit("t", 0, CommittedOffset(5))
    return broker


def allow(broker: SocketlessBroker, *allowed: tuple[Resource, str, Operation]) -> None:
    broker.state.authorizer = Authorizer()
    for resource, name, operation in allowed:
        broker.state.authorizer.acls.add(
            Acl(
                *(resource, name, Pattern.LITERAL, broker.session.principal, "*"),
                *(operation, Permission.ALLOW),
            )
        )


def test_groups_are_listed_by_their_coordinators() -> None:
    broker = SocketlessBroker(3)
    for number in range(6):
        broker.state.groups.classic(f"g{number}")
        broker.state.coordinators.move(CoordinatorType.GROUP, f"g{number}", number % 3)
    listed = [
        [group.group_id for group in broker.ask(ListGroupsRequest(), 5, node).groups]
        for node in range(3)
    ]
    assert listed == [["g0", "g3"], ["g1", "g4"], ["g2", "g5"]]
    (described,) = broker.ask(DescribeGroupsRequest(["g0"]), 6, 1).groups
    assert described.error_code == NotCoordinatorForGroupError.errno
    (described,) = broker.ask(ConsumerGroupDescribeRequest(["g0"]), 1, 1).groups
    assert described.error_code == NotCoordinatorForGroupError.errno
    (result,) = broker.ask(DeleteGroupsRequest(["g0"]), 2, 1).results
    assert result.error_code == NotCoordinatorForGroupError.errno


def test_listing_shows_groups_that_may_be_described(broker: SocketlessBroker) -> None:
    allow(broker, (Resource.GROUP, "new", Operation.DESCRIBE))
    assert [group.group_id for group in broker.ask(ListGroupsRequest(), 5).groups] == ["new"]
    allow(broker, (Resource.CLUSTER, "kafka-cluster", Operation.DESCRIBE))
    listed = broker.ask(ListGroupsRequest(), 5).groups
    assert [(group.group_id, group.group_type, group.protocol_type) for group in listed] == [
        ("new", "consumer", "consumer"),
        ("old", "classic", "consumer"),
        ("kept", "classic", ""),
    ]


def test_describing_needs_to_be_allowed(broker: SocketlessBroker) -> None:
    group = (Resource.GROUP, "new", Operation.DESCRIBE)
    allow(broker, group)
    described = broker.ask(ConsumerGroupDescribeRequest(["new", "other"]), 1).groups
    assert [each.error_code for each in described] == [
        TopicAuthorizationFailedError.errno,
        GroupAuthorizationFailedError.errno,
    ]
    assert described[0].members == []
    allow(broker, group, (Resource.TOPIC, "t", Operation.DESCRIBE))
    (described,) = broker.ask(ConsumerGroupDescribeRequest(["new"], True), 1).groups
    assert described.error_code == 0
    assert described.authorized_operations == 1 << Operation.DESCRIBE
    (described,) = broker.ask(DescribeGroupsRequest(["old"], True), 6).groups
    assert described.error_code == GroupAuthorizationFailedError.errno


def test_deleting_needs_to_be_allowed(broker: SocketlessBroker) -> None:
    allow(broker, (Resource.GROUP, "old", Operation.DELETE))
    results = broker.ask(DeleteGroupsRequest(["kept", "old", "old"]), 2).results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("kept", GroupAuthorizationFailedError.errno),
        ("old", NonEmptyGroup.errno),
    ]
    partitions = [OffsetDeleteRequestPartition(0)]
    request = OffsetDeleteRequest("kept", [OffsetDeleteRequestTopic("t", partitions)])
    assert broker.ask(request, 0).error_code == GroupAuthorizationFailedError.errno
    allow(broker, (Resource.GROUP, "kept", Operation.DELETE))
    (topic,) = broker.ask(request, 0).topics
    assert topic.partitions[0].error_code == TopicAuthorizationFailedError.errno
    assert broker.state.groups.offsets_of("kept").find("t", 0) is not None


def test_deleting_a_group_deletes_its_offsets(broker: SocketlessBroker) -> None:
    (result,) = broker.ask(DeleteGroupsRequest(["kept"]), 2).results
    assert result.error_code == 0
    assert broker.state.groups.get("kept") is None
    assert broker.state.groups.offsets_of("kept").find("t", 0) is None
    (result,) = broker.ask(DeleteGroupsRequest(["kept"]), 2).results
    assert result.error_code == GroupIdNotFound.errno


def test_a_cluster_without_the_new_protocol(broker: SocketlessBroker) -> None:
    broker.state.features.update("group.version", 0)
    (described,) = broker.ask(ConsumerGroupDescribeRequest(["new"]), 1).groups
    assert described.error_code == UnsupportedVersionError.errno


@pytest.mark.parametrize(
    ("request_", "version", "code_of"),
    [
        (ConsumerGroupDescribeRequest(["new"]), 1, lambda answer: answer.groups[0].error_code),
        (DescribeGroupsRequest(["old"]), 6, lambda answer: answer.groups[0].error_code),
        (ListGroupsRequest(), 5, lambda answer: answer.error_code),
        (DeleteGroupsRequest(["kept"]), 2, lambda answer: answer.results[0].error_code),
        (OffsetDeleteRequest("kept"), 0, lambda answer: answer.error_code),
    ],
)
def test_faults_strike(
    broker: SocketlessBroker, request_: Request, version: int, code_of: Callable[[Any], int]
) -> None:
    broker.fail_next(ApiKey(request_.api_key), 15)
    assert code_of(broker.ask(request_, version)) == 15
    assert code_of(broker.ask(request_, version)) == 0
    if isinstance(request_, DeleteGroupsRequest):
        assert broker.state.groups.get("kept") is None
