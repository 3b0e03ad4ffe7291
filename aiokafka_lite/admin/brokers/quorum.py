"""Describes the controllers' quorum (KRaft), changes its voters, and unregisters nodes.

Source: DescribeQuorumRequest.json v1-v2, AddRaftVoterRequest.json v0-v1,
RemoveRaftVoterRequest.json v0, UnregisterBrokerRequest.json v0,
UnregisterControllerRequest.json v0, KIP-595, KIP-836, KIP-853, KIP-1312.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from aiokafka_lite._arguments import INT32, whole, wire_string
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import only_controller_errors, perhaps_ours
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.cluster.retry import ANY, CONTROLLER, Route, raise_error_code
from aiokafka_lite.errors import (
    BrokerIdNotRegisteredError,
    BrokerResponseError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    IllegalArgumentError,
    KafkaProtocolError,
    NotControllerError,
    RequestTimedOutError,
    VoterNotFoundError,
)
from aiokafka_lite.protocol.message import Request, RequestOf
from aiokafka_lite.protocol.messages import describe_quorum as wire
from aiokafka_lite.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from aiokafka_lite.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from aiokafka_lite.protocol.messages.unregister_broker import UnregisterBrokerRequest
from aiokafka_lite.protocol.messages.unregister_controller import UnregisterControllerRequest
from aiokafka_lite.protocol.primitives import ZERO_UUID

__all__ = [
    "QuorumInfo",
    "QuorumReplica",
    "RaftVoterEndpoint",
    "add_raft_voter",
    "describe_metadata_quorum",
    "remove_raft_voter",
    "unregister_broker",
    "unregister_controller",
]

_TOPIC: Final = "__cluster_metadata"
_OLDEST: Final = 1
"""The first version used: version 0 dates from KRaft's early access, and no broker that serves
clients has it."""


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    """An address of a controller.

    Args:
        name: Name of its listener, such as "CONTROLLER".

    Raises:
        TypeError: An argument has the wrong type.
        IllegalArgumentError: A value is empty or out of range.
    """

    name: str
    host: str
    port: int

    def __post_init__(self) -> None:
        for what in ("name", "host"):
            if not wire_string(what, getattr(self, what)):
                raise IllegalArgumentError(f"`{what}` is empty")
        whole("port", self.port, most=65535)


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or an observer of the metadata.

    Attributes:
        directory_id: Of its metadata directory; None if unknown, and before Kafka 3.9.
        log_end_offset: Where its log ends; None if unknown.
        last_fetch_timestamp: When the leader got its last fetch, in ms; None if unknown.
        last_caught_up_timestamp: When it last had everything the leader had, in ms; None if
            unknown.
    """

    replica_id: int
    directory_id: UUID | None
    log_end_offset: int | None
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The quorum of the cluster metadata.

    Attributes:
        leader_id: Node id of the active controller; None while there is none.
        high_watermark: Up to which offset the metadata is committed; None if unknown.
        voters: The controllers that vote.
        observers: Brokers, and controllers that do not vote.
        endpoints: The voters' addresses by node id; empty before Kafka 3.9.
    """

    leader_id: int | None
    leader_epoch: int
    high_watermark: int | None
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[RaftVoterEndpoint, ...]] = field(default_factory=dict)


async def describe_metadata_quorum(dispatcher: Dispatcher, timeout_ms: float | None) -> QuorumInfo:
    """See `AIOKafkaAdminClient.describe_metadata_quorum`."""
    deadline = dispatcher.deadline(timeout_ms)
    found: wire.DescribeQuorumResponsePartitionData | None = None

    def check(response: wire.DescribeQuorumResponse) -> None:
        nonlocal found
        raise_error_code(response)
        partitions = [
            (topic.topic_name, each) for topic in response.topics for each in topic.partitions
        ]
        if [(name, each.partition_index) for name, each in partitions] != [(_TOPIC, 0)]:
            raise KafkaProtocolError("the response does not describe the metadata quorum")
        [(_, found)] = partitions
        if found.error_code:
            raise item_error(found.error_code, "metadata quorum", found.error_message)

    partition = wire.DescribeQuorumRequestPartitionData(0)
    answer = await dispatcher.ask(
        wire.DescribeQuorumRequest(
            topics=[wire.DescribeQuorumRequestTopicData(_TOPIC, [partition])]
        ),
        ANY,
        deadline,
        check=check,
        oldest=_OLDEST,
        feature="Describing the metadata quorum",
    )
    assert found is not None  # check has set it, or the request failed
    return QuorumInfo(
        _known(found.leader_id),
        found.leader_epoch,
        _known(found.high_watermark),
        tuple(map(_replica, found.current_voters)),
        tuple(map(_replica, found.observers)),
        {node.node_id: tuple(map(_endpoint, node.listeners)) for node in answer.nodes},
    )


async def add_raft_voter(
    dispatcher: Dispatcher,
    voter_id: int,
    voter_directory_id: UUID,
    endpoints: Iterable[RaftVoterEndpoint],
    timeout_ms: float | None,
    *,
    cluster_id: str | None,
) -> None:
    """See `AIOKafkaAdminClient.add_raft_voter`."""
    deadline = dispatcher.deadline(timeout_ms)
    _check_voter(voter_id, voter_directory_id, cluster_id)
    listeners = []
    if not isinstance(endpoints, Iterable):
        raise TypeError(
            f"`endpoints` should be a collection of RaftVoterEndpoint objects, not {endpoints!r}"
        )
    for each in endpoints:
        if not isinstance(each, RaftVoterEndpoint):
            raise TypeError(f"`endpoints` should be RaftVoterEndpoint objects, not {each!r}")
        listeners.append(Listener(each.name, each.host, each.port))
    if not listeners:
        raise IllegalArgumentError("`endpoints` is empty: a voter needs an address")

    def build(version: int, pending: list[int]) -> AddRaftVoterRequest:
        return AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=dispatcher.broker_timeout_ms(deadline),
            voter_id=voter_id,
            voter_directory_id=voter_directory_id,
            listeners=listeners,
        )

    await _change(
        dispatcher,
        Outcomes([voter_id], "voter {}".format, retriable=only_controller_errors(False)),
        AddRaftVoterRequest,
        build,
        CONTROLLER,
        deadline,
        "Adding voters",
        (DuplicateVoterError, "added"),
    )


async def remove_raft_voter(
    dispatcher: Dispatcher,
    voter_id: int,
    voter_directory_id: UUID,
    timeout_ms: float | None,
    *,
    cluster_id: str | None,
) -> None:
    """See `AIOKafkaAdminClient.remove_raft_voter`."""
    deadline = dispatcher.deadline(timeout_ms)
    _check_voter(voter_id, voter_directory_id, cluster_id)
    await _change(
        dispatcher,
        Outcomes([voter_id], "voter {}".format, retriable=only_controller_errors(False)),
        RemoveRaftVoterRequest,
        lambda version, pending: RemoveRaftVoterRequest(cluster_id, voter_id, voter_directory_id),
        CONTROLLER,
        deadline,
        "Removing voters",
        (VoterNotFoundError, "removed"),
    )


async def unregister_broker(dispatcher: Dispatcher, node_id: int, timeout_ms: float | None) -> None:
    """See `AIOKafkaAdminClient.unregister_broker`."""
    deadline = dispatcher.deadline(timeout_ms)
    whole("node_id", node_id, most=INT32)
    outcomes: Outcomes[int, None] = Outcomes(
        [node_id],
        "broker {}".format,
        retriable=lambda error: isinstance(error, NotControllerError | RequestTimedOutError),
    )
    await _change(
        dispatcher,
        outcomes,
        UnregisterBrokerRequest,
        lambda version, pending: UnregisterBrokerRequest(node_id),
        ANY,
        deadline,
        "Unregistering brokers",
        (BrokerIdNotRegisteredError, "unregistered"),
    )


async def unregister_controller(
    dispatcher: Dispatcher, node_id: int, timeout_ms: float | None
) -> None:
    """See `AIOKafkaAdminClient.unregister_controller`."""
    deadline = dispatcher.deadline(timeout_ms)
    whole("node_id", node_id, most=INT32)
    outcomes: Outcomes[int, None] = Outcomes(
        [node_id],
        "controller {}".format,
        retriable=lambda error: isinstance(error, NotControllerError | RequestTimedOutError),
    )
    await _change(
        dispatcher,
        outcomes,
        UnregisterControllerRequest,
        lambda version, pending: UnregisterControllerRequest(node_id),
        ANY,
        deadline,
        "Unregistering controllers",
        (ControllerIdNotRegisteredError, "unregistered"),
    )


async def _change(
    dispatcher: Dispatcher,
    outcomes: Outcomes[int, None],
    request_class: type[Request],
    build: Any,
    route: Route,
    deadline: float,
    feature: str,
    repeated: tuple[type[BrokerResponseError], str],
) -> None:
    """Send a request about one node, and raise its error.

    Args:
        repeated: The error that a second attempt gets if the first one was carried out, and the
            effect of the first.
    """
    [node_id] = outcomes.pending

    def read(response: Any, outcomes: Outcomes[int, None]) -> None:
        message = response.error_message
        kind, done = repeated
        if response.error_code == kind.errno:
            message = perhaps_ours(outcomes, node_id, done, message)
        if not outcomes.on_code(node_id, response.error_code, message):
            outcomes.on_value(node_id, None)

    def build_request(version: int, pending: list[int]) -> RequestOf[Any]:
        request: RequestOf[Any] = build(version, pending)
        return request

    results = await dispatcher.settle(
        outcomes, request_class, build_request, read, route, deadline, feature=feature
    )
    results.raise_for_errors()


def _check_voter(voter_id: object, directory_id: object, cluster_id: object) -> None:
    whole("voter_id", voter_id, most=INT32)
    if not isinstance(directory_id, UUID):
        raise TypeError(f"`voter_directory_id` should be a UUID, not {directory_id!r}")
    if directory_id == ZERO_UUID:
        raise IllegalArgumentError("`voter_directory_id` is zero, the id of no directory")
    if cluster_id is not None:
        wire_string("cluster_id", cluster_id)


def _replica(answer: wire.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        answer.replica_id,
        None if answer.replica_directory_id == ZERO_UUID else answer.replica_directory_id,
        _known(answer.log_end_offset),
        _known(answer.last_fetch_timestamp),
        _known(answer.last_caught_up_timestamp),
    )


def _endpoint(answer: wire.Listener) -> RaftVoterEndpoint:
    try:
        return RaftVoterEndpoint(answer.name, answer.host, answer.port)
    except ValueError as error:
        raise KafkaProtocolError(f"metadata quorum: an address is invalid: {error}") from error


def _known(value: int) -> int | None:
    return None if value < 0 else value
