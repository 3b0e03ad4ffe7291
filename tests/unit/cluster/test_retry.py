"""The retry loop: retriable errors, routes, and early ends."""

from __future__ import annotations

import asyncio

import pytest

from aiokafka_lite.cluster import retry
from aiokafka_lite.cluster.broker import PerVersion, Purpose
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import (
    ANY,
    CONTROLLER,
    CoordinatorOf,
    LeaderOf,
    ToNode,
    call,
    raise_error_code,
)
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    GroupLoadInProgressError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    UnknownError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.registry import ApiKey


@pytest.fixture
def script():
    """Make a cluster answer ListGroups with these codes in turn, then always with the last one.

    Returns the node ids in the order of the requests.
    """

    def scripted(kafka, *codes, by_node=None):
        asked = []

        def answer(broker, request, version):
            asked.append(broker.node_id)
            if by_node is not None:
                return ListGroupsResponse(error_code=by_node(broker.node_id))
            return ListGroupsResponse(error_code=codes[min(len(asked), len(codes)) - 1])

        kafka.answers[ApiKey.LIST_GROUPS] = answer
        return asked

    return scripted


class TestErrors:
    @pytest.mark.parametrize(
        "codes",
        [
            pytest.param((0,), id="none"),
            pytest.param((14, 0), id="COORDINATOR_LOAD_IN_PROGRESS"),
            pytest.param((15, 0), id="COORDINATOR_NOT_AVAILABLE"),
            pytest.param((7, 0), id="REQUEST_TIMED_OUT"),
            pytest.param((3, 5, 6, 0), id="a topic that KRaft has just made"),
            pytest.param((13, 41, 56, 0), id="several"),
        ],
    )
    async def test_retriable_errors_are_retried(self, codes, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka()
        asked = script(kafka, *codes)
        cluster = cluster_of(kafka)
        await cluster.start()
        response = await call(cluster, ListGroupsRequest(), ANY, soon())
        assert response.error_code == 0
        assert len(asked) == len(codes)

    @pytest.mark.parametrize(
        ("codes", "error"),
        [
            ((31,), ClusterAuthorizationFailedError),
            ((14, 31), ClusterAuthorizationFailedError),
            ((-1,), UnknownError),
            ((30_000,), UnknownError),
        ],
    )
    async def test_lasting_errors_are_raised_at_once(
        self, codes, error, tiny_kafka, cluster_of, soon, script
    ):
        kafka = await tiny_kafka()
        asked = script(kafka, *codes)
        cluster = cluster_of(kafka)
        await cluster.start()
        with pytest.raises(error, match="ListGroups"):
            await call(cluster, ListGroupsRequest(), ANY, soon())
        assert len(asked) == len(codes)

    async def test_retries_end_at_the_deadline(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka()
        asked = script(kafka, 14)
        cluster = cluster_of(kafka)
        await cluster.start()
        with pytest.raises(KafkaTimeoutError, match="ListGroups") as caught:
            await call(cluster, ListGroupsRequest(), ANY, soon(0.15))
        assert isinstance(caught.value.__cause__, GroupLoadInProgressError)
        assert len(asked) > 2

    async def test_deadline_in_the_past_raises(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka()
        script(kafka, 0)
        cluster = cluster_of(kafka)
        await cluster.start()
        with pytest.raises(KafkaTimeoutError):
            await call(cluster, ListGroupsRequest(), ANY, soon(-1.0))

    async def test_custom_check_can_cause_a_retry(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka()
        asked = script(kafka, 31, 31, 0)

        def check(response):
            if response.error_code:
                raise LeaderNotAvailableError("not yet")

        cluster = cluster_of(kafka)
        await cluster.start()
        await call(cluster, ListGroupsRequest(), ANY, soon(), check=check)
        assert len(asked) == 3

    async def test_lost_connection_is_retried(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        asked = []

        def answer(broker, request, version):
            asked.append(broker.node_id)
            return None if len(asked) < 3 else ListGroupsResponse()

        kafka.answers[ApiKey.LIST_GROUPS] = answer
        cluster = cluster_of(kafka)
        await cluster.start()
        await call(cluster, ListGroupsRequest(), ANY, soon())
        assert len(asked) == 3

    async def test_unsupported_request_raises(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka(release="0.10.0")
        cluster = cluster_of(kafka)
        await cluster.start()
        request = PerVersion(ListGroupsRequest, lambda version: ListGroupsRequest())
        with pytest.raises(UnsupportedVersionError, match="ListGroups"):
            await call(cluster, request, ANY, soon(), oldest=4)


class TestRoutes:
    async def test_any_avoids_a_dead_broker(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=2)
        asked = script(kafka, 0)
        cluster = cluster_of(kafka)
        await cluster.start()
        await kafka.brokers[2].stop()
        for _ in range(5):
            await call(cluster, ListGroupsRequest(), ANY, soon())
        assert asked == [1] * 5

    async def test_node_that_appears_later(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=2)
        kafka.hidden = {2}
        asked = script(kafka, 0)
        cluster = cluster_of(kafka)
        await cluster.start()
        asking = asyncio.create_task(call(cluster, ListGroupsRequest(), ToNode(2), soon()))
        await asyncio.sleep(0.05)
        assert not asking.done()
        kafka.hidden = set()
        await asking
        assert asked == [2]

    async def test_node_that_never_appears(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        with pytest.raises(KafkaTimeoutError) as caught:
            await call(cluster, ListGroupsRequest(), ToNode(9), soon(0.1))
        assert isinstance(caught.value.__cause__, NodeNotReadyError)

    async def test_controller_moves(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=3)
        asked = script(kafka, by_node=lambda node: 0 if node == 3 else 41)
        cluster = cluster_of(kafka)
        await cluster.start()
        kafka.controller_id = 3
        await call(cluster, ListGroupsRequest(), CONTROLLER, soon())
        assert asked == [1, 3]

    async def test_unknown_controller_falls_back_to_any_broker(
        self, tiny_kafka, cluster_of, soon, script
    ):
        kafka = await tiny_kafka(release="0.9")
        script(kafka, 0)
        cluster = cluster_of(kafka)
        await cluster.start()
        await call(cluster, ListGroupsRequest(), CONTROLLER, soon())

    async def test_leader_moves(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=3)
        kafka.topics["t"] = {0: (1, 0), 1: (2, 0)}
        asked = script(kafka, by_node=lambda node: 0 if node == 3 else 6)
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.partitions_of("t", soon())
        kafka.topics["t"] = {0: (1, 0), 1: (3, 1)}
        await call(cluster, ListGroupsRequest(), LeaderOf("t", 1), soon())
        assert asked == [2, 3]

    async def test_leader_dies(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=3)
        kafka.topics["t"] = {0: (2, 0)}
        asked = script(kafka, 0)
        cluster = cluster_of(kafka)
        await cluster.start()
        await call(cluster, ListGroupsRequest(), LeaderOf("t", 0), soon())
        await kafka.brokers[2].stop()
        kafka.hidden = {2}
        kafka.topics["t"] = {0: (-1, 1)}
        asking = asyncio.create_task(call(cluster, ListGroupsRequest(), LeaderOf("t", 0), soon()))
        await asyncio.sleep(0.05)
        kafka.topics["t"] = {0: (3, 2)}
        await asking
        assert asked == [2, 3]

    async def test_missing_partition_times_out(self, tiny_kafka, cluster_of, soon):
        cluster = cluster_of(await tiny_kafka())
        await cluster.start()
        with pytest.raises(KafkaTimeoutError, match="the topic has 1 partitions") as caught:
            await call(cluster, ListGroupsRequest(), LeaderOf("t", 1), soon(0.1))
        assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)

    async def test_invalid_topic_raises(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        kafka.errors["t"] = 17
        cluster = cluster_of(kafka)
        await cluster.start()
        with pytest.raises(InvalidTopicError):
            await call(cluster, ListGroupsRequest(), LeaderOf("t", 0), soon(60.0))


class Coordination:
    """Answers FindCoordinator with nodes by key, and counts the lookups."""

    def __init__(self, kafka, node_id: int) -> None:
        self.node_id = node_id
        self.codes = [0]  # in turn; the last one stays
        self.requests: list[tuple[int, FindCoordinatorRequest]] = []
        kafka.answers[ApiKey.FIND_COORDINATOR] = self._answer

    def _answer(self, broker, request, version):
        self.requests.append((version, request))
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        where = {"node_id": -1, "host": "", "port": -1}
        if code == 0:
            port = broker.kafka.brokers[self.node_id].port
            where = {"node_id": self.node_id, "host": "127.0.0.1", "port": port}
        if version >= 4:
            (key,) = request.coordinator_keys
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key=key, error_code=code, **where)]
            )
        return FindCoordinatorResponse(error_code=code, **where)


class TestCoordinators:
    @pytest.mark.parametrize(
        ("release", "version"),
        [("0.8.2", 0), ("0.9", 0), ("0.11", 1), ("2.0", 2), ("2.8", 3), ("3.9", 6), ("4.4", 6)],
    )
    async def test_coordinator_is_found_with_any_release(
        self, release, version, tiny_kafka, cluster_of, soon, script
    ):
        kafka = await tiny_kafka(brokers=2, release=release)
        coordination = Coordination(kafka, 2)
        coordination.codes = [15, 14, 0]
        cluster = cluster_of(kafka, options={"connect_timeout": 0.3})
        await cluster.start()
        broker = await CoordinatorOf("g").find(cluster, -1, soon())
        assert broker is cluster.broker(2)
        assert len(coordination.requests) == 3
        spoken, request = coordination.requests[-1]
        assert spoken == version
        assert request.key_type == 0
        assert (request.coordinator_keys or [request.key]) == ["g"]

    async def test_coordinator_is_found_although_all_brokers_are_slow(
        self, tiny_kafka, cluster_of, soon, monkeypatch
    ):
        monkeypatch.setattr(retry, "PATIENCE", 0.05)
        kafka = await tiny_kafka()
        Coordination(kafka, 1)
        answer = kafka.answers[ApiKey.FIND_COORDINATOR]

        async def answer_slowly(*question):
            await asyncio.sleep(0.08)
            return answer(*question)

        kafka.answers[ApiKey.FIND_COORDINATOR] = answer_slowly
        cluster = cluster_of(kafka)
        await cluster.start()
        broker = await CoordinatorOf("g").find(cluster, -1, soon())
        assert broker is cluster.broker(1)

    async def test_request_waits_while_another_server_has_the_coordinator_s_address(
        self, tiny_kafka, cluster_of, soon, until, script
    ):
        kafka = await tiny_kafka(brokers=2)
        script(kafka, 0)
        coordination = Coordination(kafka, 2)
        cluster = cluster_of(kafka)
        await cluster.start()
        await kafka.brokers[2].stop()

        async def speak_http(reader, writer):
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            coordination.node_id = 1  # the cluster has updated it
            writer.close()

        port = kafka.brokers[2].port
        async with await asyncio.start_server(speak_http, "127.0.0.1", port):
            await call(cluster, ListGroupsRequest(), CoordinatorOf("g"), soon())
        assert len(coordination.requests) > 1

    @pytest.mark.parametrize(
        ("kind", "release", "can"),
        [
            (CoordinatorKind.TRANSACTION, "0.10.2", False),
            (CoordinatorKind.TRANSACTION, "0.11", True),
            (CoordinatorKind.TRANSACTION, "4.4", True),
            (CoordinatorKind.SHARE, "2.8", False),
            (CoordinatorKind.SHARE, "4.4", True),
        ],
    )
    async def test_coordinator_of_transactions_and_share_groups(
        self, kind, release, can, tiny_kafka, cluster_of, soon
    ):
        kafka = await tiny_kafka(release=release)
        coordination = Coordination(kafka, 1)
        cluster = cluster_of(kafka)
        await cluster.start()
        if not can:
            with pytest.raises(UnsupportedVersionError, match="FindCoordinator"):
                await CoordinatorOf("x", kind).find(cluster, -1, soon())
            return
        assert (await CoordinatorOf("x", kind).find(cluster, -1, soon())).node_id == 1
        assert coordination.requests[0][1].key_type == kind

    async def test_coordinator_is_cached(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=2)
        asked = script(kafka, 14, 0, 0)
        coordination = Coordination(kafka, 2)
        cluster = cluster_of(kafka)
        await cluster.start()
        for _ in range(2):
            await call(
                cluster, ListGroupsRequest(), CoordinatorOf("g"), soon(), purpose=Purpose.GROUP
            )
        assert asked == [2, 2, 2]
        assert len(coordination.requests) == 1
        assert cluster.broker(2).connected(Purpose.GROUP)

    async def test_coordinator_moved(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=2)
        asked = script(kafka, by_node=lambda node: 0 if node == 2 else 16)
        coordination = Coordination(kafka, 1)
        cluster = cluster_of(kafka)
        await cluster.start()
        asking = asyncio.create_task(call(cluster, ListGroupsRequest(), CoordinatorOf("g"), soon()))
        await asyncio.sleep(0.03)
        coordination.node_id = 2
        await asking
        assert asked[0] == 1
        assert asked[-1] == 2
        assert len(coordination.requests) == len(asked)

    async def test_coordinator_died(self, tiny_kafka, cluster_of, soon, script):
        kafka = await tiny_kafka(brokers=2)
        asked = script(kafka, 0)
        coordination = Coordination(kafka, 2)
        cluster = cluster_of(kafka)
        await cluster.start()
        await call(cluster, ListGroupsRequest(), CoordinatorOf("g"), soon())
        await kafka.brokers[2].stop()
        kafka.hidden = {2}
        coordination.node_id = 1
        await call(cluster, ListGroupsRequest(), CoordinatorOf("g"), soon())
        assert asked == [2, 1]

    async def test_coordinator_is_usable_before_the_metadata_lists_it(
        self, tiny_kafka, cluster_of, soon, script
    ):
        kafka = await tiny_kafka(brokers=2)
        kafka.hidden = {2}
        asked = script(kafka, 0)
        Coordination(kafka, 2)
        cluster = cluster_of(kafka)
        await cluster.start()
        await call(cluster, ListGroupsRequest(), CoordinatorOf("g"), soon())
        assert asked == [2]

    async def test_authorization_error_is_raised(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        Coordination(kafka, 1).codes = [30]
        cluster = cluster_of(kafka)
        await cluster.start()
        with pytest.raises(GroupAuthorizationFailedError, match="g"):
            await call(cluster, ListGroupsRequest(), CoordinatorOf("g"), soon(60.0))


def stuck_connecting(kafka, script):
    kafka.brokers[1].speaking.clear()
    return lambda cluster: cluster.broker(1).in_flight, ANY


def stuck_at_the_answer(kafka, script):
    asked = []

    async def answer(broker, request, version):
        asked.append(request)
        await asyncio.Event().wait()

    kafka.answers[ApiKey.LIST_GROUPS] = answer
    return lambda cluster: asked, ANY


def stuck_backing_off(kafka, script):
    asked = script(kafka, 14)
    return lambda cluster: asked, ANY


def stuck_at_the_topic(kafka, script):
    kafka.errors["t"] = 3
    return lambda cluster: "t" in cluster.metadata.topics, LeaderOf("t", 0)


def stuck_at_the_metadata(kafka, script):
    script(kafka, 6)
    return lambda cluster: cluster.metadata.version > 1, LeaderOf("t", 0)


def stuck_at_the_coordinator(kafka, script):
    coordination = Coordination(kafka, 1)
    coordination.codes = [15]
    return lambda cluster: coordination.requests, CoordinatorOf("g")


WAITS = [
    stuck_connecting,
    stuck_at_the_answer,
    stuck_backing_off,
    stuck_at_the_topic,
    stuck_at_the_metadata,
    stuck_at_the_coordinator,
]


@pytest.mark.parametrize("stuck", WAITS)
class TestEndingEarly:
    async def begun(self, stuck, kafka, cluster, script, until, deadline):
        await cluster.start()
        reached, route = stuck(kafka, script)
        asking = asyncio.create_task(call(cluster, ListGroupsRequest(), route, deadline))
        await until(lambda: reached(cluster))
        await asyncio.sleep(0.005)
        assert not asking.done()
        return asking

    async def test_cancelled_call_stops(self, stuck, tiny_kafka, cluster_of, soon, script, until):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        asking = await self.begun(stuck, kafka, cluster, script, until, soon())
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        kafka.brokers[1].speaking.set()
        await cluster.broker(1).request(MetadataRequest(), Purpose.GROUP)

    async def test_close_ends_a_call(self, stuck, tiny_kafka, cluster_of, soon, script, until):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        asking = await self.begun(stuck, kafka, cluster, script, until, soon(60.0))
        await cluster.close(soon())
        with pytest.raises(IllegalStateError, match="closed"):
            await asyncio.wait_for(asking, 5.0)

    async def test_call_times_out_at_any_step(
        self, stuck, tiny_kafka, cluster_of, soon, script, until
    ):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        asking = await self.begun(stuck, kafka, cluster, script, until, soon(0.2))
        with pytest.raises(KafkaTimeoutError):
            await asyncio.wait_for(asking, 5.0)
        assert not cluster.closed


async def test_call_after_close_raises(tiny_kafka, cluster_of, soon):
    cluster = cluster_of(await tiny_kafka())
    await cluster.start()
    await cluster.close(soon())
    for route in (ANY, CONTROLLER, ToNode(1), LeaderOf("t", 0), CoordinatorOf("g")):
        with pytest.raises(IllegalStateError, match="closed"):
            await call(cluster, ListGroupsRequest(), route, soon())


def test_every_code_is_raised_as_its_class():
    raise_error_code(ListGroupsResponse())
    raise_error_code(object())
    for code in (-1, 7, 41, 133):
        with pytest.raises(for_code(code)):
            raise_error_code(ListGroupsResponse(error_code=code))
