"""Transactions v1 and v2: fencing, visibility and errors.

A real coordinator writes markers after its response; a scenario waits until they are written before
it continues.
"""

import asyncio
from uuid import UUID

import pytest

from aiokafka_lite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from aiokafka_lite.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from aiokafka_lite.protocol.messages.describe_transactions import DescribeTransactionsRequest
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokafka_lite.protocol.messages.list_transactions import ListTransactionsRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokafka_lite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.conformance.conftest import Compare
from tests.conformance.requests import fetch, produce
from tests.conformance.target import Target
from tests.conformance.transactional import Writer, transactional

READ_COMMITTED = 1


async def look(target: Target, topic: str, version: int = 11) -> None:
    """Record what each kind of consumer reads from partition 0, and its producers."""
    for isolation in (0, READ_COMMITTED):
        await target.ask(fetch(topic, 0, isolation=isolation), version)
        wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])]
        await target.ask(ListOffsetsRequest(-1, isolation, wanted), 5)
    await target.ask(DescribeProducersRequest([TopicRequest(topic, [0])]), 0)


async def writer_on(target: Target, prefix: str = "txn", on: str = "main") -> Writer:
    writer = Writer(target, target.unique(prefix), on)
    await writer.await_coordinator()
    return writer


async def test_transactions_v1(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        writer = await writer_on(target)
        await writer.init()
        await writer.describe()
        sequence = 0
        for committed in (True, False, True, False, False):
            await writer.add(topic, 0, 1)
            await writer.describe()
            for _ in range(2):
                await writer.produce(topic, sequence, count=3)
                sequence += 3
            await look(target, topic)
            await writer.end(committed=committed)
            await look(target, topic)

    await compare(scenario)


async def test_transactions_v2(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        writer = await writer_on(target)
        await writer.init()
        for committed in (True, False, True, False, False):
            await writer.produce(topic, 0, version=12)
            await writer.describe()
            await writer.produce(topic, 1, version=12, count=2)
            await look(target, topic)
            await writer.end(committed=committed, version=5)
            await look(target, topic)

    await compare(scenario)


async def test_two_producers_at_once(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        one, other = await writer_on(target), await writer_on(target)
        await one.init()
        await other.init()
        await one.produce(topic, 0, version=12)
        await other.produce(topic, 0, version=12)
        await one.produce(topic, 1, version=12)
        await look(target, topic)
        await other.end(committed=False, version=5)
        await look(target, topic)
        await one.end(committed=False, version=5)
        await look(target, topic)
        for start in range(6):
            await target.ask(fetch(topic, start, isolation=READ_COMMITTED), 11)

    await compare(scenario)


@pytest.mark.parametrize("versions", [(5, 3, 11, 4), (2, 1, 10, 1)])
async def test_rejected_requests_of_v1_producers(
    compare: Compare, versions: tuple[int, int, int, int]
) -> None:
    init, add, produce, end = versions

    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        group = target.unique("group")
        writer = await writer_on(target)
        await writer.add(topic, 0, version=add)
        await writer.end(committed=True, version=end)
        await writer.init(version=init, timeout_ms=900_001)
        await writer.init(version=init, timeout_ms=0)
        await writer.init(version=init)
        await writer.end(committed=True, version=end)
        await writer.end(committed=False, version=end)
        await writer.produce(topic, 0, version=produce)
        await writer.add(topic, 0, 7, version=add)
        await writer.add("no-such-topic", 0, version=add)
        await writer.add("__consumer_offsets", 0, version=add)
        await writer.add(topic, 0, version=add)
        await writer.produce(topic, 0, version=produce, partition=1)
        await writer.produce(topic, 5, version=produce)
        await writer.produce(topic, 0, version=produce)
        await writer.produce(topic, 0, version=produce)
        await writer.produce(topic, 4, version=produce)
        plain = transactional(writer.producer, 1, transactional=False)
        await writer.produce_batch(topic, plain, version=produce)
        await writer.commit_offsets(group, topic, 5, version=min(add, 3))
        true = writer.producer
        for false in ((true[0] + 1000, true[1]), (true[0], true[1] + 1), (true[0], true[1] - 1)):
            writer.producer = false
            await writer.add(topic, 1, version=add)
            await writer.add_offsets(group, version=min(add, 3))
            await writer.commit_offsets(group, topic, 5, version=min(add, 3))
            await writer.produce(topic, 1, version=produce)
            await writer.produce(topic, 0, version=produce, partition=1)
            await writer.end(committed=True, version=end)
        writer.producer = true
        await writer.end(committed=True, version=end)
        await writer.end(committed=True, version=end)
        await writer.end(committed=False, version=end)
        await writer.produce(topic, 1, version=produce)
        await look(target, topic)

    await compare(scenario)


async def test_rejected_requests_of_v2_producers(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        group = target.unique("group")
        writer = await writer_on(target)
        await writer.produce(topic, 0, version=12)
        await writer.end(committed=True, version=5)
        await writer.init()
        await writer.end(committed=True, version=5)
        await writer.end(committed=False, version=5)
        first = writer.producer
        await writer.produce(topic, 3, version=12)
        await writer.produce(topic, 0, version=12, partition=7)
        await writer.produce("no-such-topic", 0, version=12)
        await writer.produce(topic, 0, version=12)
        await writer.produce(topic, 2, version=12)
        for false in ((first[0] + 1000, first[1]), (first[0], first[1] + 1), (first[0], 0)):
            writer.producer = false
            await writer.produce(topic, 1, version=12)
            await writer.produce(topic, 0, version=12, partition=1)
            await writer.commit_offsets(group, topic, 5, version=5)
            await writer.end(committed=True, version=5)
        writer.producer = first
        await writer.end(committed=True, version=5)
        for committed in (True, False):
            await writer.end(committed=committed, version=5, producer=first)
        await writer.end(committed=True, version=5)
        await writer.end(committed=False, version=5)
        aborted = writer.producer
        await writer.end(committed=False, version=5)
        await writer.end(committed=True, version=5, producer=aborted)
        await writer.end(committed=False, version=5, producer=aborted)
        await writer.produce(topic, 0, version=12)
        writer.producer = first
        await writer.produce(topic, 0, version=12)
        await writer.produce(topic, 0, version=12, partition=1)
        await writer.end(committed=True, version=5)

    await compare(scenario)


@pytest.mark.parametrize(("produce", "end"), [(11, 4), (12, 5)])
async def test_newer_producer_fences_the_older_one(
    compare: Compare, produce: int, end: int
) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        old = await writer_on(target)
        new = Writer(target, old.name, "new")
        await old.init()
        await new.init()
        await old.add(topic, 0)
        await old.add(topic, 0, version=1)
        await old.produce(topic, 0, version=produce)
        await old.end(committed=True, version=end)
        await old.end(committed=True, version=1)
        await old.init(expected=old.producer)
        await old.init(version=3, expected=old.producer)
        await new.add(topic, 0)
        await new.produce(topic, 0, version=produce)
        await old.init()
        await old.init_after_abort()
        await new.produce(topic, 1, version=produce)
        await new.end(committed=True, version=end)
        await look(target, topic)
        await old.add(topic, 0)
        await old.produce(topic, 0, version=produce)
        await old.end(committed=True, version=end)
        await look(target, topic)

    await compare(scenario)


async def test_producer_continues_after_an_error(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        writer = await writer_on(target)
        await writer.init(expected=(7, -1))
        await writer.init(expected=(-1, 7))
        await writer.init(expected=(12345678, 3))
        first = writer.producer
        await writer.init(expected=first)
        await writer.init(expected=first)
        await writer.init(expected=(first[0], 9))
        await writer.init(expected=(first[0] + 1000, 1))
        await writer.add(topic, 0)
        await writer.produce(topic, 0)
        before = writer.producer
        await writer.init(expected=before)
        await writer.settled()
        await writer.init(expected=before)
        await writer.describe()
        nameless = Writer(target, "")
        await nameless.init()
        await nameless.add(topic, 0)
        await nameless.end(committed=True)

    await compare(scenario)


@pytest.mark.parametrize("version", [2, 3, 4, 5])
async def test_offsets_of_a_group(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        group = target.unique("group")
        await target.coordinator_of(group)
        writer = await writer_on(target)
        await writer.init()

        async def committed(*, stable: bool) -> None:
            topics = [OffsetFetchRequestTopics(topic, partition_indexes=[0, 1])]
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable
            )
            await target.ask(request, 8)

        end = 5 if version >= 5 else 4
        for commits in (True, False):
            if version < 5:
                await writer.commit_offsets(group, topic, 4, version)
                await writer.add_offsets(group)
            await writer.commit_offsets(group, topic, 5 if commits else 9, version)
            await writer.commit_offsets(group, topic, 5, version, partition=7)
            await writer.commit_offsets(group, "no-such-topic", 5, version)
            if version > 2:
                for member in ((3, "nobody", None), (-1, "nobody", None), (3, "", None)):
                    await writer.commit_offsets(group, topic, 5, version, member)
            if version >= 5:  # of old, it depends on whether both groups share a coordinator
                await writer.commit_offsets(target.unique("none"), topic, 5, version, (3, "", None))
            await writer.commit_offsets("", topic, 5, version)
            described = await target.quietly(DescribeTransactionsRequest([writer.name]), 0)
            told = described.transaction_states[0]
            target.note("it is", (told.transaction_state, [each.topic for each in told.topics]))
            for stable in (False, True):
                await committed(stable=stable)
            await writer.end(committed=commits, version=end)
            for stable in (False, True):
                await committed(stable=stable)

    await compare(scenario)


async def test_describing_transactions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        writer = await writer_on(target, prefix="told.of")
        await writer.describe()
        await Writer(target, "").describe()
        await writer.init()
        await writer.produce(topic, 0, version=12)
        quiet = Writer(target, target.unique("told.of"))
        await quiet.init()
        mine = [writer.producer[0], quiet.producer[0]]
        for states, ids, duration in [
            ([], mine, -1),
            (["Ongoing"], mine, -1),
            (["Empty", "NoSuchState"], mine, -1),
            (["NoSuchState"], mine, -1),
            (["Dead"], mine, -1),
            ([], [999_999_999], -1),
            ([], mine, 100_000),
        ]:
            await target.ask(ListTransactionsRequest(states, ids, duration), 1)
        for pattern in (
            *(writer.name, "told[.]of-.*", "old.of", "no-such.*", "told.(", "", None),
            writer.name[:-1],
        ):
            await target.ask(ListTransactionsRequest([], mine, -1, pattern), 2)
        wanted = [TopicRequest(topic, [0, 5]), TopicRequest("no-such-topic", [0])]
        await target.ask(DescribeProducersRequest([*wanted, TopicRequest("a b", [0])]), 0)
        await writer.end(committed=True, version=5)

    await compare(scenario)


async def test_markers_written_by_an_admin(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        writer = await writer_on(target)
        await writer.init()
        await writer.produce(topic, 0, version=12)
        await look(target, topic)

        async def write(
            epoch: int, coordinator_epoch: int, version: int = 0, *topics: tuple[str, list[int]]
        ) -> None:
            asked = [WritableTxnMarkerTopic(*each) for each in topics or ((topic, [0]),)]
            marker = WritableTxnMarker(
                writer.producer[0], epoch, False, asked, coordinator_epoch, version
            )
            await target.ask(WriteTxnMarkersRequest([marker]), 2)
            await target.ask(DescribeProducersRequest([TopicRequest(topic, [0])]), 0)

        await write(-1, 0)
        await write(0, -2, 2)
        await write(0, 0, 0, (topic, [0, 1, 7]), ("no-such-topic", [0]))
        await look(target, topic)
        await write(0, 0)
        await write(0, 0, 2)
        await target.ask(WriteTxnMarkersRequest([]), 1)
        await writer.produce(topic, 1, version=12)
        await writer.end(committed=True, version=5)
        await look(target, topic)
        await write(1, 5)
        await write(1, 4)
        await look(target, topic)

    await compare(scenario)


@pytest.mark.parametrize("version", [4, 5])
async def test_broker_requests_to_coordinators(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(3)
        one, other = await writer_on(target), await writer_on(target)
        await one.init()
        await other.init()

        async def add(*partitions: int, verify: bool = False, **changed: object) -> None:
            transactions = [
                AddPartitionsToTxnTransaction(
                    str(changed.get("name", writer.name)),
                    writer.producer[0],
                    writer.producer[1] + int(str(changed.get("later", 0))),
                    verify,
                    [AddPartitionsToTxnTopic(topic, list(partitions))],
                )
                for writer in (one, other)
            ]
            await target.ask(AddPartitionsToTxnRequest(transactions), version)

        await add(0, verify=True)
        await add(0, 1)
        await add(0, 1, verify=True)
        await add(0, 2, verify=True)
        await add(0, 9)
        await add(2, later=1)
        await add(2, later=1, verify=True)
        await one.end(committed=True)
        await add(0, verify=True)

    await compare(scenario)


async def test_offsets_by_topic_id(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        group = target.unique("group")
        await target.coordinator_of(group)
        writer = await writer_on(target)
        await writer.init()
        (described,) = (
            await target.quietly(MetadataRequest([MetadataRequestTopic(name=topic)], False), 12)
        ).topics
        for topic_id in (described.topic_id, UUID(int=77), UUID(int=0)):
            for member in ((-1, "", None), (3, "nobody", None), (3, "", None)):
                offsets = [TxnOffsetCommitRequestPartition(index, 5) for index in (0, 3)]
                asked = [TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=offsets)]
                request = TxnOffsetCommitRequest(
                    writer.name, group, *writer.producer, *member, topics=asked
                )
                await target.ask(request, 6)
        unknown = TxnOffsetCommitRequest(
            writer.name,
            target.unique("none"),
            *writer.producer,
            *(3, "", None),
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic_id=described.topic_id, partitions=[TxnOffsetCommitRequestPartition(0, 5)]
                )
            ],
        )
        await target.ask(unknown, 6)
        await writer.end(committed=True, version=5)

    await compare(scenario)


async def test_idempotent_sequences(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        given = await target.quietly(InitProducerIdRequest(None), 4)
        last = 2**31 - 1
        for epoch, sequence, count in (
            *((0, 3, 1), (0, last - 2, 2), (0, 4, 2), (0, 6, 1), (0, 6, 1), (0, 4, 1), (0, 4, 2)),
            *((0, 8, 1), (1, 1, 1), (1, 0, 1), (0, 7, 1), (1, 1, 1), (1, 2, 1), (1, 3, 1)),
            *((1, 4, 1), (1, 5, 1), (1, 1, 1), (1, 0, 1), (3, last, 1), (3, 0, 1)),
        ):
            batch = transactional((given.producer_id, epoch), sequence, count, transactional=False)
            await target.ask(produce(topic, batch), 9)
        await target.ask(DescribeProducersRequest([TopicRequest(topic, [0])]), 0)
        wrapped = await target.quietly(InitProducerIdRequest(None), 4)
        for sequence, count in ((last - 1, 4), (2, 1), (last - 1, 4), (3, 1), (1, 1)):
            batch = transactional((wrapped.producer_id, 0), sequence, count, transactional=False)
            await target.ask(produce(topic, batch), 9)
        await target.ask(DescribeProducersRequest([TopicRequest(topic, [0])]), 0)

    await compare(scenario)


async def test_partitions_added_but_not_written(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        writer = await writer_on(target)
        await writer.init()
        for version, end in ((11, 4), (12, 5)):
            if version == 11:
                await writer.produce(topic, 4, version=version)
                await writer.add(topic, 0, 1)
                await writer.produce(topic, 5, version=version)
            await writer.produce(topic, 0, version=version)
            await writer.end(committed=False, version=end)
            await look(target, topic)
            await target.ask(DescribeProducersRequest([TopicRequest(topic, [1])]), 0)

    await compare(scenario)


@pytest.mark.parametrize(("produce", "end"), [(11, 4), (12, 5)])
async def test_transactions_v1_and_v2_in_turns(compare: Compare, produce: int, end: int) -> None:
    """One transactional id, used by one client after the other."""

    async def scenario(target: Target) -> None:
        topic = await target.topic()
        writer = await writer_on(target)
        await writer.init()
        sequence = 0
        for turn in range(6):
            now_produce, now_end = (produce, end) if turn % 2 else (23 - produce, 9 - end)
            if now_produce == 11:
                await writer.add(topic, 0)
            await writer.produce(topic, sequence, version=now_produce)
            await writer.end(committed=turn % 3 == 0, version=now_end)
            sequence = sequence + 1 if now_end == 4 else 0
            await look(target, topic)

    await compare(scenario)


@pytest.mark.timeout(120)
async def test_a_dangling_transaction(compare: Compare) -> None:
    """Kafka looks for them every ten seconds."""

    async def scenario(target: Target) -> None:
        topic = await target.topic()
        writer, bystander = await writer_on(target), await writer_on(target)
        # Long enough for the first record, even if the broker pauses before it stores it.
        await writer.init(timeout_ms=4_000)
        await bystander.init()
        await writer.produce(topic, 0, version=12)
        await bystander.produce(topic, 0, version=12)
        await target.until(
            DescribeTransactionsRequest([writer.name]),
            0,
            lambda answer: answer.transaction_states[0].transaction_state == "CompleteAbort",
        )
        await look(target, topic)
        await writer.produce(topic, 1, version=12)
        await writer.add(topic, 0)
        dangling = writer.producer
        await writer.end(committed=True, version=5)
        await writer.end(committed=True, version=4)
        await writer.end(committed=False, version=5)
        await writer.produce(topic, 0, version=12)
        await writer.init(expected=dangling)
        await writer.settled()  # otherwise, the order of the markers is random
        await bystander.end(committed=True, version=5)
        await look(target, topic)

    await compare(scenario)


async def test_offsets_of_a_consumer_group(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        group = target.unique("group")
        await target.coordinator_of(group)
        writer = await writer_on(target)
        await writer.init()
        member = await target.quietly(
            ConsumerGroupHeartbeatRequest(
                group,
                "member-of-ours",
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=[topic],
                server_assignor="uniform",
                topic_partitions=[],
            ),
            1,
        )
        assert not member.error_code, member
        for version in (5, 4):
            for epoch, name in (
                *((member.member_epoch, "member-of-ours"), (99, "member-of-ours")),
                *((1, "nobody"), (-1, ""), (-1, "member-of-ours"), (0, "member-of-ours")),
            ):
                await writer.commit_offsets(group, topic, 5, version, (epoch, name, None))
        await writer.end(committed=True, version=5)
        (described,) = (
            await target.quietly(MetadataRequest([MetadataRequestTopic(name=topic)], False), 12)
        ).topics
        for epoch in (member.member_epoch, 99, 0):
            asked = TxnOffsetCommitRequestTopic(
                topic_id=described.topic_id, partitions=[TxnOffsetCommitRequestPartition(0, 5)]
            )
            request = TxnOffsetCommitRequest(
                *(writer.name, group, *writer.producer, epoch, "member-of-ours", None, [asked])
            )
            await target.ask(request, 6)
        await writer.end(committed=False, version=5)

    await compare(scenario)


@pytest.mark.timeout(180)
async def test_another_broker_becomes_the_coordinator(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(3)
        brokers = (await target.quietly(MetadataRequest([]), 9)).brokers
        name = target.unique("txn")
        await Writer(target, name).await_coordinator(anywhere=True)
        here = await target.coordinator_of(name, 1)
        staying = [each for each in brokers if each.node_id != here]
        target.bootstrap = ",".join(f"{each.host}:{each.port}" for each in staying)
        target.disconnect("topics")
        writer = Writer(target, name, f"main@{here}")
        await writer.await_coordinator()
        wrong = Writer(target, name, f"main@{staying[0].node_id}")
        await wrong.init()
        await wrong.add(topic, 0)
        await wrong.add_offsets("group")
        await wrong.end(committed=True, wait=False)
        await wrong.describe()
        await writer.init()
        for partition in range(3):
            leader = await target.leader_of(topic, partition)
            at_leader = writer.elsewhere(f"main@{leader}")
            await at_leader.produce(topic, 0, version=12, partition=partition)
            another = next(each.node_id for each in brokers if each.node_id != leader)
            elsewhere = writer.elsewhere(f"main@{another}")
            await elsewhere.produce(topic, 1, version=9, partition=partition)
        await target.kill(here)
        while (there := await target.coordinator_of(name, 1)) == here:
            await asyncio.sleep(0.1)
        writer = writer.elsewhere(f"main@{there}")
        await writer.await_coordinator()
        await writer.describe()
        await writer.end(committed=False, version=5)
        for partition in range(3):
            while (leader := await target.leader_of(topic, partition)) in (-1, here):
                await asyncio.sleep(0.1)
            wanted = TopicRequest(topic, [partition])
            await target.ask(DescribeProducersRequest([wanted]), 0, f"main@{leader}")
        await target.restart(here)

    await compare3(scenario)


@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.parametrize("by", ["the end", "another", "itself"])
async def test_exhausted_epochs(compare: Compare, by: str) -> None:
    """The last epoch is kept for fencing: 32,766 is the largest that a producer gets."""

    async def scenario(target: Target) -> None:
        topic = await target.topic()
        writer = await writer_on(target)
        await writer.init()
        await writer.burn_epochs(32_766)
        last = writer.producer
        if by != "itself":
            await writer.produce(topic, 0, version=12)
        if by == "the end":
            await writer.end(committed=True, version=5)
            await writer.end(committed=True, version=5, producer=last)
            await writer.end(committed=False, version=5, producer=last)
        elif by == "another":
            await writer.init()
            await writer.settled()
        for epoch in (32_766, 32_766, 32_765, 5):
            await writer.init(expected=(last[0], epoch))
        await writer.init()
        await look(target, topic)

    await compare(scenario)
