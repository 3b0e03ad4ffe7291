"""Truncated logs, leader changes and recreated topics (KIP-320) on embedded brokers."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.offsets import offset_validation as validation
from aiokafka_lite.errors import (
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    for_code,
)
from aiokafka_lite.protocol.messages.metadata import MetadataResponse
from aiokafka_lite.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import FakeCluster, Fault, VirtualClock
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, numbered, until
from tests.unit.consumer.test_resuming import Commit, Group, member
from tests.unit.error_table import assert_reactions, reactions

pytestmark = pytest.mark.unhurried

P0, P1 = (TopicPartition("orders", i) for i in range(2))
ASKED = ApiKey.OFFSET_FOR_LEADER_EPOCH


async def read(consumer: AIOKafkaConsumer, count: int) -> list[tuple[int, bytes]]:
    async with asyncio.timeout(10):
        records = [await consumer.getone() for _ in range(count)]
    return [(record.offset, record.value) for record in records]


async def reader(
    make: MakeConsumer, *partitions: TopicPartition, **options: object
) -> AIOKafkaConsumer:
    consumer = make(**options)
    consumer.assign(partitions or [P0])
    await consumer.start()
    return consumer


def numbers(first: int, end: int, prefix: str = "v") -> list[tuple[int, bytes]]:
    return [(i, b"%s%d" % (prefix.encode(), i)) for i in range(first, end)]


def cut(cluster: FakeCluster, to: int, then: int, partition: int = 0) -> None:
    """Lose the log from an offset on, and write other records there."""
    cluster.truncate("orders", partition, to)
    append(cluster, [value for _, value in numbers(to, to + then, "n")], partition)


@pytest.mark.parametrize("then", [1, 20], ids=["shorter", "longer"])
async def test_the_position_goes_back_to_where_the_log_was_cut(
    cluster: FakeCluster, make: MakeConsumer, then: int
) -> None:
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    consumer = await reader(make, auto_offset_reset="latest")
    consumer.seek(P0, 0)
    assert await read(consumer, 10) == numbers(0, 10)
    cut(cluster, 5, then)
    assert await read(consumer, then) == numbers(5, 5 + then, "n")
    assert cluster.count(ASKED) == 1


@pytest.mark.parametrize("then", [1, 20], ids=["shorter", "longer"])
async def test_without_a_policy_reads_raise_until_the_application_seeks(
    cluster: FakeCluster, make: MakeConsumer, then: int
) -> None:
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    consumer = await reader(make, auto_offset_reset="none")
    consumer.seek(P0, 0)
    assert await read(consumer, 10) == numbers(0, 10)
    cut(cluster, 5, then)
    for _ in range(2):
        with pytest.raises(LogTruncationError) as caught:
            await read(consumer, 1)
    assert isinstance(caught.value, OffsetOutOfRangeError)
    assert caught.value.offsets == {P0: 10}
    assert caught.value.divergent_offsets == {P0: 5}
    assert "the logs diverge at offset 5" in str(caught.value)
    consumer.seek(P0, caught.value.divergent_offsets[P0])
    assert await read(consumer, then) == numbers(5, 5 + then, "n")


@pytest.mark.parametrize("then", [1, 20], ids=["shorter", "longer"])
async def test_a_position_from_the_reset_policy_goes_back_to_where_the_log_was_cut(
    cluster: FakeCluster, make: MakeConsumer, then: int
) -> None:
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    consumer = await reader(make, auto_offset_reset="latest")
    assert await consumer.position(P0) == 10
    assert cluster.count(ASKED) == 0, "the leader has just said so"
    cut(cluster, 5, then)
    assert await read(consumer, then) == numbers(5, 5 + then, "n")
    assert cluster.count(ASKED) == 1


@pytest.mark.parametrize("policy", ["earliest", "none"])
async def test_an_offset_that_was_stored_with_its_epoch_is_validated_after_a_seek(
    cluster: FakeCluster, make: MakeConsumer, policy: str
) -> None:
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    consumer = await reader(make)
    record = [await consumer.getone() for _ in range(10)][-1]
    await consumer.stop()
    stored = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
    cut(cluster, 5, 20)
    consumer = await reader(make, auto_offset_reset=policy)
    consumer.seek(P0, stored)
    if policy == "none":
        with pytest.raises(LogTruncationError) as caught:
            await read(consumer, 1)
        assert caught.value.divergent_offsets == {P0: 5}
    else:
        assert await read(consumer, 20) == numbers(5, 25, "n")


async def test_a_truncation_offset_does_not_apply_to_a_recreated_topic(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    consumer = await reader(make, auto_offset_reset="none")
    consumer.seek(P0, 0)
    assert await read(consumer, 10) == numbers(0, 10)
    state = consumer._core.positions.state(P0)
    cut(cluster, 5, 1)
    await until(lambda: state.error is not None)
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 3)
    await consumer._core.cluster.refresh(consumer._core.deadline())
    await until(lambda: state.remade)  # once its leader has reported it
    with pytest.raises(LogTruncationError) as caught:
        await consumer.getone()
    assert caught.value.divergent_offsets == {}


async def test_a_new_leader_with_the_same_log_changes_nothing(make: MakeConsumer) -> None:
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        append(cluster, numbered(5))
        consumer = await reader(make, bootstrap_servers=cluster.bootstrap_servers)
        assert await read(consumer, 5) == numbers(0, 5)
        for round_ in range(1, 4):
            cluster.move_leader("orders", 0, round_ % 2)
            append(cluster, numbered(5, 5 * round_))
            assert await read(consumer, 5) == numbers(5 * round_, 5 * round_ + 5)
        assert cluster.count(ASKED) == 3


async def test_no_validation_is_requested_without_an_epoch(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make)
    assert await read(consumer, 5) == numbers(0, 5)
    consumer.seek(P0, 5)  # in an unknown epoch
    cluster.move_leader("orders", 0, 0)
    append(cluster, numbered(1, 5))
    assert await read(consumer, 1) == numbers(5, 6)
    assert cluster.count(ASKED) == 0


@pytest.mark.parametrize("policy", ["earliest", "none"])
async def test_unread_records_of_a_truncated_log_are_dropped(
    cluster: FakeCluster, make: MakeConsumer, policy: str
) -> None:
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    consumer = await reader(make, auto_offset_reset=policy)
    consumer.seek(P0, 0)
    assert await read(consumer, 2) == numbers(0, 2)  # all ten are decoded
    cut(cluster, 5, 3)
    await until(lambda: cluster.count(ASKED) >= 2)  # after the ten, then after the two
    assert await consumer.position(P0) == 2
    assert await read(consumer, 6) == numbers(2, 5) + numbers(5, 8, "n")


@pytest.mark.parametrize(
    ("cut_at", "begins"),
    [(8, 4), (6, 4), (4, 4), (2, 2)],
    ids=["behind the batch", "within", "at its start", "before"],
)
@pytest.mark.parametrize("decoded", [True, False], ids=["more is decoded", "nothing is"])
async def test_a_failed_batch_is_given_back_after_a_truncation(
    cluster: FakeCluster, make: MakeConsumer, cut_at: int, begins: int, decoded: bool
) -> None:
    """The cut moves the position; only the application or the policy may skip a batch."""
    for first in range(0, 12 if decoded else 8, 2):
        append(cluster, numbered(2, first))
    consumer = make(auto_offset_reset="latest", group_id="store", auto_commit_interval_ms=1)
    consumer.assign([P0])
    async with consumer:
        consumer.seek(P0, 0)
        state = consumer._core.positions.state(P0)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(max_records=4) as batches:
                assert (await anext(batches)).start == 0
                second = await anext(batches)
                assert (second.start, second.next_offset) == (4, 8)
                if decoded:
                    assert (await consumer.getone()).offset == 8
                    assert state.fetched.chunk is not None
                asked, generation = cluster.count(ASKED), state.fetch_generation
                cut(cluster, cut_at, 3)
                if cut_at < 8 or decoded:
                    await until(lambda: state.fetch_generation > generation)
                await until(lambda: cluster.count(ASKED) > asked and not state.unvalidated)
                assert state.at_work is not None
                raise ZeroDivisionError
        assert await consumer.position(P0) == begins
        read_ = await read(consumer, cut_at + 3 - begins)
        assert read_ == numbers(begins, cut_at) + numbers(cut_at, cut_at + 3, "n")


@pytest.fixture
async def patient() -> AsyncIterator[FakeCluster]:
    """A broker whose delays last until the test ends them."""
    async with FakeCluster(topics={"orders": 3}, clock=VirtualClock()) as cluster:
        yield cluster


async def test_records_read_during_the_validation_move_the_position(
    patient: FakeCluster, make: MakeConsumer
) -> None:
    cluster = patient
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    consumer = await reader(
        make, auto_offset_reset="none", bootstrap_servers=cluster.bootstrap_servers
    )
    consumer.seek(P0, 0)
    assert await read(consumer, 2) == numbers(0, 2)
    gate = cluster.control(ASKED, delay=1)
    cut(cluster, 5, 3)
    await gate.struck()
    assert await read(consumer, 5) == numbers(2, 7)  # two more than exist now
    cluster.advance(1)
    await until(lambda: consumer._core.positions.state(P0).error is not None)
    with pytest.raises(LogTruncationError) as caught:
        await read(consumer, 1)
    assert (caught.value.offsets, caught.value.divergent_offsets) == ({P0: 7}, {P0: 5})


async def test_a_commit_is_held_against_the_log(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    append(cluster, numbered(9), 1)
    cut(cluster, 5, 9)
    group = Group({P0: Commit(10, 0), P1: Commit(3, 0)})
    consumer = member(make, group)
    consumer.assign([P0, P1])
    await consumer.start()
    records = await read(consumer, 9 + 6)
    assert sorted(records) == sorted(numbers(5, 14, "n") + numbers(3, 9))
    assert cluster.count(ASKED) == 1  # both in one request


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
async def test_an_epoch_that_the_leader_does_not_know(
    cluster: FakeCluster, make: MakeConsumer, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic that was recreated without topic ids; Java would wait indefinitely."""
    monkeypatch.setattr(validation, "OUTDATED_TRIES", 2)
    monkeypatch.setattr(validation, "OUTDATED_FOR", 0.05)
    append(cluster, numbered(5))
    group = Group({P0: Commit(3, 7)})
    consumer = member(make, group, auto_offset_reset=policy)
    consumer.assign([P0])
    await consumer.start()
    if policy == "none":
        with pytest.raises(LogTruncationError) as caught:
            await read(consumer, 1)
        assert (caught.value.offsets, caught.value.divergent_offsets) == ({P0: 3}, {})
        assert "none of the records read" in str(caught.value)
    else:
        await until(lambda: cluster.count(ApiKey.LIST_OFFSETS) >= 1)
        assert await consumer.position(P0) == {"earliest": 0, "latest": 5}[policy]


async def test_metadata_older_than_the_commit_is_refreshed_first(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    consumer = member(make, group := Group({P0: Commit(4, 1)}))
    await consumer.start()
    consumer._core.subscription.topics = frozenset({"orders"})
    consumer._core.cluster.set_topics(["orders"])
    await until(lambda: "orders" in consumer._core.cluster.metadata.topics)
    cluster.move_leader("orders", 0, 0)
    append(cluster, numbered(1, 5))
    group.commits[P0] = Commit(6, 1)
    consumer.assign([P0])
    append(cluster, numbered(1, 6))
    assert await read(consumer, 1) == numbers(6, 7)
    assert cluster.count(ASKED) == 1


@pytest.mark.parametrize("policy", ["earliest", "latest"])
async def test_a_leader_cut_off_from_the_controller_resets_no_position(
    make: MakeConsumer, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not have the epoch of the commit, which is that of its successor."""
    monkeypatch.setattr(validation, "OUTDATED_TRIES", 2)
    async with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        append(cluster, numbered(6))
        cluster.move_leader("orders", 0, 1)
        append(cluster, numbered(4, 6))

        def lag_behind(response: MetadataResponse) -> None:
            for topic in response.topics:
                for partition in topic.partitions:
                    partition.leader_id = partition.leader_epoch = 0

        def know_no_epoch(response: OffsetForLeaderEpochResponse) -> None:
            for topic in response.topics:
                for partition in topic.partitions:
                    partition.error_code = 0
                    partition.leader_epoch = partition.end_offset = -1

        lagging = cluster.control(ApiKey.METADATA, times=None, edit=lag_behind)
        cluster.control(ASKED, node=0, times=None, edit=know_no_epoch)
        consumer = member(
            make,
            Group({P0: Commit(8, 1)}),
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset=policy,
        )
        consumer.assign([P0])
        await consumer.start()
        refreshed = cluster.count(ApiKey.METADATA)
        await until(lambda: cluster.count(ApiKey.METADATA) > refreshed + 5)
        lagging.remove()
        assert await read(consumer, 2) == numbers(8, 10)
        assert cluster.count(ApiKey.LIST_OFFSETS) == 0


@pytest.mark.parametrize(("oldest", "latest"), [(0, 0), (2, 2), (3, 3), (4, 4), (0, 4)])
async def test_versions(make: MakeConsumer, oldest: int, latest: int) -> None:
    async with FakeCluster(topics={"orders": 1}, api_versions={ASKED: (oldest, latest)}) as cluster:
        append(cluster, numbered(5))
        append(cluster, numbered(5, 5))
        consumer = await reader(make, bootstrap_servers=cluster.bootstrap_servers)
        assert await read(consumer, 10) == numbers(0, 10)
        cut(cluster, 5, 6)
        if latest < 3:  # only brokers may send the request: no detection, as before KIP-320
            assert await read(consumer, 1) == numbers(10, 11, "n")
            assert cluster.count(ASKED) == 0
        else:
            assert await read(consumer, 6) == numbers(5, 11, "n")


async def test_a_cluster_without_the_request(make: MakeConsumer) -> None:
    async with FakeCluster(topics={"orders": 1}, api_versions={ASKED: None}) as cluster:
        append(cluster, numbered(5))
        consumer = await reader(make, bootstrap_servers=cluster.bootstrap_servers)
        assert await read(consumer, 5) == numbers(0, 5)
        cluster.move_leader("orders", 0, 0)
        append(cluster, numbered(1, 5))
        assert await read(consumer, 1) == numbers(5, 6)


CODES = reactions(**{"raise": "TOPIC_AUTHORIZATION_FAILED"}, otherwise="retry")


async def test_every_error_of_a_validation() -> None:
    """As in OffsetsForLeaderEpochUtils.handleResponse."""

    async def reaction_to(code: int) -> str:
        async with FakeCluster(topics={"orders": 3}) as cluster:
            append(cluster, numbered(5))
            consumer = AIOKafkaConsumer(
                bootstrap_servers=cluster.bootstrap_servers,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=50,
                retry_backoff_ms=1,
                request_timeout_ms=5000,
            )
            consumer.assign([P0])
            async with consumer:
                assert await read(consumer, 5) == numbers(0, 5)
                fault = cluster.control(ASKED, error=code, times=1)
                cluster.move_leader("orders", 0, 0)
                append(cluster, numbered(1, 5))
                reaction = "retry"
                if CODES[code] == "raise":
                    with pytest.raises(for_code(code), match="orders"):
                        await read(consumer, 1)
                    reaction = "raise"
                assert await read(consumer, 1) == numbers(5, 6)
                assert fault.hits == 1
                assert cluster.count(ASKED) == 2
                return reaction

    await assert_reactions(CODES, reaction_to)


async def test_a_code_of_one_partition_holds_up_only_that(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    for partition in (0, 1):
        append(cluster, numbered(5), partition)
    consumer = await reader(make, P0, P1)
    await read(consumer, 10)
    cluster.control(ASKED, error=78, partitions=[("orders", 1)], times=None)
    for partition in (0, 1):
        cluster.move_leader("orders", partition, 0)
        append(cluster, numbered(1, 5), partition)
    record = await consumer.getone()
    assert (record.partition, record.offset) == (0, 5)
    assert await consumer.getmany(P1, timeout_ms=50) == {}


async def test_a_connection_that_breaks_is_made_again(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make)
    assert await read(consumer, 5) == numbers(0, 5)
    fault = cluster.control(ASKED, disconnect=True, times=2)
    cluster.move_leader("orders", 0, 0)
    append(cluster, numbered(1, 5))
    assert await read(consumer, 1) == numbers(5, 6)
    assert fault.hits == 2


def told(*ends: EpochEndOffset, topic: str = "orders") -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[OffsetForLeaderTopicResult(topic=topic, partitions=list(ends))]
    )


@pytest.mark.parametrize(
    "answer",
    [
        OffsetForLeaderEpochResponse(topics=[]),
        told(),
        told(EpochEndOffset(partition=7, leader_epoch=0, end_offset=0)),
        told(EpochEndOffset(partition=0, leader_epoch=0, end_offset=0), topic="others"),
    ],
    ids=["nothing", "no partition", "another partition", "another topic"],
)
async def test_an_answer_that_leaves_the_partition_out(
    cluster: FakeCluster, make: MakeConsumer, answer: OffsetForLeaderEpochResponse
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make, auto_offset_reset="none")
    consumer.seek(P0, 0)
    assert await read(consumer, 5) == numbers(0, 5)
    cluster.control(ASKED, respond_with=answer, times=1)
    cluster.move_leader("orders", 0, 0)
    append(cluster, numbered(1, 5))
    assert await read(consumer, 1) == numbers(5, 6)
    assert cluster.count(ASKED) == 2


@pytest.mark.parametrize(
    ("epoch", "end", "divergent"),
    [(-1, -1, {}), (-1, 3, {}), (0, -1, {}), (-7, -9, {}), (0, 3, {P0: 3}), (0, 0, {P0: 0})],
)
async def test_meaning_of_a_validation_response(
    cluster: FakeCluster,
    make: MakeConsumer,
    epoch: int,
    end: int,
    divergent: dict[TopicPartition, int],
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make, auto_offset_reset="none")
    consumer.seek(P0, 0)
    assert await read(consumer, 5) == numbers(0, 5)
    answer = told(EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=end))
    cluster.control(ASKED, respond_with=answer, times=1)
    cluster.move_leader("orders", 0, 0)
    with pytest.raises(LogTruncationError) as caught:
        await read(consumer, 1)
    assert caught.value.divergent_offsets == divergent


@pytest.mark.parametrize("act", ["seek", "assign again", "stop", "move again"])
async def test_a_late_response_is_ignored(
    patient: FakeCluster, make: MakeConsumer, act: str
) -> None:
    cluster = patient
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    consumer = await reader(make, bootstrap_servers=cluster.bootstrap_servers)
    assert await read(consumer, 10) == numbers(0, 10)
    gate = cluster.control(ASKED, delay=1)
    cut(cluster, 5, 9)
    await gate.struck()
    if act == "stop":
        await consumer.stop()
        return
    if act == "seek":
        consumer.seek(P0, 7)
    elif act == "assign again":
        consumer.assign([])
        consumer.assign([P0])
        assert await consumer.position(P0) == 0
    else:
        cluster.move_leader("orders", 0, 0)
        await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 5)
    cluster.advance(1)
    expected = {
        "seek": numbers(7, 14, "n"),
        "assign again": numbers(0, 5) + numbers(5, 14, "n"),
        "move again": numbers(5, 14, "n"),
    }[act]
    assert await read(consumer, len(expected)) == expected


async def test_positions_are_validated_in_one_request(make: MakeConsumer) -> None:
    async with FakeCluster(brokers=2, topics={"orders": 40}) as cluster:
        for partition in range(40):
            append(cluster, numbered(1), partition)
        partitions = [TopicPartition("orders", i) for i in range(40)]
        consumer = await reader(make, *partitions, bootstrap_servers=cluster.bootstrap_servers)
        await read(consumer, 40)
        for partition in range(40):
            cluster.move_leader("orders", partition, (partition + 1) % 2)
        await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 5)
        for partition in range(40):
            append(cluster, numbered(1, 1), partition)
        await read(consumer, 40)
        assert cluster.count(ASKED) <= 4


@pytest.mark.parametrize("policy", ["earliest", "none"])
async def test_a_topic_made_again_is_another_log(
    cluster: FakeCluster, make: MakeConsumer, policy: str
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make, auto_offset_reset=policy)
    consumer.seek(P0, 0)
    assert await read(consumer, 5) == numbers(0, 5)
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 3)
    append(cluster, [value for _, value in numbers(0, 9, "n")])  # longer than the old one
    if policy == "none":
        with pytest.raises(LogTruncationError) as caught:
            await read(consumer, 1)
        assert (caught.value.offsets, caught.value.divergent_offsets) == ({P0: 5}, {})
        consumer.seek(P0, 0)
    assert await read(consumer, 9) == numbers(0, 9, "n")
    assert cluster.count(ASKED) == 0


def lag(cluster: FakeCluster, topic_id: UUID, node: int | None = None) -> Fault:
    """Let one broker, or all, return an older or unknown id of a topic."""

    def edit(response: MetadataResponse) -> None:
        for topic in response.topics:
            topic.topic_id = topic_id

    return cluster.control(ApiKey.METADATA, node=node, times=None, edit=edit)


async def refreshed(consumer: AIOKafkaConsumer, topic_id: UUID) -> None:
    """Wait until the consumer gets this id."""
    asking = consumer._core.cluster
    async with asyncio.timeout(10):
        while asking.metadata.topics["orders"].topic_id != topic_id:
            await asking.refresh(consumer._core.deadline())


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
@pytest.mark.parametrize("seen", [True, False], ids=["an older id", "an unknown id"])
async def test_a_broker_that_lags_behind_resets_no_position(
    make: MakeConsumer, policy: str, seen: bool
) -> None:
    """Broker 0 returns another topic id; 1 leads the partition."""
    async with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        consumer = await reader(
            make, P1, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset=policy
        )
        consumer.seek(P1, 0)
        state = consumer._core.positions.state(P1)
        older = state.topic_id
        assert older is not None
        if seen:
            cluster.delete_topic("orders")
            cluster.create_topic("orders", 2)
            await until(lambda: state.topic_id != older)
            consumer.seek(P1, 0)
        else:
            older = UUID(int=7)
        append(cluster, numbered(5), 1)
        assert await read(consumer, 3) == numbers(0, 3)
        current = state.topic_id
        assert current is not None
        for round_ in range(3):
            lagging = lag(cluster, older, node=0)
            await refreshed(consumer, older)
            append(cluster, numbered(2, 5 + 2 * round_), 1)
            assert await read(consumer, 2) == numbers(3 + 2 * round_, 5 + 2 * round_)
            lagging.remove()
            await refreshed(consumer, current)
            assert state.topic_id == current
        assert await read(consumer, 2) == numbers(9, 11)


async def test_an_unreachable_leader_does_not_imply_a_recreated_topic(
    make: MakeConsumer,
) -> None:
    async with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        append(cluster, numbered(5), 1)
        consumer = await reader(
            make, P1, bootstrap_servers=cluster.bootstrap_servers, group_id="store"
        )
        assert await read(consumer, 5) == numbers(0, 5)
        state = consumer._core.positions.state(P1)
        current = state.topic_id
        cluster.kill(1)
        lagging = lag(cluster, UUID(int=7))
        await refreshed(consumer, UUID(int=7))
        await until(lambda: state.rival_id is not None)
        await consumer.commit()  # not a position that may belong to another topic
        assert cluster.committed("store") == {}
        lagging.remove()
        await cluster.restart(1)
        append(cluster, numbered(2, 5), 1)
        assert await read(consumer, 2) == numbers(5, 7)
        assert (state.topic_id, state.rival_id) == (current, None)
        await consumer.commit()
        assert cluster.committed("store") == {P1: 7}


@pytest.mark.parametrize("answer", ["too old to tell", "an error", "another leader"])
async def test_the_leader_decides_if_a_topic_was_recreated(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make)
    assert await read(consumer, 5) == numbers(0, 5)
    state = consumer._core.positions.state(P0)
    if answer == "too old to tell":
        monkeypatch.setattr(validation, "_IDS_FROM", 99)
    else:

        def edit(response: MetadataResponse) -> None:
            for topic in response.topics:
                topic.error_code = 5 if answer == "an error" else 0
                for partition in topic.partitions:
                    partition.leader_id = 0 if answer == "an error" else 7

        doubtful = consumer._core.validation._ask_for_ids
        asked = asyncio.Event()

        async def struck(*args: object) -> None:
            striking = cluster.control(ApiKey.METADATA, times=1, edit=edit)
            await striking.struck()
            asked.set()

        async def ask(node: int, states: object) -> None:
            if not asked.is_set():
                task = asyncio.create_task(struck())
                await asyncio.sleep(0)
                await doubtful(node, states)  # type: ignore[arg-type]  # handed on
                await task
                assert state.rival_id is not None  # it has not confirmed
            else:
                await doubtful(node, states)  # type: ignore[arg-type]  # handed on

        monkeypatch.setattr(consumer._core.validation, "_ask_for_ids", ask)
    cluster.delete_topic("orders")
    new = cluster.create_topic("orders", 3)
    append(cluster, [value for _, value in numbers(0, 9, "n")])
    assert await read(consumer, 9) == numbers(0, 9, "n")
    assert (state.topic_id, state.rival_id) == (new.topic_id, None)


async def test_buffered_records_of_the_old_topic_are_delivered_first(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make)
    assert await read(consumer, 2) == numbers(0, 2)
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 3)
    append(cluster, [value for _, value in numbers(0, 9, "n")])
    await until(lambda: consumer._core.positions.state(P0).remade)
    assert await read(consumer, 12) == numbers(2, 5) + numbers(0, 9, "n")


async def test_validation_continues_while_a_partition_is_paused(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    append(cluster, numbered(5, 5))
    append(cluster, numbered(1), 1)
    consumer = await reader(make, P0, P1)
    await read(consumer, 11)
    consumer.pause(P0)
    cut(cluster, 5, 9)
    await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 5)
    await until(lambda: cluster.count(ASKED) >= 1)
    await until(lambda: consumer._core.positions.state(P0).position == 5)
    consumer.resume(P0)
    assert await read(consumer, 9) == numbers(5, 14, "n")


def test_the_error_can_be_copied_and_has_the_offset() -> None:
    error = LogTruncationError({("orders", 3): 9, ("orders", 4): 7}, {("orders", 3): 5})
    assert isinstance(error, KafkaError)
    assert error.errno == 1
    assert str(error) == (
        "[Error 1] LogTruncationError: records that were read no longer exist: orders-3 (at offset "
        "9, the logs diverge at offset 5), orders-4 (at offset 7, none of the records read is "
        "known to exist)"
    )


async def test_evicted_records_of_a_paused_partition_do_not_block_validation(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    """It was paused with undecoded records, its leader changed, and others needed the memory."""
    append(cluster, numbered(600))
    append(cluster, numbered(600, 600))
    consumer = await reader(make)
    assert await read(consumer, 1) == numbers(0, 1)
    state = consumer._core.positions.state(P0)
    assert state.fetched.records is not None
    consumer.pause(P0)
    cluster.move_leader("orders", 0, 0)
    await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 5)
    assert state.unvalidated
    consumer._core.buffer.evict_paused()
    consumer.resume(P0)
    assert await read(consumer, 1199) == numbers(1, 1200)


async def test_evicted_records_of_a_resumed_partition_need_no_read_that_waits(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    """The records of other partitions may occupy the reads."""
    append(cluster, numbered(600))
    append(cluster, numbered(600, 600))
    consumer = await reader(make)
    assert await read(consumer, 1) == numbers(0, 1)
    state = consumer._core.positions.state(P0)
    consumer.pause(P0)
    cluster.move_leader("orders", 0, 0)
    await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 5)
    await until(lambda: state in consumer._core.validation._deferred)
    consumer._core.buffer.evict_paused()
    consumer.resume(P0)
    await until(lambda: state.fetched.records is not None)
    assert not state.unvalidated


async def test_an_outdated_leader_returns_no_offset(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    consumer = await reader(make)
    cluster.move_leader("orders", 0, 0)  # behind the metadata's back
    asked = cluster.count(ApiKey.LIST_OFFSETS)
    await consumer.seek_to_end(P0)
    assert await consumer.position(P0) == 5
    assert cluster.count(ApiKey.LIST_OFFSETS) == asked + 2  # fenced, then asked in the new epoch
