"""Each fault has its documented effect on the chosen requests, and on no others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import KafkaProtocolError, KafkaTimeoutError
from aiokafka_lite.protocol.framing import decode_response, peek_correlation_id
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster, tampering
from aiokafka_lite.testing.control import LARGEST_BODY_KEPT, overwrite_error_codes
from tests.unit.testing.raw import make_batch

Connect = Callable[[str], Any]

ASK_NOTHING = MetadataRequest(topics=[])


def produce(*partitions: int, size: int = 5) -> ProduceRequest:
    batch = make_batch((1, None, bytes(size)))
    return ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                name="orders",
                partition_data=[
                    PartitionProduceData(index=index, records=batch) for index in partitions
                ],
            )
        ],
    )


def errors_in(response: Any) -> list[int]:
    return [partition.error_code for partition in response.responses[0].partition_responses]


def ends(cluster: FakeCluster) -> list[int]:
    return [cluster.partition("orders", index).log.end_offset for index in range(2)]


async def test_an_error_for_every_partition(cluster: FakeCluster, connect: Connect) -> None:
    fault = cluster.control(ApiKey.PRODUCE, error=6)
    client = await connect(cluster.address(0))
    await client.ask(ASK_NOTHING, 9)
    assert fault.hits == 0
    assert errors_in(await client.ask(produce(0, 1), 9)) == [6, 6]
    assert (fault.hits, ends(cluster)) == (1, [0, 0])
    assert errors_in(await client.ask(produce(0, 1), 9)) == [0, 0]
    assert fault.hits == 1


async def test_an_error_for_one_partition(cluster: FakeCluster, connect: Connect) -> None:
    fault = cluster.control(ApiKey.PRODUCE, error=3, partitions=[("orders", 1)], times=None)
    client = await connect(cluster.address(0))
    for _ in range(3):
        assert errors_in(await client.ask(produce(0, 1), 9)) == [0, 3]
    assert ends(cluster) == [3, 0]
    fault.remove()
    assert errors_in(await client.ask(produce(0, 1), 9)) == [0, 0]


async def test_a_request_without_the_partition_does_not_use_up_its_error(
    cluster: FakeCluster, connect: Connect
) -> None:
    fault = cluster.control(ApiKey.PRODUCE, error=3, partitions=[("orders", 1)])
    client = await connect(cluster.address(0))
    assert errors_in(await client.ask(produce(0), 9)) == [0]
    assert (fault.hits, fault.left) == (0, 1)
    assert errors_in(await client.ask(produce(0, 1), 9)) == [0, 3]
    assert (fault.hits, fault.left) == (1, 0)
    await fault.struck()
    assert errors_in(await client.ask(produce(0, 1), 9)) == [0, 0]


async def test_errors_for_several_partitions(cluster: FakeCluster, connect: Connect) -> None:
    first = cluster.control(ApiKey.PRODUCE, error=3, partitions=[("orders", 0)])
    second = cluster.control(ApiKey.PRODUCE, error=6, partitions=[("orders", 1)])
    client = await connect(cluster.address(0))
    assert errors_in(await client.ask(produce(1), 9)) == [6]
    assert (first.hits, second.hits) == (0, 1)
    cluster.control(ApiKey.PRODUCE, error=6, partitions=[("orders", 0), ("orders", 1)])
    assert errors_in(await client.ask(produce(0, 1), 9)) == [3, 6]
    assert errors_in(await client.ask(produce(0, 1), 9)) == [0, 0]
    assert ends(cluster) == [1, 1]


async def test_faults_after_the_error_for_a_partition(
    cluster: FakeCluster, connect: Connect
) -> None:
    def hold_up(response: ProduceResponse) -> None:
        response.throttle_time_ms = 7

    cluster.control(ApiKey.PRODUCE, error=3, partitions=[("orders", 0)], times=None)
    fault = cluster.control(ApiKey.PRODUCE, error=6)
    client = await connect(cluster.address(0))
    assert errors_in(await client.ask(produce(0), 9)) == [3]
    assert fault.hits == 0
    assert errors_in(await client.ask(produce(0, 1), 9)) == [3, 6]
    assert fault.hits == 1
    fault = cluster.control(ApiKey.PRODUCE, edit=hold_up)
    answer = await client.ask(produce(0, 1), 9)
    assert (errors_in(answer), answer.throttle_time_ms) == ([3, 0], 7)
    assert fault.hits == 1
    assert errors_in(await client.ask(produce(0, 1), 9)) == [3, 0]


async def test_an_error_after_handling(cluster: FakeCluster, connect: Connect) -> None:
    cluster.control(ApiKey.PRODUCE, error=20, after_handling=True)
    client = await connect(cluster.address(0))
    assert errors_in(await client.ask(produce(0, 1), 9)) == [20, 20]
    assert ends(cluster) == [1, 1]


async def test_errors_of_topics_and_of_whole_requests(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    cluster.control(ApiKey.METADATA, error=5)
    assert (await client.ask(request, 9)).topics[0].error_code == 5
    cluster.control(ApiKey.METADATA, error=5, partitions=[("orders", 1)])
    (topic,) = (await client.ask(request, 9)).topics
    assert [topic.error_code, *(p.error_code for p in topic.partitions)] == [0, 0, 5]
    cluster.control(ApiKey.INIT_PRODUCER_ID, error=51)
    asked = InitProducerIdRequest(transactional_id=None)
    assert (await client.ask(asked, 4)).error_code == 51


@pytest.mark.parametrize("after_handling", [False, True])
async def test_disconnect(cluster: FakeCluster, connect: Connect, after_handling: bool) -> None:
    cluster.control(ApiKey.PRODUCE, disconnect=True, after_handling=after_handling)
    client = await connect(cluster.address(0))
    client.send(produce(0), 9)
    assert await client.is_cut()
    assert ends(cluster) == [int(after_handling), 0]


async def test_disconnect_in_the_midst_of_the_answer(
    cluster: FakeCluster, connect: Connect
) -> None:
    cluster.control(ApiKey.PRODUCE, disconnect=11)
    client = await connect(cluster.address(0))
    client.send(produce(0), 9)
    assert len(await client.reader.read()) == 11
    assert ends(cluster) == [1, 0]


@pytest.mark.parametrize("after_handling", [False, True])
async def test_drop_makes_the_connection_mute(
    cluster: FakeCluster, connect: Connect, after_handling: bool
) -> None:
    fault = cluster.control(ApiKey.PRODUCE, drop=True, after_handling=after_handling)
    client = await connect(cluster.address(0))
    client.send(produce(0), 9)
    client.send(produce(1), 9)
    await fault.struck()
    other = await connect(cluster.address(0))
    await other.ask(ASK_NOTHING, 9)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await client.frame()
    assert ends(cluster) == [int(after_handling), 0]


@pytest.mark.parametrize("after_handling", [False, True])
async def test_delay(cluster: FakeCluster, connect: Connect, after_handling: bool) -> None:
    fault = cluster.control(ApiKey.PRODUCE, delay=0.2, after_handling=after_handling)
    client, other = await connect(cluster.address(0)), await connect(cluster.address(0))
    request = produce(0)
    began = asyncio.get_running_loop().time()
    client.send(request, 9)
    client.send(ASK_NOTHING, 9)
    await fault.struck()
    assert ends(cluster) == [int(after_handling), 0]
    await other.ask(ASK_NOTHING, 9)
    assert errors_in((await client.receive(request, 9))[1]) == [0]
    assert asyncio.get_running_loop().time() - began >= 0.19
    await client.receive(ASK_NOTHING, 9)
    assert ends(cluster) == [1, 0]


async def test_a_delayed_response_to_a_closed_connection_is_dropped(
    cluster: FakeCluster, connect: Connect
) -> None:
    fault = cluster.control(ApiKey.PRODUCE, delay=0.02)
    client = await connect(cluster.address(0))
    client.send(produce(0), 9)
    await fault.struck()
    await client.close()
    await asyncio.sleep(0.05)
    assert ends(cluster) == [0, 0]


async def test_another_response(cluster: FakeCluster, connect: Connect) -> None:
    def elsewhere(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        key = request.coordinator_keys[0]
        return FindCoordinatorResponse(coordinators=[Coordinator(key=key, port=1, host="far")])

    cluster.control(ApiKey.FIND_COORDINATOR, respond_with=elsewhere)
    cluster.control(ApiKey.FIND_COORDINATOR, respond_with=FindCoordinatorResponse())
    client = await connect(cluster.address(0))
    request = FindCoordinatorRequest(coordinator_keys=["mine"])
    told = (await client.ask(request, 4)).coordinators[0]
    assert (told.key, told.host) == ("mine", "far")
    assert (await client.ask(request, 4)).coordinators == []


async def test_an_edited_response(cluster: FakeCluster, connect: Connect) -> None:
    def edit(response: ProduceResponse) -> None:
        response.responses[0].partition_responses[0].base_offset = 99

    cluster.control(ApiKey.PRODUCE, edit=edit)
    client = await connect(cluster.address(0))
    response = await client.ask(produce(0), 9)
    assert response.responses[0].partition_responses[0].base_offset == 99


async def test_only_some_requests(connect: Connect) -> None:
    async with FakeCluster(brokers=2) as cluster:
        here, there = await connect(cluster.address(0)), await connect(cluster.address(1))
        cluster.control(error=99, node=1)
        cluster.control(ApiKey.FIND_COORDINATOR, error=15, when=lambda r: r.key == "bad")
        asked = InitProducerIdRequest(transactional_id=None)
        assert (await here.ask(asked, 4)).error_code == 0
        assert (await there.ask(asked, 4)).error_code == 99
        for key, error in (("good", 0), ("bad", 15), ("bad", 0)):
            request = FindCoordinatorRequest(key=key)
            assert (await here.ask(request, 1)).error_code == error


async def test_faults_apply_in_order_of_creation(cluster: FakeCluster, connect: Connect) -> None:
    cluster.control(ApiKey.PRODUCE, error=6, times=2)
    cluster.control(ApiKey.PRODUCE, error=7)
    client = await connect(cluster.address(0))
    seen = [errors_in(await client.ask(produce(0), 9))[0] for _ in range(4)]
    assert seen == [6, 6, 7, 0]


async def test_waiting_until_a_fault_applies(cluster: FakeCluster, connect: Connect) -> None:
    fault = cluster.control(ApiKey.METADATA, times=2)
    client = await connect(cluster.address(0))
    client.send(ASK_NOTHING, 9)
    await fault.struck()
    cancelled = asyncio.ensure_future(fault.struck(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    waiting = asyncio.ensure_future(fault.struck(2))
    client.send(ASK_NOTHING, 9)
    await waiting
    assert fault.hits == 2
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_tampering(cluster: FakeCluster, connect: Connect) -> None:
    async def tampered(tamper: tampering.Tampering) -> tuple[int, bytes]:
        cluster.control(ApiKey.METADATA, tamper=tamper)
        client = await connect(cluster.address(0))
        client.send(ASK_NOTHING, 9)
        length = int.from_bytes(await client.reader.readexactly(4), "big", signed=True)
        client.writer.write_eof()
        return length, await client.reader.read()

    length, honest = await tampered(bytes)
    assert length == len(honest)
    _, response = decode_response(honest, MetadataRequest, 9)
    assert response.topics == []

    length, frame = await tampered(tampering.shift_correlation_id(5))
    assert peek_correlation_id(frame) == peek_correlation_id(honest) + 5
    assert (length, frame[4:]) == (len(honest), honest[4:])
    assert await tampered(tampering.claim_length(-7)) == (-7, honest)
    for tamper in (tampering.cut(6), tampering.pad(b"more"), tampering.replace_body(b"\xff\xff")):
        length, frame = await tampered(tamper)
        assert length == len(frame) != len(honest)
        assert frame[:4] == honest[:4]
        with pytest.raises(KafkaProtocolError):
            decode_response(frame, MetadataRequest, 9)


async def test_requests_are_recorded(cluster: FakeCluster, connect: Connect) -> None:
    client, other = await connect(cluster.address(0)), await connect(cluster.address(0))
    await client.ask(produce(0), 9)
    await other.ask(produce(0, size=LARGEST_BODY_KEPT), 8)
    small, large = cluster.requests
    assert (small.api_key, small.version, small.client_id) == (ApiKey.PRODUCE, 9, "raw")
    assert (small.node_id, small.correlation_id) == (0, 1)
    assert small.connection_id != large.connection_id
    assert isinstance(small.body, ProduceRequest)
    assert small.body.topic_data[0].name == "orders"
    assert large.body is None
    assert large.size > LARGEST_BODY_KEPT
    assert (cluster.count(ApiKey.PRODUCE), cluster.count(ApiKey.FETCH)) == (2, 0)


async def test_exceptions_in_fault_functions_are_reported(connect: Connect) -> None:
    def edit(response: ProduceResponse) -> None:
        raise LookupError("not as expected")

    cluster = FakeCluster(topics={"orders": 1})

    async def use() -> None:
        async with cluster:
            for delay in (0, 0.001):
                cluster.control(ApiKey.PRODUCE, edit=edit, delay=delay)
                client = await connect(cluster.address(0))
                client.send(produce(0), 9)
                assert await client.is_cut()

    with pytest.raises(ExceptionGroup) as caught:
        await use()
    assert [type(error) for error in caught.value.exceptions] == [LookupError] * 2
    assert cluster.failures == list(caught.value.exceptions)


@pytest.mark.parametrize("disconnect", [True, 0, 20])
async def test_a_request_without_an_answer_can_be_cut_off(
    cluster: FakeCluster, connect: Connect, disconnect: bool | int
) -> None:
    cluster.control(ApiKey.PRODUCE, disconnect=disconnect, after_handling=True)
    client = await connect(cluster.address(0))
    request = produce(0)
    request.acks = 0
    client.send(request, 9)
    assert await client.is_cut()
    assert len(cluster.records("orders")) == 1


async def test_a_fault_that_is_removed_while_it_looks(
    cluster: FakeCluster, connect: Connect
) -> None:
    def when(request: ProduceRequest) -> bool:
        fault.remove()
        return True

    fault = cluster.control(ApiKey.PRODUCE, error=7, when=when)
    client = await connect(cluster.address(0))
    for _ in range(3):
        answer = await client.ask(produce(0), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    assert (fault.hits, fault.left) == (0, 0)


async def test_an_exception_of_the_test_itself_takes_precedence(connect: Connect) -> None:
    async def use() -> None:
        async with FakeCluster(topics={"orders": 1}) as cluster:
            cluster.control(ApiKey.PRODUCE, when=lambda request: request.no_such_field)
            client = await connect(cluster.address(0))
            client.send(produce(0), 9)
            assert await client.is_cut()
            raise KeyError

    with pytest.raises(KeyError):
        await use()


def test_error_codes_are_overwritten_at_the_lowest_level() -> None:
    coordinators = FindCoordinatorResponse(coordinators=[Coordinator(key="a")])
    assert overwrite_error_codes(coordinators, 15)
    assert (coordinators.error_code, coordinators.coordinators[0].error_code) == (0, 15)
    empty = FetchResponse()
    assert overwrite_error_codes(empty, 70)
    assert empty.error_code == 70


@pytest.mark.parametrize(
    "arguments",
    [
        {"times": 0},
        {"delay": -1},
        {"disconnect": -1},
        {"node": 1},
        {"api_key": ApiKey.VOTE},  # controllers send that to each other
        {"api_key": "FETCH"},
        {"error": KafkaTimeoutError},
        {"partitions": [("orders", 0)]},
        {"partitions": [("orders", 0)], "error": 6, "after_handling": True},
        {"partitions": "orders", "error": 6},
    ],
)
def test_arguments(arguments: dict[str, Any]) -> None:
    cluster = FakeCluster()
    with pytest.raises(ValueError):
        cluster.control(**{"api_key": ApiKey.FETCH, **arguments})
    assert not cluster._control.faults
