"""Transactions on the embedded cluster, in both generations of the protocol and both builds."""

import asyncio
import gc
import warnings
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.errors import (
    CommitFailedError,
    ConcurrentTransactions,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IllegalOperation,
    IllegalStateError,
    InvalidTxnState,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NotCoordinatorError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
)
from aiokafka_lite.group.membership import GroupMetadata
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]

TOPICS = {"orders": 3, "bills": 1}


@pytest.fixture(params=["3.9", None], ids=["adds partitions", "batches add"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[FakeCluster]:
    """A cluster with the older generation, then with the newer one."""
    async with FakeCluster(topics=TOPICS, version=request.param) as cluster:
        yield cluster


@pytest.fixture
async def producer(make_producer: Make, cluster: FakeCluster) -> Any:
    producer = make_producer(cluster, transactional_id="payments")
    await producer.start()
    return producer


async def committed(cluster: FakeCluster, topic: str = "orders") -> list[bytes]:
    """The values that a read_committed consumer sees, up to the end of each partition."""
    found: list[bytes] = []
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(TOPICS[topic])]
        consumer.assign(partitions)
        ends = {tp: cluster.partition(*tp).log.end_offset for tp in partitions}
        while any([await consumer.position(tp) < ends[tp] for tp in partitions]):
            for records in (await consumer.getmany(timeout_ms=50)).values():
                found += [record.value for record in records if record.value is not None]
    return sorted(found)


def seen(cluster: FakeCluster, api_key: ApiKey) -> int:
    return len([each for each in cluster.requests if each.api_key == api_key])


# The purpose of transactions


async def test_all_is_committed_or_nothing(cluster: FakeCluster, producer: Any) -> None:
    for number in range(4):
        await producer.begin_transaction()
        for partition in range(3):
            await producer.send("orders", b"%d-%d" % (number, partition), partition=partition)
        if number % 2:
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
    assert await committed(cluster) == [b"0-0", b"0-1", b"0-2", b"2-0", b"2-1", b"2-2"]


async def test_a_context_commits_or_aborts(cluster: FakeCluster, producer: Any) -> None:
    async with producer.transaction():
        await producer.send("orders", b"kept")

    async def fail() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"lost")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with producer.transaction():
        pass
    assert await committed(cluster) == [b"kept"]


async def test_a_partition_is_added_once_and_many_together(
    cluster: FakeCluster, producer: Any
) -> None:
    async with producer.transaction():
        acks = [await producer.send("orders", b"x", partition=number % 3) for number in range(30)]
        await asyncio.gather(*acks)
    older = not producer._transactions.machine.implicit
    assert (
        (1 <= seen(cluster, ApiKey.ADD_PARTITIONS_TO_TXN) <= 2)
        if older
        else (seen(cluster, ApiKey.ADD_PARTITIONS_TO_TXN) == 0)
    )
    assert seen(cluster, ApiKey.END_TXN) == 1


async def test_an_empty_transaction_sends_no_request(cluster: FakeCluster, producer: Any) -> None:
    await producer.begin_transaction()
    await producer.commit_transaction()
    await producer.begin_transaction()
    await producer.abort_transaction()
    assert seen(cluster, ApiKey.END_TXN) == 0


async def test_a_commit_sends_lingering_batches(make_producer: Make, cluster: FakeCluster) -> None:
    producer = make_producer(
        cluster, transactional_id="payments", linger_ms=60_000, delivery_timeout_ms=150_000
    )
    await producer.start()
    await producer.begin_transaction()
    ack = await producer.send("orders", b"lingers")
    await producer.commit_transaction()
    assert ack.done()
    assert (await ack).offset == 0
    assert await committed(cluster) == [b"lingers"]


async def test_an_end_goes_the_way_of_the_records(cluster: FakeCluster, producer: Any) -> None:
    for _ in range(2):
        async with producer.transaction():
            await producer.send("orders", b"x", partition=0)
    ways: dict[ApiKey, set[Any]] = {ApiKey.PRODUCE: set(), ApiKey.END_TXN: set()}
    for each in cluster.requests:
        if each.api_key in ways:
            ways[each.api_key].add(each.connection_id)
    assert ways[ApiKey.END_TXN] == ways[ApiKey.PRODUCE]
    assert len(ways[ApiKey.END_TXN]) == 1


async def test_an_end_does_not_wait_for_the_quota_of_the_records(
    cluster: FakeCluster, producer: Any
) -> None:
    cluster.throttle(30, api_key=ApiKey.PRODUCE)
    async with asyncio.timeout(15), producer.transaction():
        await producer.send_and_wait("orders", b"x", partition=0)
    assert await committed(cluster) == [b"x"]


async def test_an_abort_fails_records_that_were_not_sent(
    make_producer: Make, cluster: FakeCluster
) -> None:
    producer = make_producer(
        cluster, transactional_id="payments", linger_ms=60_000, delivery_timeout_ms=150_000
    )
    await producer.start()
    await producer.begin_transaction()
    ack = await producer.send("orders", b"lingers")
    await producer.abort_transaction()
    with pytest.raises(TransactionAbortedError):
        await ack
    assert seen(cluster, ApiKey.PRODUCE) == 0
    assert producer._sender.pool.used == 0
    async with producer.transaction():
        await producer.send("orders", b"kept")
    assert await committed(cluster) == [b"kept"]


async def test_send_many_and_send_batch_are_part_of_the_transaction(
    cluster: FakeCluster, producer: Any
) -> None:
    async with producer.transaction():
        await producer.send_many("orders", [b"a", b"b"])
        batch = producer.create_batch()
        batch.append(key=None, value=b"c", timestamp=None)
        await producer.send_batch(batch, "orders", partition=1)
    assert await committed(cluster) == [b"a", b"b", b"c"]


# Offsets

PLACE = TopicPartition("bills", 0)


async def group_offset(cluster: FakeCluster) -> int | None:
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id="readers", enable_auto_commit=False
    ) as consumer:
        consumer.assign([PLACE])
        return await consumer.committed(PLACE)


@pytest.mark.parametrize("how", ["send", "send_and_wait"])
async def test_a_record_that_waits_belongs_to_the_transaction_of_its_call(
    cluster: FakeCluster, producer: Any, how: str
) -> None:
    """Even if its coroutine begins to run in the next one."""
    await producer.begin_transaction()
    waiting = asyncio.ensure_future(getattr(producer, how)("orders", b"aborted"))
    await producer.abort_transaction()
    async with producer.transaction():
        with pytest.raises(IllegalOperation, match="was sent in has ended"):
            await asyncio.wait_for(waiting, 10)
        await producer.send("orders", b"last")
    assert await committed(cluster) == [b"last"]


async def test_send_many_does_not_continue_in_the_next_transaction(
    cluster: FakeCluster, producer: Any
) -> None:
    """A transaction that is held while the previous one is being ended is aborted at once."""
    async with producer.transaction():
        await producer.send("orders", b"first")
    producer._transactions._begin_delay.hold = 0.01
    await producer.begin_transaction()
    sending = asyncio.ensure_future(producer.send_many("orders", [b"aborted"] * 20_000))
    await asyncio.sleep(0)
    await producer.abort_transaction()
    async with producer.transaction():
        await asyncio.wait([sending])
        await producer.send("orders", b"last")
    assert await committed(cluster) == [b"first", b"last"]
    with pytest.raises(IllegalOperation, match="Can't send") as raised:
        sending.result()
    assert 0 < len(raised.value.sent) < 20_000  # type: ignore[attr-defined]


@pytest.mark.parametrize("told", [5, (5, "note"), OffsetAndMetadata(5, "")], ids=str)
async def test_offsets_are_committed_with_the_transaction(
    cluster: FakeCluster, producer: Any, told: Any
) -> None:
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({PLACE: told}, "readers")
    await producer.send("orders", b"made of them")
    await producer.commit_transaction()
    assert await group_offset(cluster) == 5
    await producer.begin_transaction()
    await producer.send_offsets_to_transaction({PLACE: 9}, "readers")
    await producer.abort_transaction()
    assert await group_offset(cluster) == 5


async def test_a_consumer_that_lost_its_place_is_refused(
    cluster: FakeCluster, producer: Any
) -> None:
    async with AIOKafkaConsumer(
        "bills", bootstrap_servers=cluster.bootstrap_servers, group_id="readers"
    ) as consumer:
        group = consumer.group_metadata()
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({PLACE: 1}, group)
        await producer.commit_transaction()
        old = GroupMetadata(group.group_id, group.generation - 1, group.member_id, None)
        await producer.begin_transaction()
        with pytest.raises(CommitFailedError):
            await producer.send_offsets_to_transaction({PLACE: 2}, old)
        with pytest.raises(CommitFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
    async with producer.transaction():
        await producer.send("orders", b"goes on")
    assert await committed(cluster) == [b"goes on"]


# Misuse


async def test_misuse_raises_at_once(make_producer: Make, cluster: FakeCluster) -> None:
    plain = make_producer(cluster)
    await plain.start()
    for call in (plain.begin_transaction, plain.commit_transaction, plain.abort_transaction):
        with pytest.raises(IllegalOperation, match="transactional_id"):
            await call()
    with pytest.raises(IllegalOperation, match="transactional_id"):
        await plain.send_offsets_to_transaction({PLACE: 1}, "readers")
    with pytest.raises(IllegalOperation):
        async with plain.transaction():
            pytest.fail("begun")

    producer = make_producer(cluster, transactional_id="payments")
    with pytest.raises(IllegalStateError, match="not started"):
        await producer.begin_transaction()
    await producer.start()
    with pytest.raises(IllegalOperation, match="Can't send messages while not in transaction"):
        await producer.send("orders", b"x")
    for call in (producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(IllegalOperation, match="Not in the middle of a transaction"):
            await call()
    with pytest.raises(IllegalOperation):  # before its arguments are checked
        await producer.send_offsets_to_transaction({}, "")
    await producer.begin_transaction()
    with pytest.raises(IllegalOperation):
        await producer.begin_transaction()
    for group in ("", None, 5, b"readers"):
        with pytest.raises(ValueError, match="group_id"):
            await producer.send_offsets_to_transaction({PLACE: 1}, group)
    with pytest.raises(ValueError, match="offsets"):
        await producer.send_offsets_to_transaction({}, "readers")
    await producer.commit_transaction()
    await producer.stop()
    with pytest.raises(ProducerClosed):
        await producer.begin_transaction()


@pytest.mark.parametrize(
    "options",
    [
        {"transactional_id": ""},
        {"acks": 1},
        {"enable_idempotence": False},
        {"max_in_flight_requests_per_connection": 6},
        {"transaction_timeout_ms": 0},
    ],
    ids=str,
)
async def test_options_that_contradict_are_refused(
    make_producer: Make, cluster: FakeCluster, options: dict[str, Any]
) -> None:
    with pytest.raises(KafkaConfigurationError):
        make_producer(cluster, **{"transactional_id": "payments", **options})


async def test_nothing_is_sent_while_a_commit_is_in_progress(
    cluster: FakeCluster, producer: Any
) -> None:
    await producer.begin_transaction()
    await producer.send("orders", b"kept")
    cluster.control(ApiKey.END_TXN, delay=0.05)
    commit = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0)
    for call in (
        producer.send("orders", b"x"),
        producer.begin_transaction(),
        producer.commit_transaction(),
    ):
        with pytest.raises(IllegalOperation):
            await call
    await commit
    assert await committed(cluster) == [b"kept"]


# Retriable errors

PASSING = [NotCoordinatorError, CoordinatorNotAvailableError, ConcurrentTransactions]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.__name__)
@pytest.mark.parametrize("committing", [True, False], ids=["commit", "abort"])
async def test_retriable_errors_are_retried(
    make_producer: Make, cluster: FakeCluster, error: type[KafkaError], committing: bool
) -> None:
    for api in (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ):
        cluster.control(api, error=error.errno, times=2)
    producer = make_producer(cluster, transactional_id="payments")
    await producer.start()
    await producer.begin_transaction()
    await producer.send("orders", b"kept", partition=0)
    await producer.send_offsets_to_transaction({PLACE: 5}, "readers")
    await (producer.commit_transaction() if committing else producer.abort_transaction())
    assert await committed(cluster) == ([b"kept"] if committing else [])
    assert await group_offset(cluster) == (5 if committing else None)


@pytest.mark.parametrize(
    "api",
    [
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.PRODUCE,
        ApiKey.END_TXN,
    ],
    ids=lambda api: api.name,
)
@pytest.mark.parametrize("committing", [True, False], ids=["commit", "abort"])
async def test_requests_whose_responses_were_lost_are_repeated(
    make_producer: Make, cluster: FakeCluster, api: ApiKey, committing: bool
) -> None:
    cluster.control(api, after_handling=True, disconnect=True)
    producer = make_producer(cluster, transactional_id="payments")
    await producer.start()
    for number in range(2):
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({PLACE: number}, "readers")
        await producer.send("orders", b"%d" % number, partition=0)
        await (producer.commit_transaction() if committing else producer.abort_transaction())
    assert await committed(cluster) == ([b"0", b"1"] if committing else [])
    assert await group_offset(cluster) == (1 if committing else None)


# Errors that require an abort


@pytest.mark.parametrize(
    "error",
    [
        MessageSizeTooLargeError,
        OutOfOrderSequenceNumber,
        UnknownProducerId,
        TopicAuthorizationFailedError,
        TransactionAbortableError,
    ],
    ids=lambda error: error.__name__,
)
async def test_a_record_that_is_refused_spoils_the_transaction(
    cluster: FakeCluster, producer: Any, error: type[KafkaError]
) -> None:
    async with producer.transaction():
        await producer.send_and_wait("orders", b"before", partition=0)
    cluster.control(ApiKey.PRODUCE, error=error.errno)
    await producer.begin_transaction()
    with pytest.raises(error):
        await producer.send_and_wait("orders", b"refused", partition=0)
    with pytest.raises(error):
        await producer.send("orders", b"x")
    with pytest.raises(error):
        await producer.send_offsets_to_transaction({PLACE: 1}, "readers")
    for _ in range(2):
        with pytest.raises(error):
            await producer.commit_transaction()
    await producer.abort_transaction()
    async with producer.transaction():
        for number in range(3):
            await producer.send("orders", b"after %d" % number, partition=number)
    assert await committed(cluster) == [b"after 0", b"after 1", b"after 2", b"before"]


async def test_a_new_epoch_is_every_partitions(cluster: FakeCluster, producer: Any) -> None:
    """Also for partitions that the failed transaction did not write to."""
    async with producer.transaction():
        for partition in range(3):
            await producer.send("orders", b"first %d" % partition, partition=partition)
    cluster.control(ApiKey.PRODUCE, error=MessageSizeTooLargeError.errno)
    await producer.begin_transaction()
    with pytest.raises(MessageSizeTooLargeError):
        await producer.send_and_wait("orders", b"refused", partition=0)
    await producer.abort_transaction()
    async with producer.transaction():
        for partition in range(3):
            await producer.send("orders", b"then %d" % partition, partition=partition)
    assert await committed(cluster) == [
        b"%s %d" % (w, n) for w in (b"first", b"then") for n in range(3)
    ]


async def test_a_context_whose_commit_finds_a_record_refused_aborts(
    cluster: FakeCluster, producer: Any
) -> None:
    cluster.control(ApiKey.PRODUCE, error=MessageSizeTooLargeError.errno)
    with pytest.raises(MessageSizeTooLargeError):
        async with producer.transaction():
            await producer.send("orders", b"refused", partition=0)
    async with producer.transaction():
        await producer.send("orders", b"kept", partition=0)
    assert await committed(cluster) == [b"kept"]


async def test_a_group_that_is_refused_spoils_the_transaction(
    cluster: FakeCluster, producer: Any
) -> None:
    cluster.control(ApiKey.TXN_OFFSET_COMMIT, error=GroupAuthorizationFailedError.errno)
    await producer.begin_transaction()
    ack = await producer.send("orders", b"lost", partition=0)
    with pytest.raises(GroupAuthorizationFailedError, match="readers"):
        await producer.send_offsets_to_transaction({PLACE: 1}, "readers")
    with pytest.raises(GroupAuthorizationFailedError):
        await producer.commit_transaction()
    await producer.abort_transaction()
    await asyncio.wait([ack])
    async with producer.transaction():
        await producer.send("orders", b"kept")
    assert await committed(cluster) == [b"kept"]


# The end of a producer


async def test_a_zombie_is_fenced(make_producer: Make, cluster: FakeCluster, producer: Any) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"of the zombie")
    successor = make_producer(cluster, transactional_id="payments")
    await successor.start()
    with pytest.raises(ProducerFenced):
        await producer.commit_transaction()
    for call in (
        producer.abort_transaction,
        producer.begin_transaction,
        producer.commit_transaction,
    ):
        with pytest.raises(ProducerFenced):
            await call()
    with pytest.raises(ProducerFenced):
        await producer.send("orders", b"x")
    async with successor.transaction():
        await successor.send("orders", b"of the successor")
    assert await committed(cluster) == [b"of the successor"]


async def test_a_zombie_is_fenced_and_the_context_manager_raises_it(
    make_producer: Make, cluster: FakeCluster, producer: Any
) -> None:
    successor = make_producer(cluster, transactional_id="payments")
    await successor.start()
    with pytest.raises(ProducerFenced):
        async with producer.transaction():
            await producer.send_and_wait("orders", b"x")
    assert producer._transactions.machine.state.value == "fatal error"
    assert await committed(cluster) == []


async def test_a_transactional_id_that_is_not_allowed(
    make_producer: Make, cluster: FakeCluster
) -> None:
    denied = TransactionalIdAuthorizationFailed
    fault = cluster.control(ApiKey.INIT_PRODUCER_ID, error=denied.errno)
    producer = make_producer(cluster, transactional_id="payments")
    with pytest.raises(denied):
        await producer.start()
    await producer.stop()
    assert fault.hits == 1
    producer = make_producer(cluster, transactional_id="payments")
    await producer.start()
    api = ApiKey.PRODUCE if cluster_adds(cluster) else ApiKey.ADD_PARTITIONS_TO_TXN
    cluster.control(api, error=denied.errno)
    await producer.begin_transaction()
    with pytest.raises(denied):
        await producer.send_and_wait("orders", b"x")
    with pytest.raises(denied):
        await producer.send("orders", b"x")
    with pytest.raises(denied):
        await producer.abort_transaction()


def cluster_adds(cluster: FakeCluster) -> bool:
    return cluster.state.features.finalized.get("transaction.version", 0) >= 2


async def test_a_transaction_left_open_is_aborted_by_the_next_producer(
    make_producer: Make, cluster: FakeCluster, producer: Any
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"left open")
    producer._sender.abort()  # as with SIGKILL: nothing is sent
    successor = make_producer(cluster, transactional_id="payments")
    await successor.start()
    async with successor.transaction():
        await successor.send("orders", b"kept")
    assert await committed(cluster) == [b"kept"]


async def test_stop_aborts_an_open_transaction(
    make_producer: Make, cluster: FakeCluster, producer: Any
) -> None:
    await producer.begin_transaction()
    await producer.send("orders", b"open")
    await producer.stop()
    assert seen(cluster, ApiKey.END_TXN) <= 1
    assert await committed(cluster) == []


@pytest.mark.parametrize("silent", [ApiKey.END_TXN, ApiKey.PRODUCE], ids=lambda api: api.name)
async def test_stop_ends_by_its_timeout_without_any_response(
    cluster: FakeCluster, producer: Any, silent: ApiKey
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"open")
    cluster.control(silent, drop=True, times=None)
    await producer.send("orders", b"open, too")
    await asyncio.sleep(0.02)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await producer.stop(timeout=0.2)
    assert loop.time() - began < 5
    with pytest.raises(ProducerClosed):
        await producer.begin_transaction()


async def test_stop_fails_calls_that_wait_for_the_coordinator(
    cluster: FakeCluster, producer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"open")
    cluster.control(ApiKey.END_TXN, drop=True, times=None)
    commit = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0.02)
    await producer.stop(timeout=0.1)
    with pytest.raises(ProducerClosed):
        await commit
    (line,) = [each for each in caplog.messages if "transaction open" in each]
    assert line.endswith("commit did not complete within the timeout of stop()")


@pytest.mark.parametrize(
    "fault", [{"error": MessageSizeTooLargeError}, {}], ids=["split", "stored"]
)
async def test_pieces_of_a_batch_fail_at_once_after_a_fatal_error(
    make_producer: Make, cluster: FakeCluster, fault: dict[str, Any]
) -> None:
    """They are queued again when the answer arrives, and nothing will be sent then."""

    def size(request: Any) -> int:
        ((data,),) = [topic.partition_data for topic in request.topic_data]
        return len(data.records)

    producer = make_producer(cluster, transactional_id="payments", linger_ms=5)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"first", partition=0)
    cluster.control(
        ApiKey.PRODUCE, error=MessageSizeTooLargeError, when=lambda request: size(request) > 800
    )
    late = cluster.control(
        ApiKey.PRODUCE, delay=0.2, when=lambda request: size(request) < 600, **fault
    )
    acks = [await producer.send("orders", b"%100d" % n, partition=0) for n in range(8)]
    await late.struck()
    producer._transactions.machine.close(ProducerFenced("by a test"))
    producer._transactions._settle()
    async with asyncio.timeout(10):  # delivery_timeout_ms is 120 s
        await asyncio.wait(acks)
    assert isinstance(acks[-1].exception(), ProducerFenced)
    assert producer._sender.pool.used == 0


async def test_stop_aborts_a_transaction_whose_commit_fails_meanwhile(
    cluster: FakeCluster, producer: Any
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"open", partition=0)
    cluster.control(ApiKey.PRODUCE, error=TopicAuthorizationFailedError, delay=0.1)
    refused = await producer.send("orders", b"refused", partition=0)
    commit = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0.02)
    async with asyncio.timeout(10):
        await producer.stop()  # delivery_timeout_ms is 120 s
    for failed in (refused, commit):
        with pytest.raises(TopicAuthorizationFailedError):
            await failed
    assert seen(cluster, ApiKey.END_TXN) == 1
    assert await committed(cluster) == []


@pytest.mark.parametrize("call", ["on_answer", "on_error"])
async def test_a_bug_stops_the_producer(
    cluster: FakeCluster,
    producer: Any,
    call: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def mistaken(*_: object) -> None:
        raise ZeroDivisionError("mistaken")

    machine = producer._transactions.machine
    async with asyncio.timeout(10):
        await producer.begin_transaction()
        await producer.send("orders", b"x", partition=0)
        monkeypatch.setattr(machine, call, mistaken)
        if call == "on_error":
            cluster.control(ApiKey.END_TXN, disconnect=True)
        with pytest.raises(ProducerClosed):
            await producer.commit_transaction()
    [told] = [record for record in caplog.records if record.levelname == "CRITICAL"]
    assert "carry out transactions ended unexpectedly" in told.message
    caplog.clear()


async def test_a_producer_that_is_dropped_in_a_transaction_is_freed_at_once(
    cluster: FakeCluster, room: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = room["producer"].AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="payments"
    )
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"open")
    dropped = weakref.ref(producer)
    texts: list[str] = []  # not the warnings, which keep their source alive
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda text, *_: texts.append(str(text)))
        del producer
        gc.collect()
    assert any(text.startswith("Unclosed AIOKafkaProducer") for text in texts), texts
    assert dropped() is None
    await asyncio.sleep(0.01)  # its remaining tasks end


async def test_unsent_records_are_not_sent_in_the_next_transaction(
    cluster: FakeCluster, producer: Any
) -> None:
    """A task that outlives its transaction while it waits for the topic's metadata."""
    await producer.begin_transaction()
    await producer.send("orders", b"first", partition=0)
    batch = producer.create_batch()
    batch.append(key=None, value=b"late, too", timestamp=None)
    batch.close()
    looking = cluster.control(ApiKey.METADATA, delay=0.3, times=None)
    late = asyncio.create_task(producer.send("bills", b"late", partition=0))
    late_batch = asyncio.create_task(producer.send_batch(batch, "bills", partition=0))
    await looking.struck()
    await producer.commit_transaction()
    async with producer.transaction():
        await producer.send("orders", b"second", partition=0)
        for each in (late, late_batch):
            with pytest.raises(IllegalOperation, match="has ended"):
                await each
        looking.remove()
    assert await committed(cluster) == [b"first", b"second"]
    assert await committed(cluster, "bills") == []


# Waits that end early


async def test_a_commit_that_ran_out_of_time_may_be_waited_on(
    make_producer: Make, cluster: FakeCluster
) -> None:
    producer = make_producer(cluster, transactional_id="payments", max_block_ms=500)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"kept")
    fault = cluster.control(ApiKey.END_TXN, delay=0.8)
    with pytest.raises(KafkaTimeoutError, match="call again"):
        await producer.commit_transaction()
    with pytest.raises(IllegalOperation):
        await producer.begin_transaction()
    while True:
        try:
            await producer.commit_transaction()
        except KafkaTimeoutError:
            continue
        break
    assert fault.hits == 1
    assert await committed(cluster) == [b"kept"]


async def test_a_cancelled_commit_continues(cluster: FakeCluster, producer: Any) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"kept")
    cluster.control(ApiKey.END_TXN, delay=0.05)
    commit = asyncio.create_task(producer.commit_transaction())
    await asyncio.sleep(0.01)
    commit.cancel()
    await asyncio.wait([commit])
    await producer.commit_transaction()  # the same one
    async with producer.transaction():
        await producer.send("orders", b"next")
    assert await committed(cluster) == [b"kept", b"next"]


@pytest.mark.parametrize("why", ["fenced", "no answer in time"])
async def test_a_block_is_cancelled_although_its_abort_fails(
    make_producer: Make, cluster: FakeCluster, why: str
) -> None:
    producer = make_producer(cluster, transactional_id="payments", max_block_ms=500)
    await producer.start()
    sent = asyncio.Event()

    async def work() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"x")
            sent.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await sent.wait()
    if why == "fenced":
        await make_producer(cluster, transactional_id="payments").start()
    else:
        cluster.control(ApiKey.END_TXN, delay=2)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    error = ProducerFenced if why == "fenced" else KafkaTimeoutError
    with pytest.raises(error):
        await producer.abort_transaction()


async def test_an_end_that_the_coordinator_will_not_hear_of_is_fatal(
    cluster: FakeCluster, producer: Any
) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"lost")
    cluster.control(ApiKey.END_TXN, error=InvalidTxnState.errno)
    with pytest.raises(InvalidTxnState):
        await producer.abort_transaction()
    with pytest.raises(InvalidTxnState):
        await producer.begin_transaction()
    await producer.stop()
