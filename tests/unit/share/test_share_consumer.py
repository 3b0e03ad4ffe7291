"""The share consumer against the embedded broker: reads, marks, every error of the protocol."""

from __future__ import annotations

import asyncio
import logging
import pickle
from typing import Any, cast

import pytest

from aiokafka_lite import (
    AcknowledgeType,
    AIOKafkaShareConsumer,
    ConsumerRecord,
    ConsumerStoppedError,
    IllegalOperation,
    ShareRecord,
)
from aiokafka_lite.errors import (
    FencedLeaderEpochError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InconsistentTopicIdError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    KafkaError,
    KafkaStorageError,
    NotLeaderForPartitionError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    TopicAuthorizationFailedError,
    UnknownError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.header import BatchHeader, write_crc
from aiokafka_lite.record.legacy import encode_message_set
from aiokafka_lite.share.acquired_records import Decoding
from aiokafka_lite.share.acquisition import Acquisition
from aiokafka_lite.share.records._share_record_python import AcquiredRange
from aiokafka_lite.share.records.offset_states import GAP
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

PATIENCE = 30.0
SHARE_FETCH, SHARE_ACKNOWLEDGE, HEARTBEAT = (
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.SHARE_GROUP_HEARTBEAT,
)


def fill(cluster: FakeCluster, count: int) -> set[int]:
    for value in range(count):
        cluster.produce("jobs", b"%d" % value, partition=value % 2)
    return set(range(count))


async def drain(
    consumer: AIOKafkaShareConsumer, wanted: set[int], cluster: FakeCluster | None = None
) -> list[KafkaError]:
    """Read and accept until each value is accepted for certain; return the errors of reads.

    After a failure, time passes on the cluster: an injected error does not end a lock.
    """
    errors: list[KafkaError] = []
    accepted: set[int] = set()
    async with asyncio.timeout(PATIENCE):
        while not wanted <= accepted:
            try:
                batch = await consumer.getmany(timeout_ms=1000, max_records=3)
            except KafkaError as error:
                errors.append(error)
                continue
            failed = False
            for mark, record in [(record.accept(), record) for record in batch]:
                try:
                    await mark
                except KafkaError:
                    failed = True  # it is redelivered
                    continue
                accepted.add(int(record.value))
            if failed and cluster is not None:
                cluster.advance(31)
    return errors


async def test_records_of_two_leaders_are_accepted(cluster, make) -> None:
    values = fill(cluster, 20)
    async with make("jobs") as consumer:
        assert consumer.assignment() == {("jobs", 0), ("jobs", 1)}
        assert await drain(consumer, values) == []
        assert consumer.acquisition_lock_timeout_ms == 30000
        metrics = consumer.metrics()
    assert metrics["records-consumed-total"] == 20
    assert metrics["acknowledgements-send-total"] == 20
    assert metrics["acknowledgements-error-total"] == 0


async def test_metrics_count_records_of_an_iteration_that_has_not_waited_since(
    cluster, make
) -> None:
    fill(cluster, 20)
    async with make("jobs") as consumer:
        taken = 0
        async for record in consumer:
            record.accept()
            taken += 1
            if taken == 3:
                break
        assert consumer.metrics()["records-consumed-total"] == 3
        await consumer.getone()
        assert consumer.metrics()["records-consumed-total"] == 4


async def test_buffered_records_are_read_only_in_the_consumers_loop(cluster, make) -> None:
    fill(cluster, 20)
    async with make("jobs") as consumer:
        await consumer.getone()
        assert consumer.metrics()["records-buffered"]
        for read in (consumer.getone, consumer.__anext__):  # in a loop of another thread
            with pytest.raises(IllegalStateError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, read())


RECOVERS = (
    ShareSessionNotFoundError,
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    NotLeaderForPartitionError,
    FencedLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    InconsistentTopicIdError,
    KafkaStorageError,
)
RAISES = (TopicAuthorizationFailedError, GroupAuthorizationFailedError, UnknownError)


@pytest.mark.parametrize("api", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
@pytest.mark.parametrize("skip", [0, 3])
@pytest.mark.parametrize("error", [*RECOVERS, *RAISES])
async def test_every_record_is_accepted_whatever_a_broker_answers(
    cluster, make, api, skip, error
) -> None:
    values = fill(cluster, 20)
    seen = 0

    def later(request: object) -> bool:
        nonlocal seen
        seen += 1
        return seen > skip

    async with make("jobs") as consumer:
        fault = cluster.control(api, times=2, error=error, when=later)
        errors = await drain(consumer, values, cluster)
        # Acknowledgements are also sent with fetches, so the fault may not have occurred.
        assert fault.hits == 2 or api == SHARE_ACKNOWLEDGE
    if error in RECOVERS:
        assert errors == []
    assert all(isinstance(each, error) for each in errors)


@pytest.mark.parametrize("api", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
@pytest.mark.parametrize("handled", [False, True])
async def test_a_lost_connection_loses_no_record(cluster, make, api, handled) -> None:
    values = fill(cluster, 20)
    async with make("jobs") as consumer:
        cluster.control(api, times=2, disconnect=True, after_handling=handled)
        assert await drain_repeats(consumer, values) == values


async def drain_repeats(consumer: AIOKafkaShareConsumer, wanted: set[int]) -> set[int]:
    """Like `drain`; a record whose result is unknown may have been accepted."""
    done: set[int] = set()
    async with asyncio.timeout(PATIENCE):
        while not wanted <= done:
            for record in await consumer.getmany(timeout_ms=1000, max_records=3):
                try:
                    await record.accept()
                except InvalidRecordStateError:
                    continue
                except KafkaError as error:
                    if not error.ambiguous:
                        raise
                done.add(int(record.value))
    return done


async def test_locks_of_a_lost_connection_are_known_to_be_gone(cluster, make, caplog) -> None:
    fill(cluster, 1)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        held = await consumer.getone()
        cluster.control(SHARE_FETCH, times=None, disconnect=True, node=held.partition)
        reading = asyncio.create_task(consumer.getmany(timeout_ms=500, max_records=1))
        while held.lock_deadline:
            await asyncio.sleep(0.01)
        await reading
        with pytest.raises(InvalidRecordStateError, match="connection to broker"):
            await held.accept()
    assert "the connection to broker" in caplog.text


async def test_an_expired_lock_does_not_fail_the_others(cluster, make) -> None:
    for value in range(20):
        cluster.produce("jobs", b"%d" % value, partition=0)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        records = []
        while len(records) < 20:
            records.extend(await consumer.getmany(timeout_ms=1000))
        renewed = [record for record in records if record.offset != 7]
        cluster.advance(20)
        await asyncio.gather(*(record.renew() for record in renewed))
        cluster.advance(20)
        results = await asyncio.gather(
            *(record.accept() for record in records), return_exceptions=True
        )
        failed = [
            record.offset
            for record, result in zip(records, results, strict=True)
            if result is not None
        ]
        assert failed == [7]
        assert isinstance(results[7], InvalidRecordStateError)
        [again] = await consumer.getmany(timeout_ms=5000)
        assert (again.offset, again.delivery_count) == (7, 2)
        await again.accept()


async def test_a_moved_leader_ends_the_locks(cluster, make) -> None:
    fill(cluster, 20)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        held = await consumer.getone()
        cluster.move_leader("jobs", held.partition, 1 - held.partition)
        with pytest.raises(KafkaError):
            await held.accept()
        await drain(consumer, set(range(20)), cluster)


async def test_a_fenced_member_rejoins_and_its_locks_live_on(cluster, make) -> None:
    values = fill(cluster, 4)
    for error in (FencedMemberEpochError, UnknownMemberIdError):
        async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
            held = await consumer.getone()
            fault = cluster.control(HEARTBEAT, error=error)
            consumer._core.group.driver.rejoin("a test")
            await fault.struck()
            assert await held.accept() is None
            values.remove(int(held.value))
            while not consumer.assignment():
                await asyncio.sleep(0.01)
    async with make("jobs") as consumer:
        await drain(consumer, values)


async def test_unawaited_marks_are_sent_without_another_read(cluster, make) -> None:
    fill(cluster, 1)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        record = await consumer.getone()
        mark = record.accept()
        while not mark.done():
            await asyncio.sleep(0.001)
        assert mark.result() is None


async def test_a_failure_that_is_not_awaited_is_logged(cluster, make, caplog) -> None:
    fill(cluster, 1)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        record = await consumer.getone()
        cluster.advance(31)
        record.accept()
        await consumer.flush()
        while "acknowledgements failed" not in caplog.text:
            await asyncio.sleep(0.001)
    assert "jobs-0 offsets 0 to 0" in caplog.text
    assert caplog.text.count("acknowledgements failed") == 1


async def test_a_read_acquires_no_more_than_it_returns(cluster, make) -> None:
    fill(cluster, 20)
    acquired = []
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):

        def count(response) -> None:
            for topic in response.responses:
                for partition in topic.partitions:
                    acquired.extend(
                        each.last_offset + 1 - each.first_offset
                        for each in partition.acquired_records
                    )

        cluster.control(SHARE_FETCH, times=None, after_handling=True, edit=count)
        while not (batch := await consumer.getmany(timeout_ms=1000, max_records=1)):
            pass
        assert (len(batch), sum(acquired)) == (1, 1)
        got = 1
        while got < 6:
            got += len(await consumer.getmany(timeout_ms=1000, max_records=5))
        assert sum(acquired) <= 1 + 5 * 2
        assert got + consumer.metrics()["records-buffered"] == sum(acquired)


async def test_getmany_without_a_timeout_returns_at_once_and_fetches_for_the_next_read(
    cluster, make
) -> None:
    fill(cluster, 2)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        assert list(await consumer.getmany()) == []
        while not (batch := await consumer.getmany()):
            await asyncio.sleep(0.01)
        assert isinstance(batch[0], ShareRecord)


async def test_stop_ends_pending_reads_and_releases(cluster, make) -> None:
    fill(cluster, 4)
    consumer = make("jobs")
    await consumer.start()
    async with asyncio.timeout(PATIENCE):
        held = [await consumer.getone() for _ in range(4)]
        held[0].accept()
        one = asyncio.create_task(consumer.getone())
        many = asyncio.create_task(consumer.getmany(timeout_ms=60000))
        await asyncio.sleep(0)
        await consumer.stop()
        with pytest.raises(ConsumerStoppedError):
            await one
        assert list(await many) == []
        with pytest.raises(ConsumerStoppedError):
            await consumer.getone()
        assert [record async for record in make_ended(consumer)] == []
    async with make("jobs") as other:
        async with asyncio.timeout(PATIENCE):
            counts = [(await other.getone()).delivery_count for _ in range(3)]
    assert counts == [2, 2, 2]


async def make_ended(consumer: AIOKafkaShareConsumer):
    with pytest.raises(ConsumerStoppedError):
        consumer.__aiter__()
    return
    yield


async def test_the_last_acknowledgements_travel_with_the_closing_request(cluster, make) -> None:
    values = fill(cluster, 20)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        while values:
            record = await consumer.getone()
            values.remove(int(record.value))
            record.accept()
    async with make("jobs") as other:
        cluster.produce("jobs", b"99", partition=0)
        async with asyncio.timeout(PATIENCE):
            assert (await other.getone()).value == b"99"


async def test_an_expired_lock_does_not_fail_the_last_acknowledgements(cluster, make) -> None:
    cluster.produce("jobs", b"0", partition=0)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        expires = await consumer.getone()
        cluster.advance(20)
        cluster.produce("jobs", b"1", partition=0)
        lasts = await consumer.getone()
        cluster.advance(15)  # the broker has unlocked the first, which the consumer cannot see
        marks = expires.accept(), lasts.accept()
    with pytest.raises(InvalidRecordStateError):
        marks[0].result()
    assert marks[1].result() is None
    async with make("jobs") as other, asyncio.timeout(PATIENCE):
        cluster.produce("jobs", b"2", partition=0)
        values = [(await other.getone()).value for _ in range(2)]
    assert values == [b"0", b"2"]


async def test_stop_is_bounded_when_a_broker_is_mute(cluster, make) -> None:
    fill(cluster, 2)
    consumer = make("jobs")
    await consumer.start()
    async with asyncio.timeout(PATIENCE):
        record = await consumer.getone()
        cluster.control(SHARE_ACKNOWLEDGE, times=None, drop=True)
        mark = record.accept()
        await consumer.stop()
        with pytest.raises(KafkaError):
            await mark


async def test_unsubscribe_and_subscribe_again(cluster, make) -> None:
    values = fill(cluster, 6)
    async with make() as consumer, asyncio.timeout(PATIENCE):
        consumer.subscribe(["jobs"])
        held = await consumer.getone()
        consumer.unsubscribe()
        assert consumer.subscription() == frozenset()
        assert await held.accept() is None
        values.remove(int(held.value))
        consumer.subscribe(["jobs"])
        await drain(consumer, values)


@pytest.mark.parametrize("topics", [[], ["more"]])
async def test_records_that_arrive_after_the_end_of_their_subscription_are_released(
    cluster, make, topics
) -> None:
    cluster.create_topic("more", 1)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        assert not await consumer.getmany(timeout_ms=200)
        await asyncio.sleep(0.2)  # its last fetch has ended
        fault = cluster.control(ApiKey.SHARE_FETCH, delay=0.2, after_handling=True, node=0)
        cluster.produce("jobs", b"0", partition=0)
        reading = asyncio.create_task(consumer.getone())
        await fault.struck()
        reading.cancel()
        if topics:
            consumer.subscribe(topics)
        else:
            consumer.unsubscribe()
        while cluster.share_group("workers").acquired:
            await asyncio.sleep(0.01)
        assert not await consumer.getmany(timeout_ms=100)


@pytest.mark.parametrize("policy", ["reject", "raise"])
async def test_a_deserializer_that_raises_a_cancellation_stops_no_fetches(
    cluster, make, policy
) -> None:
    def text(data: bytes) -> str:
        if data == b"bad":
            raise asyncio.CancelledError
        return data.decode()

    for value in (b"bad", b"good"):
        cluster.produce("jobs", value, partition=0)
    options = {"value_deserializer": text, "on_undecodable": policy}
    async with make("jobs", **options) as consumer, asyncio.timeout(PATIENCE):
        if policy == "raise":
            with pytest.raises(KafkaError, match="CancelledError"):
                await consumer.getone()
            assert await consumer.acknowledge("jobs", 0, 0) is None
        record = await consumer.getone()
        assert record.value == "good"
        assert await record.accept() is None


async def test_records_copy_and_pickle_as_plain_ones(cluster, make) -> None:
    fill(cluster, 1)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        record = await consumer.getone()
        plain = pickle.loads(pickle.dumps(record))
        assert type(plain) is ConsumerRecord
        assert (plain.topic, plain.value) == ("jobs", b"0")
        record.accept()


async def test_acknowledging_by_place_and_by_record(cluster, make) -> None:
    fill(cluster, 3)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        one, two, three = [await consumer.getone() for _ in range(3)]
        await consumer.acknowledge(one)
        await consumer.acknowledge(two, AcknowledgeType.REJECT)
        place = (three.topic, three.partition, three.offset)
        await consumer.acknowledge(*place, AcknowledgeType.RENEW)
        await consumer.acknowledge(*place)
        with pytest.raises(IllegalStateError, match="not locked"):
            consumer.acknowledge(*place)
        with pytest.raises(IllegalStateError, match="not locked"):
            consumer.acknowledge("jobs", 0, 99)
        with pytest.raises(TypeError, match="AcknowledgeType"):
            consumer.acknowledge(one, 1)
        with pytest.raises(TypeError, match="acknowledge"):
            consumer.acknowledge(one, AcknowledgeType.ACCEPT, 2)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("policy", ["reject", "release", "raise"])
async def test_corrupt_batches_are_skipped(cluster, make, policy, magic, caplog) -> None:
    for value in range(3):
        cluster.produce("jobs", b"%d" % value, partition=0)

    def corrupt(response) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.records:
                    data = bytearray(partition.records)
                    if magic < 2:  # a log may still have old formats
                        values = [(1_700_000_000_000, None, b"%d" % value) for value in range(3)]
                        data = bytearray(encode_message_set(values, magic))
                    length = int.from_bytes(data[8:12], "big") + 12
                    data[2 * length - 1] ^= 1  # in the second batch
                    partition.records = bytes(data)

    async with make("jobs", on_undecodable=policy) as consumer, asyncio.timeout(PATIENCE):
        fault = cluster.control(SHARE_FETCH, times=None, after_handling=True, edit=corrupt)
        seen = []
        errors = 0
        while len(seen) < 2:
            try:
                record = await consumer.getone()
            except KafkaError as error:
                errors += "offsets 1 to 1" in error.__notes__[0]
                await consumer.acknowledge("jobs", 0, 1, AcknowledgeType.RELEASE)
                fault.remove()
            else:
                seen.append(record.value)
                record.accept()
        fault.remove()
        assert seen == [b"0", b"2"]
        if policy != "reject":
            again = await consumer.getone()
            assert (again.value, again.delivery_count) == (b"1", 2)
    assert errors == (policy == "raise")
    assert ("cannot be read" in caplog.text) == (policy != "raise")


async def test_a_batch_after_a_batch_with_surplus_bytes_is_read(cluster, make) -> None:
    """All its records have been read when it fails, and the next offset already belongs to the
    next batch."""
    for value in range(3):
        cluster.produce("jobs", b"%d" % value, partition=0)

    def corrupt(response) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.records:
                    data = bytearray(partition.records)
                    header = BatchHeader.read(data)
                    first = data[: header.size] + b"?"
                    header._replace(batch_length=header.batch_length + 1).write(first)
                    write_crc(first, 0, len(first))
                    partition.records = bytes(first + data[header.size :])

    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        cluster.control(SHARE_FETCH, after_handling=True, edit=corrupt)
        seen = []
        for _ in range(3):
            record = await consumer.getone()
            seen.append(record.value)
            record.accept()
    assert seen == [b"0", b"1", b"2"]


@pytest.mark.parametrize("delta", [0, 2, 100])
@pytest.mark.parametrize("policy", ["reject", "release", "raise"])
async def test_a_corrupt_last_offset_delta_costs_its_own_batch_only(policy, delta) -> None:
    """The header claims an end before the first acquired offset, among those of its batch, or
    after those of the next batch. None of its offsets is a gap; the next batch is read."""

    class Owner:
        def on_marked(self, acquisition: Acquisition) -> None: ...

    def batch(base: int) -> bytearray:
        builder = BatchBuilder(10_000)
        for _ in range(5):
            builder.append(1_700_000_000_000, None, b"v")
        return bytearray(base.to_bytes(8, "big") + bytes(builder.seal(0))[8:])

    data = batch(5)
    data[23:27] = delta.to_bytes(4, "big")
    tp, ranges = TopicPartition("jobs", 0), [AcquiredRange(7, 14, 1)]
    decoding = Decoding(on_undecodable=policy)
    marked = decoding.acquire(
        ranges,
        lambda first, last: Acquisition(
            cast(Any, Owner()), tp, cast(Any, ("id", 0)), first, last, 1e9, 1e9
        ),
    )
    loop = asyncio.get_running_loop()
    items = await decoding.decode(loop, bytes(data + batch(10)), tp, ranges, marked)
    assert sum(isinstance(item, KafkaError) for item in items) == (policy == "raise")
    assert [item.offset for item in items[-5:]] == list(range(10, 15))
    assert GAP not in marked[0].states
    assert len(items) == 5 + (policy == "raise")


# arguments


REFUSED = (
    "auto_offset_reset",
    "enable_auto_commit",
    "group_instance_id",
    "isolation_level",
    "partition_assignment_strategy",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "group_protocol",
)


@pytest.mark.parametrize("name", REFUSED)
async def test_options_that_a_share_group_cannot_have_are_refused_by_name(name) -> None:
    with pytest.raises(ValueError, match=f"`{name}` is not an option of AIOKafkaShareConsumer"):
        AIOKafkaShareConsumer("jobs", group_id="g", **{name: 1})


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"group_id": None}, ValueError, "`group_id` is required"),
        ({"group_id": ""}, ValueError, "`group_id`"),
        ({"max_poll_records": 0}, ValueError, "`max_poll_records`"),
        ({"max_poll_records": None}, TypeError, "`max_poll_records`"),
        ({"acquire_mode": "x"}, ValueError, "'record_limit' or 'batch_optimized'"),
        ({"acknowledgement_mode": 1}, TypeError, "`acknowledgement_mode`"),
        ({"on_undecodable": "skip"}, ValueError, "'reject', 'release' or 'raise'"),
        ({"value_deserializer": 1}, TypeError, "`value_deserializer`"),
        ({"max_poll_record": 1}, TypeError, "did you mean `max_poll_records`"),
    ],
)
async def test_invalid_arguments_are_refused(options, kind, text) -> None:
    with pytest.raises(kind, match=text):
        AIOKafkaShareConsumer("jobs", **{"group_id": "g", **options})


async def test_calls_that_a_share_group_cannot_serve_are_refused(make) -> None:
    consumer = make("jobs")
    for call in (consumer.seek, consumer.assign):
        with pytest.raises(IllegalOperation):
            call()
    with pytest.raises(IllegalOperation):
        await consumer.commit()
    with pytest.raises(IllegalOperation):
        consumer.subscribe(["jobs"], pattern="jobs.*")
    with pytest.raises(ValueError, match="unsubscribe"):
        consumer.subscribe([])
    with pytest.raises(IllegalStateError, match="not started"):
        await consumer.getone()


async def test_an_older_broker_is_refused_with_the_release_that_is_needed(caplog) -> None:
    async with FakeCluster(topics={"jobs": 1}, version="3.9") as cluster:
        consumer = AIOKafkaShareConsumer(
            "jobs", group_id="g", bootstrap_servers=cluster.bootstrap_servers
        )
        with pytest.raises(UnsupportedVersionError, match=r"share groups.*Kafka 4\.1"):
            await consumer.start()
        await consumer.stop()
    assert not [each for each in caplog.records if each.levelno > logging.ERROR]
