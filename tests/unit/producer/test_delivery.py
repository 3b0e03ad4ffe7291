"""Delivery during failures, on the embedded cluster, which checks sequences as Kafka does."""

import asyncio
import logging
import os
import random
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.errors import (
    DeliveryTimeoutError,
    KafkaError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownProducerId,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.net.transport import FrameTransport
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.seeds import seeds

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, Any]]

RETRIABLE = [
    NotLeaderForPartitionError,
    NotEnoughReplicasError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
]


@pytest.mark.parametrize("error", RETRIABLE, ids=lambda error: error.__name__)
@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_passing_error_is_retried_in_order(
    make_producer: Make, stored: Stored, error: type[KafkaError], idempotent: bool
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, enable_idempotence=idempotent, max_batch_size=200)
        await producer.start()
        fault = cluster.control(ApiKey.PRODUCE, error=error.errno, times=3)
        acks = [await producer.send("orders", b"%03d" % n * 10) for n in range(60)]
        offsets = [metadata.offset for metadata in await asyncio.gather(*acks)]
        assert fault.hits == 3
        assert offsets == list(range(60))
        values = [record.value for record in stored(cluster, "orders")[0]]
        assert values == [b"%03d" % n * 10 for n in range(60)]


@pytest.mark.parametrize("error", [MessageSizeTooLargeError, TopicAuthorizationFailedError])
async def test_a_lasting_error_fails_its_batch_alone(
    make_producer: Make, error: type[KafkaError]
) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster, linger_ms=10)
        await producer.start()
        cluster.control(ApiKey.PRODUCE, error=error.errno, partitions=[("orders", 0)])
        bad = await producer.send("orders", b"v", partition=0)
        good = await producer.send("orders", b"v", partition=1)
        with pytest.raises(error, match=r"1 record\(s\), .* to partition 0 of topic 'orders'"):
            await bad
        assert (await good).offset == 0
        assert (await producer.send_and_wait("orders", b"v", partition=0)).offset == 0
        assert producer._sender.pool.used == 0


async def test_a_batch_whose_response_was_lost_is_repeated_and_stored_once(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=200)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=True, times=2)
        acks = [await producer.send("orders", b"%03d" % n * 10) for n in range(60)]
        offsets = [metadata.offset for metadata in await asyncio.gather(*acks)]
        assert offsets == list(range(1, 61))
        assert len(stored(cluster, "orders")[0]) == 61


async def test_without_idempotence_one_batch_of_a_partition_is_in_flight(
    make_producer: Make,
) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster, enable_idempotence=False, max_batch_size=200)
        await producer.start()
        await producer.partitions_for("orders")
        cluster.control(ApiKey.PRODUCE, delay=0.1)
        acks = [await producer.send("orders", b"x" * 100, partition=0) for _ in range(5)]
        queue = producer._accumulator.topics["orders"].queues[0]
        most = 0
        while not acks[-1].done():
            most = max(most, len(queue.in_flight))
            await asyncio.sleep(0)
        assert most == 1
        await asyncio.gather(*acks)


async def test_with_idempotence_five_are(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=200)
        await producer.start()
        await producer.send_and_wait("orders", b"the broker knows the producer after this")
        assert cluster.count(ApiKey.PRODUCE) == 1
        queue = producer._accumulator.topics["orders"].queues[0]
        cluster.control(ApiKey.PRODUCE, delay=0.1)
        acks = [await producer.send("orders", b"x" * 100) for _ in range(10)]
        most = 0
        while not acks[-1].done():
            most = max(most, len(queue.in_flight))
            await asyncio.sleep(0)
        assert most == 5
        assert [metadata.offset for metadata in await asyncio.gather(*acks)] == list(range(1, 11))


async def test_a_partition_follows_its_leader(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(brokers=3, topics={"orders": 3}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        for round_ in range(9):
            cluster.move_leader("orders", 0, round_ % 3)
            metadata = await producer.send_and_wait("orders", b"%d" % round_, partition=0)
            assert metadata.offset == round_


async def test_a_killed_broker_s_partitions_wait_for_it(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(brokers=1, topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"0")
        cluster.kill(0)
        waiting = [await producer.send("orders", b"%d" % n) for n in range(1, 5)]
        await asyncio.sleep(0.1)
        assert not any(ack.done() for ack in waiting)
        await cluster.restart(0)
        assert [metadata.offset for metadata in await asyncio.gather(*waiting)] == [1, 2, 3, 4]


async def test_one_dead_broker_stalls_no_other(make_producer: Make) -> None:
    async with FakeCluster(brokers=2) as cluster:
        cluster.create_topic("orders", 2, replication_factor=1)
        producer = make_producer(cluster)
        await producer.start()
        await producer.partitions_for("orders")
        cluster.kill(0)
        dead = await producer.send("orders", b"v", partition=0)
        for offset in range(5):
            assert (await producer.send_and_wait("orders", b"v", partition=1)).offset == offset
        assert not dead.done()
        await cluster.restart(0)
        assert (await dead).offset == 0


async def test_a_delivery_timeout_states_attempts_and_last_error(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster, delivery_timeout_ms=1000, request_timeout_ms=200)
        await producer.start()
        await producer.send_and_wait("orders", b"v", partition=0)
        refusal = cluster.control(ApiKey.PRODUCE, error=NotEnoughReplicasError.errno, times=None)
        with pytest.raises(DeliveryTimeoutError, match="were not written") as refused:
            await producer.send_and_wait("orders", b"v", partition=0)
        assert isinstance(refused.value.__cause__, NotEnoughReplicasError)
        refusal.remove()
        cluster.control(ApiKey.PRODUCE, delay=2.0, times=None)
        with pytest.raises(DeliveryTimeoutError, match="MAY have been written"):
            await producer.send_and_wait("orders", b"v", partition=1)
        assert producer._sender.pool.used == 0


async def test_a_partition_continues_after_a_sequence_gap(
    make_producer: Make, stored: Stored
) -> None:
    """A numbered batch that timed out leaves a gap; the later ones get a new epoch."""
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, delivery_timeout_ms=1000, request_timeout_ms=100)
        await producer.start()
        await producer.send_and_wait("orders", b"0")
        lost = cluster.control(ApiKey.PRODUCE, error=NotEnoughReplicasError.errno, times=None)
        with pytest.raises(DeliveryTimeoutError):
            await producer.send_and_wait("orders", b"given up")
        lost.remove()
        for offset in range(1, 4):
            assert (await producer.send_and_wait("orders", b"%d" % offset)).offset == offset
        assert producer._accumulator.topics["orders"].queues[0].sequences.epoch == 1
        assert [r.value for r in stored(cluster, "orders")[0]] == [b"0", b"1", b"2", b"3"]


async def test_a_timed_out_batch_that_was_stored_leaves_no_sequence_gap(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, delivery_timeout_ms=1000, request_timeout_ms=100)
        await producer.start()
        await producer.send_and_wait("orders", b"0")
        cut = cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=True, times=None)
        with pytest.raises(DeliveryTimeoutError, match="MAY have been written"):
            await producer.send_and_wait("orders", b"1")
        cut.remove()
        assert (await producer.send_and_wait("orders", b"2")).offset == 2
        assert producer._accumulator.topics["orders"].queues[0].sequences.epoch == 0


@pytest.mark.parametrize("error", [OutOfOrderSequenceNumber, UnknownProducerId])
async def test_a_refused_number_begins_a_new_numbering(
    make_producer: Make, stored: Stored, error: type[KafkaError]
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=200)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        cluster.control(ApiKey.PRODUCE, error=error.errno)
        acks = [await producer.send("orders", b"%03d" % n * 10) for n in range(30)]
        assert [m.offset for m in await asyncio.gather(*acks)] == list(range(1, 31))
        assert producer._accumulator.topics["orders"].queues[0].sequences.epoch == 1


async def test_a_duplicate_is_a_success_at_an_unknown_offset(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        cluster.control(ApiKey.PRODUCE, error=46)
        assert (await producer.send_and_wait("orders", b"v")).offset == -1


async def test_a_fenced_producer_gets_another_id(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        before = producer._sender._identity.producer_id
        cluster.control(ApiKey.PRODUCE, error=47)
        assert (await producer.send_and_wait("orders", b"v")).offset == 1
        assert producer._sender._identity.producer_id != before


async def test_without_producer_ids_batches_have_no_sequence_numbers(make_producer: Make) -> None:
    async with FakeCluster(
        topics=["orders"], api_versions={ApiKey.INIT_PRODUCER_ID: None}
    ) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        assert (await producer.send_and_wait("orders", b"v")).offset == 0
        assert producer._accumulator.topics["orders"].queues[0].sequences is None


async def test_explicit_idempotence_is_refused_on_brokers_without_it(make_producer: Make) -> None:
    async with FakeCluster(
        topics=["orders"], api_versions={ApiKey.INIT_PRODUCER_ID: None}
    ) as cluster:
        producer = make_producer(cluster, enable_idempotence=True)
        await producer.start()
        for _ in range(2):
            with pytest.raises(UnsupportedVersionError, match="InitProducerId"):
                await producer.send_and_wait("orders", b"v")
        assert cluster.count(ApiKey.PRODUCE) == 0


async def test_a_throttled_producer_pauses(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()

        def throttle(response: Any) -> None:
            response.throttle_time_ms = 200

        cluster.control(ApiKey.PRODUCE, edit=throttle)
        await producer.send_and_wait("orders", b"v")
        await producer.send_and_wait("orders", b"v")
        first, second = (s.at for s in cluster.requests if s.api_key is ApiKey.PRODUCE)
        assert second - first >= 0.19


async def test_a_mute_broker_s_batches_go_again_over_a_new_connection(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, request_timeout_ms=150)
        await producer.start()
        cluster.control(ApiKey.PRODUCE, drop=True)
        assert (await producer.send_and_wait("orders", b"v")).offset == 0
        assert len(stored(cluster, "orders")[0]) == 1


async def test_a_failed_batch_without_awaited_acks_is_logged(
    make_producer: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=200)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        cluster.control(ApiKey.PRODUCE, error=MessageSizeTooLargeError.errno, times=5)
        with caplog.at_level(logging.ERROR):
            for _ in range(5):
                await producer.send("orders", b"x" * 150)
            await producer.flush()
        (line,) = [r for r in caplog.records if "were not awaited" in r.getMessage()]
        assert "MessageSizeTooLargeError" in line.getMessage()
        caplog.clear()
        cluster.control(ApiKey.PRODUCE, error=MessageSizeTooLargeError.errno)
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait("orders", b"x")
        assert not caplog.records


@pytest.mark.parametrize("size", [10, 100_000])
async def test_a_batch_that_cannot_be_compressed_fails_alone(
    make_producer: Make, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def fail(*_: object) -> bytes:
        raise ZeroDivisionError("codec")

    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, compression_type="lz4", max_batch_size=1000)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        with monkeypatch.context() as patch:
            for build in ("native", "python"):
                patch.setattr(f"aiokafka_lite.record._batch_{build}.compress", fail)
            with pytest.raises(ZeroDivisionError):
                await producer.send_and_wait("orders", b"x" * size)
        assert (await producer.send_and_wait("orders", b"w")).offset == 1
        assert producer._sender.pool.used == 0


async def test_undelivered_batches_are_logged_once_by_stop(
    make_producer: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, max_batch_size=200)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        cluster.control(ApiKey.PRODUCE, drop=True, times=None)
        for _ in range(20):
            await producer.send("orders", b"x" * 150)
        await producer.stop(timeout=0.05)
        (line,) = [r for r in caplog.records if "were not awaited" in r.getMessage()]
        assert "lost 20 batch(es)" in line.getMessage()


async def test_a_deleted_topic_fails_its_records_in_the_end(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"], auto_create_topics=False) as cluster:
        producer = make_producer(cluster, delivery_timeout_ms=1000, request_timeout_ms=200)
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        cluster.delete_topic("orders")
        with pytest.raises(DeliveryTimeoutError):
            await producer.send_and_wait("orders", b"v")
        assert producer._sender.pool.used == 0
        assert not producer._accumulator.active


async def storm(
    cluster: FakeCluster, producer: Any, seed: int, calm: asyncio.Event
) -> dict[bytes, list[bytes]]:
    """Senders of numbered values by key, with all kinds of cluster faults; return the acked
    values of each key."""
    weather = random.Random(seed)

    async def bad_weather() -> None:
        for _ in range(40):
            if calm.is_set():
                break
            node = weather.randrange(3)
            if len(cluster._control.faults) > 3:
                await asyncio.sleep(0.01)
                continue
            match weather.randrange(7):
                case 0:
                    cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=True)
                case 1:
                    cluster.control(ApiKey.PRODUCE, disconnect=True, node=node)
                case 2:
                    error = weather.choice(RETRIABLE).errno
                    cluster.control(ApiKey.PRODUCE, error=error, times=weather.randint(1, 4))
                case 3:
                    cluster.move_leader("orders", weather.randrange(4), node)
                case 4:
                    cluster.disconnect(node)
                case 5:
                    cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=12)
                case 6:
                    cluster.kill(node)
                    await asyncio.sleep(0.02)
                    await cluster.restart(node)
            await asyncio.sleep(weather.random() * 0.02)

    acked: dict[bytes, list[bytes]] = defaultdict(list)

    async def sender(number: int) -> None:
        key = b"key %d" % number
        pending = []
        for n in range(60):
            value = b"%d" % n
            pending.append((value, await producer.send("orders", value, key=key)))
            if n % 7 == 0:
                await asyncio.sleep(0.005)
        for value, ack in pending:
            await ack
            acked[key].append(value)

    troubles = asyncio.ensure_future(bad_weather())
    try:
        async with asyncio.timeout(20):
            await asyncio.gather(*(sender(number) for number in range(20)))
    finally:
        calm.set()
        await troubles
    return acked


@pytest.mark.parametrize("seed", seeds(2))
async def test_each_record_is_stored_once_and_in_order_despite_random_faults(
    make_producer: Make, stored: Stored, seed: int
) -> None:
    async with FakeCluster(brokers=3, topics={"orders": 4}) as cluster:
        producer = make_producer(cluster, max_batch_size=400, buffer_memory=10_000)
        await producer.start()
        acked = await storm(cluster, producer, seed, asyncio.Event())
        found: dict[bytes, list[bytes]] = defaultdict(list)
        for records in stored(cluster, "orders").values():
            for record in records:
                found[record.key].append(record.value)
        assert len(acked) == 20
        assert found == acked
        assert producer._sender.pool.used == 0


async def test_no_acked_record_is_missing_without_idempotence_despite_random_faults(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(brokers=3, topics={"orders": 4}) as cluster:
        producer = make_producer(cluster, enable_idempotence=False, max_batch_size=400)
        await producer.start()
        acked = await storm(cluster, producer, 7, asyncio.Event())
        found: dict[bytes, list[bytes]] = defaultdict(list)
        for records in stored(cluster, "orders").values():
            for record in records:
                found[record.key].append(record.value)
        for key, values in acked.items():
            first_seen = list(dict.fromkeys(found[key]))
            assert first_seen == values, "each is there, and none overtook another"


async def test_a_record_to_a_topic_long_unused_is_stored(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        topics = producer._cluster._topics
        topics.add("orders")  # as the producer does once a second
        topics.on_answer(-topics._expiry)  # the clock's way of making it unused for five minutes
        topics.on_answer(0.0)
        await producer._cluster.refresh(asyncio.get_running_loop().time() + 5)
        assert not producer._accumulator.topics
        assert (await producer.send_and_wait("orders", b"second")).offset == 1
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"first", b"second"]


async def test_a_backoff_ends_also_by_a_timer_that_is_early(
    make_producer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    call_at = loop.call_at
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, retry_backoff_ms=100)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        fault = cluster.control(ApiKey.PRODUCE, error=NotEnoughReplicasError.errno, times=2)
        monkeypatch.setattr(  # as uvloop's, which rounds to milliseconds
            loop, "call_at", lambda when, *args, **more: call_at(when - 0.003, *args, **more)
        )
        await asyncio.wait_for(producer.send_and_wait("orders", b"second"), 5)
        assert fault.hits == 2


async def test_an_absurd_throttle_does_not_stop_it_for_days(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, request_timeout_ms=300)
        await producer.start()

        def throttle(response: Any) -> None:
            response.throttle_time_ms = 2**31 - 1

        cluster.control(ApiKey.PRODUCE, edit=throttle, times=1)
        await producer.send_and_wait("orders", b"first")
        await asyncio.wait_for(producer.send_and_wait("orders", b"second"), 5)


async def test_a_leader_hint_is_used_with_its_address(
    make_producer: Make,
) -> None:
    async with FakeCluster(brokers=2, topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        known = producer._cluster.metadata
        old = known.leader("orders", 0)
        new = next(node for node in known.brokers.values() if node != old)
        # As if the new leader had joined the cluster only after the last refresh.
        producer._cluster.metadata = known._replace(brokers={old.node_id: old})
        cluster.control(ApiKey.METADATA, drop=True, times=None)
        cluster.move_leader("orders", 0, new.node_id)
        await asyncio.wait_for(producer.send_and_wait("orders", b"second"), 5)
        assert producer._cluster.metadata.leader("orders", 0) == new


async def test_errors_after_stop_state_if_a_batch_may_be_stored(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics={"orders": 2}) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        mute = cluster.control(ApiKey.PRODUCE, after_handling=True, drop=True)
        sent = await producer.send("orders", b"sent", partition=0)
        await mute.struck()
        cluster.pause(0)
        never_sent = await producer.send("orders", b"never sent", partition=0)
        await producer.stop(timeout=0)
        with pytest.raises(ProducerClosed, match="MAY have been written") as maybe:
            await sent
        with pytest.raises(ProducerClosed) as never:
            await never_sent
        assert maybe.value.ambiguous
        assert not never.value.ambiguous
        assert "MAY" not in str(never.value)
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"sent"]


async def test_a_refusal_after_an_attempt_without_an_answer_is_no_certainty(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()
        cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=True)
        refusal = TopicAuthorizationFailedError
        cluster.control(ApiKey.PRODUCE, error=refusal)
        with pytest.raises(refusal, match="MAY have been written") as maybe:
            await producer.send_and_wait("orders", b"stored by the first attempt")
        assert maybe.value.ambiguous
        assert len(stored(cluster, "orders")[0]) == 1
        cluster.control(ApiKey.PRODUCE, error=refusal)
        with pytest.raises(refusal) as never:
            await producer.send_and_wait("orders", b"refused at once")
        assert not never.value.ambiguous


@pytest.mark.parametrize("attempted", [True, False])
async def test_a_delivery_timeout_sets_ambiguous(make_producer: Make, attempted: bool) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(
            cluster, request_timeout_ms=100, delivery_timeout_ms=300, metadata_max_age_ms=100
        )
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        if attempted:
            cluster.control(ApiKey.PRODUCE, drop=True, times=None)
        else:
            cluster.kill(0)
            await asyncio.sleep(0.02)
        with pytest.raises(DeliveryTimeoutError) as late:
            await producer.send_and_wait("orders", b"second")
        assert late.value.ambiguous is attempted


async def test_no_backoff_at_all_still_grows_to_one(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster, retry_backoff_ms=0)
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        cluster.control(ApiKey.PRODUCE, error=NotEnoughReplicasError.errno, times=None)
        asked = cluster.count(ApiKey.PRODUCE)
        ack = await producer.send("orders", b"second")
        await asyncio.wait([ack], timeout=0.3)
        assert 2 < cluster.count(ApiKey.PRODUCE) - asked < 15, "as often as it is answered"


async def test_batches_move_to_the_new_leader_once_the_one_in_flight_is_stored(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster(brokers=2, topics=["orders"]) as cluster:
        cluster.move_leader("orders", 0, 0)
        producer = make_producer(cluster, max_in_flight_requests_per_connection=1)
        await producer.start()
        cluster.control(ApiKey.PRODUCE, after_handling=True, delay=0.2)
        first = await producer.send("orders", b"1")
        async with asyncio.timeout(10):
            while not cluster.count(ApiKey.PRODUCE):
                await asyncio.sleep(0.001)
        second = await producer.send("orders", b"2")
        cluster.move_leader("orders", 0, 1)
        await producer.client.force_metadata_update()
        assert [(await first).offset, (await second).offset] == [0, 1]
        assert producer.metrics()["record-retry-total"] == 0
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"1", b"2"]


async def test_a_bug_after_the_response_delays_no_outcome(
    make_producer: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()

        def mistake(*_: object) -> None:
            raise RuntimeError("a mistake")

        monkeypatch.setattr(producer._sender.metrics, "on_response", mistake)
        waiting = asyncio.ensure_future(producer.send_and_wait("orders", b"v"))
        done, _ = await asyncio.wait([waiting], timeout=10)
        assert done
        assert waiting.result().offset == 0
        assert "a mistake" in caplog.text


async def test_stop_flushes_tls_connections_with_acks_0(
    make_producer: Make, tls_files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    certfile, keyfile = tls_files
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certfile, keyfile)
    connection_made = FrameTransport.connection_made

    def narrow(self: FrameTransport, transport: asyncio.BaseTransport) -> None:
        copy = os.dup(transport.get_extra_info("socket").fileno())
        with socket.socket(fileno=copy) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection_made(self, transport)

    monkeypatch.setattr(FrameTransport, "connection_made", narrow)
    async with FakeCluster(topics=["orders"], ssl_context=server) as cluster:
        producer = make_producer(
            cluster,
            acks=0,
            security_protocol="SSL",
            ssl_context=ssl.create_default_context(cafile=str(certfile)),
        )
        await producer.start()
        await producer.send_and_wait("orders", b"first")
        cluster.pause(0)
        for _ in range(9_000):
            await producer.send("orders", b"x" * 900)
        asyncio.get_running_loop().call_later(0.1, cluster.resume, 0)
        await producer.stop()
        async with asyncio.timeout(10):
            while cluster.partition("orders", 0).log.end_offset < 9_001:
                await asyncio.sleep(0.05)
