"""The metadata quorum and its voters; unregistering brokers and controllers."""

from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient, RaftVoterEndpoint
from aiokafka_lite.errors import (
    BrokerIdNotRegisteredError,
    ClusterAuthorizationFailedError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    IllegalArgumentError,
    InconsistentClusterIdError,
    KafkaProtocolError,
    NotControllerError,
    RequestTimedOutError,
    UnknownError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from aiokafka_lite.protocol.messages.add_raft_voter import AddRaftVoterResponse
from aiokafka_lite.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

DIRECTORY = UUID(int=7)
ENDPOINT = RaftVoterEndpoint("CONTROLLER", "controller.example", 9093)
CHANGES = {
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UNREGISTER_CONTROLLER,
}


async def test_the_quorum_is_described(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    def enrich(response: Any) -> None:
        partition = response.topics[0].partitions[0]
        partition.leader_id = -1
        partition.current_voters[0].replica_directory_id = DIRECTORY
        partition.current_voters[0].last_fetch_timestamp = -1

    quorum = await admin.describe_metadata_quorum()
    assert [each.replica_id for each in quorum.voters] == [0, 1, 2]
    assert quorum.leader_id in (0, 1, 2)
    assert quorum.high_watermark == quorum.voters[0].log_end_offset == 1
    assert quorum.voters[0].directory_id is None
    assert quorum.voters[0].last_fetch_timestamp is not None
    assert [each.name for each in quorum.endpoints[1]] == ["CONTROLLER"]
    brokers.control(ApiKey.DESCRIBE_QUORUM, after_handling=True, edit=enrich)
    quorum = await admin.describe_metadata_quorum()
    assert quorum.leader_id is None
    assert quorum.voters[0].directory_id == DIRECTORY
    assert quorum.voters[0].last_fetch_timestamp is None


async def test_errors_of_the_quorum_are_raised(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def empty(response: Any) -> None:
        response.topics.clear()

    def deny(response: Any) -> None:
        response.topics[0].partitions[0].error_code = ClusterAuthorizationFailedError.errno

    def nameless(response: Any) -> None:
        response.nodes[0].listeners[0].host = ""

    brokers.control(ApiKey.DESCRIBE_QUORUM, after_handling=True, edit=nameless)
    with pytest.raises(KafkaProtocolError, match=r"an address is invalid: .*`host` is empty"):
        await admin.describe_metadata_quorum()
    brokers.control(ApiKey.DESCRIBE_QUORUM, after_handling=True, edit=empty)
    with pytest.raises(KafkaProtocolError, match="does not describe the metadata quorum"):
        await admin.describe_metadata_quorum()
    brokers.control(ApiKey.DESCRIBE_QUORUM, after_handling=True, edit=deny)
    with pytest.raises(ClusterAuthorizationFailedError, match="metadata quorum"):
        await admin.describe_metadata_quorum()


async def test_voters_are_added_and_removed(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.ADD_RAFT_VOTER, respond_with=AddRaftVoterResponse())
    brokers.control(ApiKey.REMOVE_RAFT_VOTER, respond_with=RemoveRaftVoterResponse())
    await admin.add_raft_voter(3, DIRECTORY, [ENDPOINT])
    await admin.remove_raft_voter(2, DIRECTORY, cluster_id="the-cluster")
    added, removed = [seen.body for seen in brokers.requests if seen.api_key in CHANGES]
    assert (added.cluster_id, added.voter_id, added.voter_directory_id) == (None, 3, DIRECTORY)
    assert [(each.name, each.host, each.port) for each in added.listeners] == [
        ("CONTROLLER", "controller.example", 9093)
    ]
    assert added.timeout_ms > 1000
    assert (removed.cluster_id, removed.voter_id) == ("the-cluster", 2)
    assert removed.voter_directory_id == DIRECTORY


async def test_static_voters_cannot_be_changed(admin: AIOKafkaAdminClient) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"voter 3: .*kraft\.version"):
        await admin.add_raft_voter(3, DIRECTORY, [ENDPOINT])
    with pytest.raises(UnsupportedVersionError, match=r"voter 2: .*kraft\.version"):
        await admin.remove_raft_voter(2, DIRECTORY)
    with pytest.raises(InconsistentClusterIdError):
        await admin.remove_raft_voter(2, DIRECTORY, cluster_id="another")


async def test_a_repeated_change_says_that_it_may_have_been_made(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    for api_key, response in (
        (ApiKey.ADD_RAFT_VOTER, AddRaftVoterResponse(error_code=DuplicateVoterError.errno)),
        (ApiKey.REMOVE_RAFT_VOTER, RemoveRaftVoterResponse(error_code=VoterNotFoundError.errno)),
    ):
        brokers.control(api_key, disconnect=True)
        brokers.control(api_key, respond_with=response)
    with pytest.raises(DuplicateVoterError, match="may have added it"):
        await admin.add_raft_voter(3, DIRECTORY, [ENDPOINT])
    with pytest.raises(VoterNotFoundError, match="may have removed it"):
        await admin.remove_raft_voter(3, DIRECTORY)


async def test_retriable_errors_of_a_change_are_retried(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    for error in (NotControllerError, DuplicateVoterError):
        response = AddRaftVoterResponse(error_code=error.errno)
        brokers.control(ApiKey.ADD_RAFT_VOTER, respond_with=response)
    with pytest.raises(DuplicateVoterError) as raised:
        await admin.add_raft_voter(3, DIRECTORY, [ENDPOINT])
    assert "may have" not in str(raised.value)
    assert brokers.count(ApiKey.ADD_RAFT_VOTER) == 2
    timed_out = RemoveRaftVoterResponse(error_code=RequestTimedOutError.errno)
    brokers.control(ApiKey.REMOVE_RAFT_VOTER, respond_with=timed_out)
    with pytest.raises(RequestTimedOutError):
        await admin.remove_raft_voter(3, DIRECTORY)
    assert brokers.count(ApiKey.REMOVE_RAFT_VOTER) == 1


async def test_a_stopped_broker_is_unregistered(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.kill(2)
    brokers.control(ApiKey.UNREGISTER_BROKER, error=RequestTimedOutError.errno)
    await admin.unregister_broker(2)
    assert not brokers.state.nodes[2].registered
    assert brokers.count(ApiKey.UNREGISTER_BROKER) == 2
    with pytest.raises(BrokerIdNotRegisteredError, match="broker 2") as raised:
        await admin.unregister_broker(2)
    assert "may have" not in str(raised.value)
    brokers.control(ApiKey.UNREGISTER_BROKER, disconnect=True)
    with pytest.raises(BrokerIdNotRegisteredError, match="may have unregistered it"):
        await admin.unregister_broker(2)
    brokers.control(ApiKey.UNREGISTER_BROKER, error=UnknownError.errno)
    with pytest.raises(UnknownError, match="broker 1"):
        await admin.unregister_broker(1)


async def test_a_stopped_controller_is_unregistered(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.UNREGISTER_CONTROLLER, error=RequestTimedOutError.errno)
    await admin.unregister_controller(2)
    assert brokers.count(ApiKey.UNREGISTER_CONTROLLER) == 2
    with pytest.raises(ControllerIdNotRegisteredError, match="controller 77") as raised:
        await admin.unregister_controller(77)
    assert "may have" not in str(raised.value)
    brokers.control(ApiKey.UNREGISTER_CONTROLLER, disconnect=True)
    with pytest.raises(ControllerIdNotRegisteredError, match="may have unregistered it"):
        await admin.unregister_controller(77)


async def test_old_brokers_have_no_such_requests() -> None:
    async with (
        FakeCluster(1, version="2.6") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        for call, needed in (
            (admin.describe_metadata_quorum(), r"requires Kafka 3\.3 or newer"),
            (admin.add_raft_voter(3, DIRECTORY, [ENDPOINT]), r"requires Kafka 3\.9 or newer"),
            (admin.remove_raft_voter(3, DIRECTORY), r"requires Kafka 3\.9 or newer"),
            (admin.unregister_broker(3), r"requires Kafka 2\.8 or newer"),
            (admin.unregister_controller(3), r"requires Kafka 4\.4 or newer"),
        ):
            with pytest.raises(UnsupportedVersionError, match=needed):
                await call


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    call: Any = admin
    for arguments in (("3", DIRECTORY), (3, "x"), (3, None)):
        with pytest.raises(TypeError, match="voter_"):
            await call.add_raft_voter(*arguments, [ENDPOINT])
        with pytest.raises(TypeError, match="voter_"):
            await call.remove_raft_voter(*arguments)
    for wrong in ((-1, DIRECTORY), (3, UUID(int=0))):
        with pytest.raises(IllegalArgumentError, match="voter_"):
            await admin.remove_raft_voter(*wrong)
    for endpoints in (None, ["host:9093"], 3):
        with pytest.raises(TypeError, match="`endpoints`"):
            await call.add_raft_voter(3, DIRECTORY, endpoints)
    with pytest.raises(IllegalArgumentError, match="`endpoints` is empty"):
        await admin.add_raft_voter(3, DIRECTORY, [])
    with pytest.raises(TypeError, match="cluster_id"):
        await call.remove_raft_voter(3, DIRECTORY, cluster_id=1)
    with pytest.raises(IllegalArgumentError, match="`node_id`"):
        await admin.unregister_broker(-1)
    with pytest.raises(IllegalArgumentError, match="`node_id`"):
        await admin.unregister_controller(-1)
    endpoint: Any = RaftVoterEndpoint
    for bad in (("", "host", 1), ("C", "", 1), ("C", "host", 70_000)):
        with pytest.raises(IllegalArgumentError):
            endpoint(*bad)
    with pytest.raises(TypeError, match="port"):
        endpoint("C", "host", "1")
    assert not {seen.api_key for seen in brokers.requests} & CHANGES
