"""Transactions are listed, described and ended; producers are described and fenced."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.admin import AbortTransactionSpec, AIOKafkaAdminClient
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    ConcurrentTransactions,
    GroupLoadInProgressError,
    IllegalArgumentError,
    InvalidProducerEpoch,
    KafkaProtocolError,
    KafkaTimeoutError,
    NotLeaderForPartitionError,
    ProducerFenced,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFoundError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, CoordinatorType, FakeCluster
from tests.unit.error_table import assert_reactions, reactions

pytestmark = pytest.mark.unhurried

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = [f"tx-{number}" for number in range(6)]


@pytest.fixture
async def producer(brokers: FakeCluster) -> AsyncIterator[AIOKafkaProducer]:
    """A producer with an open transaction in partition orders-0."""
    made = AIOKafkaProducer(bootstrap_servers=brokers.bootstrap_servers, transactional_id="open")
    await made.start()
    await made.begin_transaction()
    await made.send_and_wait("orders", b"open", partition=0)
    yield made
    await made.stop()


async def finish(brokers: FakeCluster, *ids: str) -> None:
    """Commit one transaction of each id."""
    for transactional_id in ids:
        async with (
            AIOKafkaProducer(
                bootstrap_servers=brokers.bootstrap_servers, transactional_id=transactional_id
            ) as producer,
            producer.transaction(),
        ):
            await producer.send("orders", b"done", partition=1)


@pytest.mark.usefixtures("producer")
async def test_every_coordinator_lists_its_transactions(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await finish(brokers, *IDS)
    listings = await admin.list_transactions()
    assert listings.errors() == {}
    assert {each.transactional_id: each.state for each in listings.raise_for_errors()} == {
        "open": "Ongoing",
        **dict.fromkeys(IDS, "CompleteCommit"),
    }
    assert set(listings.by_broker) == {0, 1, 2}
    [found] = (await admin.list_transactions(states=["Ongoing"])).valid()
    assert found.transactional_id == "open"
    assert (await admin.list_transactions(producer_ids=[found.producer_id])).valid() == [found]
    assert (await admin.list_transactions(min_duration_ms=3_600_000)).valid() == []
    matching = await admin.list_transactions(transactional_id_pattern="tx-[12]")
    assert {each.transactional_id for each in matching.valid()} == {"tx-1", "tx-2"}
    with pytest.raises(IllegalArgumentError, match="does not know these transaction states: Odd"):
        await admin.list_transactions(states=["Odd"])


async def test_the_error_of_one_broker_leaves_the_transactions_of_the_others(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await finish(brokers, *IDS)
    brokers.control(
        ApiKey.LIST_TRANSACTIONS, node=1, error=ClusterAuthorizationFailedError, times=None
    )
    listings = await admin.list_transactions()
    assert set(listings.errors()) == {1}
    assert set(listings.by_broker.valid()) == {0, 2}
    with pytest.raises(ClusterAuthorizationFailedError):
        listings.raise_for_errors()


@pytest.mark.usefixtures("producer")
async def test_transactions_are_described(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    await finish(brokers, "done")
    results = await admin.describe_transactions(["open", "done", "none"])
    found = results.value("open")
    assert (found.state, found.partitions) == ("Ongoing", {ONE})
    assert found.start_time_ms is not None
    assert found.timeout_ms == 60_000
    assert found.coordinator_id == await admin.find_coordinator("open", 1)
    done = results.value("done")
    assert (done.state, done.partitions) == ("CompleteCommit", frozenset())
    with pytest.raises(TransactionalIdNotFoundError, match="transactional id 'none'"):
        results.value("none")


async def test_only_transactions_with_a_retriable_error_are_requested_again(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await finish(brokers, "a", "b")
    for transactional_id in "ab":
        brokers.move_coordinator(transactional_id, 1, CoordinatorType.TRANSACTION)

    def load(response: Any) -> None:
        for each in response.transaction_states:
            if each.transactional_id == "b":
                each.error_code = GroupLoadInProgressError.errno

    await admin.describe_transactions(["a", "b"])  # finds the coordinator
    before = len(brokers.requests)
    brokers.control(ApiKey.DESCRIBE_TRANSACTIONS, after_handling=True, edit=load)
    (await admin.describe_transactions(["a", "b"])).raise_for_errors()
    asked: list[Any] = [
        seen.body
        for seen in brokers.requests[before:]
        if seen.api_key == ApiKey.DESCRIBE_TRANSACTIONS
    ]
    assert [body.transactional_ids for body in asked] == [["a", "b"], ["b"]]


async def test_a_moved_transaction_coordinator_is_looked_up_again(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    await finish(brokers, "a")
    old = (await admin.describe_transactions(["a"])).value("a").coordinator_id
    assert old is not None
    brokers.move_coordinator("a", (old + 1) % 3, CoordinatorType.TRANSACTION)
    described = (await admin.describe_transactions(["a"])).value("a")
    assert described.coordinator_id == (old + 1) % 3
    brokers.move_coordinator("a", old, CoordinatorType.TRANSACTION)
    (await admin.fence_producers(["a"])).raise_for_errors()


async def test_a_transaction_that_the_response_leaves_out_fails(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(
        ApiKey.DESCRIBE_TRANSACTIONS,
        after_handling=True,
        edit=lambda response: response.transaction_states.clear(),
    )
    with pytest.raises(KafkaProtocolError, match="transactional id 'a'"):
        (await admin.describe_transactions(["a"])).value("a")
    brokers.control(
        ApiKey.DESCRIBE_PRODUCERS,
        after_handling=True,
        edit=lambda response: response.topics.clear(),
    )
    with pytest.raises(KafkaProtocolError, match="partition orders-0"):
        (await admin.describe_producers([ONE])).value(ONE)


async def test_producers_are_described(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, producer: AIOKafkaProducer
) -> None:
    await finish(brokers, "done")
    results = await admin.describe_producers([ONE, TWO])
    [writing], [done] = results.value(ONE), results.value(TWO)
    assert (writing.last_sequence, writing.transaction_start_offset) == (0, 0)
    assert writing.last_timestamp_ms is not None
    assert done.transaction_start_offset is None
    assert done.coordinator_epoch is not None
    described = (await admin.describe_transactions(["open"])).value("open")
    assert (described.producer_id, described.producer_epoch) == (
        writing.producer_id,
        writing.producer_epoch,
    )
    leader = brokers.partition("orders", 0).leader
    assert (await admin.describe_producers([ONE], broker_id=leader)).value(ONE) == [writing]

    def refuse(response: Any) -> None:
        response.topics[0].partitions[0].error_code = TopicAuthorizationFailedError.errno

    brokers.control(
        ApiKey.DESCRIBE_PRODUCERS, node=leader, after_handling=True, edit=refuse, times=None
    )
    refused = await admin.describe_producers([ONE])
    assert isinstance(refused[ONE], TopicAuthorizationFailedError)


async def test_a_moved_leader_is_looked_up_again(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    fault = brokers.control(
        ApiKey.DESCRIBE_PRODUCERS, error=NotLeaderForPartitionError, partitions=[ONE]
    )
    assert (await admin.describe_producers([ONE])).value(ONE) == []
    assert fault.hits == 1


async def test_a_named_broker_without_the_partition_is_an_error_at_once(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    other = (brokers.partition("orders", 0).leader + 1) % 3
    found = await admin.describe_producers([ONE], broker_id=other)
    assert isinstance(found[ONE], NotLeaderForPartitionError)
    assert brokers.count(ApiKey.DESCRIBE_PRODUCERS) == 1


async def hanging(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> AbortTransactionSpec:
    [found] = (await admin.describe_producers([ONE])).value(ONE)
    return AbortTransactionSpec(
        ONE, found.producer_id, found.producer_epoch, found.coordinator_epoch
    )


async def readable(brokers: FakeCluster) -> int:
    async with AIOKafkaConsumer(
        bootstrap_servers=brokers.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        return (await consumer.end_offsets([ONE]))[ONE]


@pytest.mark.usefixtures("producer")
async def test_a_hanging_transaction_is_aborted(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    assert await readable(brokers) == 0
    spec = await hanging(brokers, admin)
    assert spec.coordinator_epoch is None
    fault = brokers.control(
        ApiKey.WRITE_TXN_MARKERS, error=NotLeaderForPartitionError, partitions=[ONE]
    )
    await admin.abort_transaction(spec)
    assert fault.hits == 1
    assert await readable(brokers) == 2  # the record and its marker
    [marker] = [seen.body for seen in brokers.requests if seen.api_key == ApiKey.WRITE_TXN_MARKERS][
        -1
    ].markers  # type: ignore[union-attr]
    assert (marker.transaction_result, marker.coordinator_epoch) == (False, 0)
    assert (await admin.describe_producers([ONE])).value(ONE)[0].transaction_start_offset is None


@pytest.mark.usefixtures("producer")
async def test_a_transaction_that_cannot_be_aborted(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    spec = await hanging(brokers, admin)
    stale = AbortTransactionSpec(ONE, spec.producer_id, spec.producer_epoch)
    brokers.control(ApiKey.WRITE_TXN_MARKERS, error=InvalidProducerEpoch, partitions=[ONE])
    with pytest.raises(InvalidProducerEpoch, match="partition orders-0"):
        await admin.abort_transaction(stale)
    with pytest.raises(KafkaTimeoutError):
        await admin.abort_transaction(
            AbortTransactionSpec(TopicPartition("none", 0), 1, 0), timeout_ms=200
        )

    def other(response: Any) -> None:
        response.markers[0].producer_id += 1

    brokers.control(ApiKey.WRITE_TXN_MARKERS, after_handling=True, edit=other)
    with pytest.raises(KafkaProtocolError, match="producer id"):
        await admin.abort_transaction(stale)


@pytest.mark.parametrize("how", ["fence", "terminate"])
async def test_producers_are_fenced(
    brokers: FakeCluster, admin: AIOKafkaAdminClient, producer: AIOKafkaProducer, how: str
) -> None:
    before = (await admin.describe_transactions(["open"])).value("open")
    if how == "fence":
        results = await admin.fence_producers(["open", "new"])
        fenced = results.value("open")
        assert (fenced.producer_id, results.value("new").producer_epoch) == (before.producer_id, 0)
        assert fenced.producer_epoch > before.producer_epoch
    else:
        await admin.force_terminate_transaction("open")
    assert (await admin.describe_transactions(["open"])).value("open").state in (
        "CompleteAbort",
        "Empty",
    )
    with pytest.raises(ProducerFenced):
        await producer.commit_transaction()
    assert brokers.records("orders", committed_only=True) == []


async def test_the_error_of_one_id_leaves_the_others(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    brokers.control(
        ApiKey.INIT_PRODUCER_ID,
        when=lambda request: request.transactional_id == "refused",
        error=TransactionalIdAuthorizationFailed,
        times=None,
    )
    busy = brokers.control(
        ApiKey.INIT_PRODUCER_ID,
        when=lambda request: request.transactional_id == "busy",
        error=ConcurrentTransactions,
        times=2,
    )
    results = await admin.fence_producers(["refused", "busy"])
    assert isinstance(results["refused"], TransactionalIdAuthorizationFailed)
    assert results.value("busy").producer_epoch == 0
    assert busy.hits == 2
    with pytest.raises(TransactionalIdAuthorizationFailed):
        await admin.force_terminate_transaction("refused")


async def test_old_brokers_name_what_they_lack() -> None:
    async with (
        FakeCluster(1, {"orders": 1}, version="2.7") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        for call, text in [
            (admin.list_transactions(), r"Listing transactions requires Kafka 3\.0"),
            (admin.describe_transactions(["a"]), r"Describing transactions requires Kafka 3\.0"),
            (admin.describe_producers([ONE]), r"Describing producers requires Kafka 2\.8"),
        ]:
            with pytest.raises(UnsupportedVersionError, match=text):
                await call
    async with (
        FakeCluster(1, version="3.7") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"by duration requires Kafka 3\.8"):
            await admin.list_transactions(min_duration_ms=1)
        with pytest.raises(UnsupportedVersionError, match=r"by a pattern requires Kafka 4\.1"):
            await admin.list_transactions(transactional_id_pattern="a.*")
        assert (await admin.list_transactions()).valid() == []


async def test_bad_arguments_send_nothing(brokers: FakeCluster, admin: AIOKafkaAdminClient) -> None:
    before = len(brokers.requests)
    calls: list[tuple[Any, type[Exception]]] = [
        (lambda: admin.list_transactions(states="Ongoing"), TypeError),
        (lambda: admin.list_transactions(producer_ids=["1"]), TypeError),  # type: ignore[list-item]
        (lambda: admin.list_transactions(min_duration_ms=-1), IllegalArgumentError),
        (lambda: admin.list_transactions(transactional_id_pattern=3), TypeError),  # type: ignore[arg-type]
        (lambda: admin.describe_transactions("tx"), TypeError),
        (lambda: admin.describe_producers(["orders"]), TypeError),  # type: ignore[list-item]
        (lambda: admin.describe_producers([ONE], broker_id=-1), IllegalArgumentError),
        (lambda: admin.abort_transaction(ONE), TypeError),  # type: ignore[arg-type]
        (
            lambda: admin.abort_transaction(AbortTransactionSpec(ONE, 1, 40_000)),
            IllegalArgumentError,
        ),
        (lambda: admin.abort_transaction(AbortTransactionSpec(ONE, -1, 0)), IllegalArgumentError),
        (lambda: admin.fence_producers("tx"), TypeError),
        (lambda: admin.force_terminate_transaction(3), TypeError),  # type: ignore[arg-type]
    ]
    for call, error in calls:
        with pytest.raises(error):
            await call()
    assert len(brokers.requests) == before
    assert dict(await admin.fence_producers([])) == {}


async def test_a_cancelled_call_leaves_the_client_usable(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    fault = brokers.control(ApiKey.INIT_PRODUCER_ID, delay=60)
    call = asyncio.create_task(admin.fence_producers(["a"]))
    await fault.struck()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    brokers.disconnect()
    (await admin.fence_producers(["a"])).raise_for_errors()


async def test_every_error_of_a_transactional_id(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    async def reaction_to(code: int) -> str:
        transactional_id = f"tx-{code}"
        fault = brokers.control(
            ApiKey.DESCRIBE_TRANSACTIONS,
            when=lambda request: request.transactional_ids == [transactional_id],
            after_handling=True,
            edit=lambda response: setattr(response.transaction_states[0], "error_code", code),
            times=None,
        )
        call = asyncio.create_task(admin.describe_transactions([transactional_id]))
        again = asyncio.create_task(fault.struck(2))
        await asyncio.wait([call, again], return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        fault.remove()
        result = (await call)[transactional_id]
        return "is retried" if fault.hits > 1 else f"fails with {getattr(result, 'errno', None)}"

    table = reactions(
        otherwise="fails",
        **{"is retried": "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR"},
    )
    await assert_reactions(
        {
            code: f"fails with {code}" if reaction == "fails" else reaction
            for code, reaction in table.items()
        },
        reaction_to,
    )


async def test_a_hanging_transaction_is_aborted_once_its_partition_has_a_leader(
    brokers: FakeCluster, admin: AIOKafkaAdminClient
) -> None:
    """Errors of the lookup are retried by their classes, not by the table of the request."""
    fault = brokers.control(
        ApiKey.METADATA,
        when=lambda request: request.topics is not None,
        after_handling=True,
        edit=lambda response: setattr(response.topics[0].partitions[0], "leader_id", -1),
    )
    marked = brokers.control(
        ApiKey.WRITE_TXN_MARKERS,
        respond_with=lambda request: WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    5,
                    [
                        WritableTxnMarkerTopicResult(
                            "orders", [WritableTxnMarkerPartitionResult(0, 0)]
                        )
                    ],
                )
            ]
        ),
    )
    await admin.abort_transaction(AbortTransactionSpec(TopicPartition("orders", 0), 5, 0))
    assert (fault.hits, marked.hits) == (1, 1)
