"""A group's offsets, written to and read from the embedded broker: all versions, every error."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFound,
    IllegalGenerationError,
    KafkaProtocolError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.group.membership import CommitIdentity
from aiokafka_lite.group.offsets.store import Committed, OffsetStore
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from aiokafka_lite.protocol.messages.offset_fetch import OffsetFetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.error_table import METADATA_IS_OLD, PASSES, assert_reactions, reactions
from tests.unit.lies import LIES, NEEDS_PATIENCE

pytestmark = pytest.mark.unhurried

ORDERS = [TopicPartition("orders", number) for number in range(3)]
COMMIT, FETCH = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH

COMMITTING = reactions(retry=f"{PASSES} {METADATA_IS_OLD}", otherwise="raise")

FETCHING = reactions(
    retry=f"{PASSES} {METADATA_IS_OLD}".replace("UNKNOWN_TOPIC_OR_PARTITION", ""),
    nothing="UNKNOWN_TOPIC_OR_PARTITION",  # as aiokafka reads it: nothing was committed there
    otherwise="raise",
)

FETCHING_OF_GROUP = reactions(retry=f"{PASSES} {METADATA_IS_OLD}", otherwise="raise")


class Store:
    """A store, its cluster and its brokers."""

    def __init__(self, fake: FakeCluster) -> None:
        self.fake = fake
        self.cluster = Cluster(
            fake.bootstrap_servers,
            ConnectionOptions(client_id="test"),
            metadata_max_age=300.0,
            retry_backoff=0.001,
        )
        self.store = OffsetStore(self.cluster, "readers")

    @property
    def soon(self) -> float:
        return asyncio.get_running_loop().time() + 5.0

    async def track(self) -> None:
        """Include the topic's id in the metadata."""
        self.cluster.set_topics(["orders"])
        await self.cluster.refresh(self.soon)

    async def commit(self, *offsets: int, **options: Any) -> None:
        pairs = zip(ORDERS, offsets, strict=False)
        told = {tp: OffsetAndMetadata(offset, "") for tp, offset in pairs}
        await self.store.begin_commit(told, self.soon, **options).complete()

    async def fetch(
        self, partitions: Collection[TopicPartition] | None, **options: Any
    ) -> dict[TopicPartition, Committed]:
        return await self.store.fetch(partitions, **options)

    async def offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        found = await self.fetch(partitions or ORDERS, require_stable=True, deadline=self.soon)
        return {tp: told.offset for tp, told in found.items()}

    def versions(self, api: ApiKey) -> list[int]:
        return [seen.version for seen in self.fake.requests if seen.api_key == api]


async def opened(**options: Any) -> AsyncIterator[Store]:
    async with FakeCluster(topics={"orders": 3}, **options) as fake:
        store = Store(fake)
        await store.cluster.start()
        yield store
        await store.cluster.close(store.soon)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async for store in opened():
        await store.track()
        yield store


# --- versions


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_of_both(version: int) -> None:
    pinned = {COMMIT: (1, version), FETCH: (1, version)}
    async for store in opened(api_versions=pinned):
        await store.track()
        told = OffsetAndMetadata(5, "words", 7)
        await store.store.begin_commit({ORDERS[0]: told}, store.soon).complete()
        found = await store.fetch(ORDERS, require_stable=True, deadline=store.soon)
        epoch = 7 if version >= 6 else None
        assert found == {ORDERS[0]: Committed(5, epoch, "words")}
        assert store.versions(COMMIT) == store.versions(FETCH) == [version]


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_committed_offsets_of_a_group(version: int) -> None:
    async for store in opened(api_versions={FETCH: (1, version)}):
        await store.commit(5, 6)
        found = await store.fetch(None, require_stable=False, deadline=store.soon)
        assert {tp: told.offset for tp, told in found.items()} == {ORDERS[0]: 5, ORDERS[1]: 6}
        # Ids would need translation, also for topics that this client may not have.
        assert store.versions(FETCH) == [min(version, 9)]


async def test_old_brokers_cannot_list_all_committed_offsets() -> None:
    async for store in opened(api_versions={FETCH: (0, 1)}):
        with pytest.raises(UnsupportedVersionError, match="OffsetFetch"):
            await store.fetch(None, require_stable=True, deadline=store.soon)


async def test_topics_without_a_known_id_go_by_name(store: Store) -> None:
    store.fake.create_topic("other", 1)
    other = TopicPartition("other", 0)
    told = OffsetAndMetadata(3, "")
    await store.store.begin_commit({ORDERS[0]: told, other: told}, store.soon).complete()
    assert await store.offsets(ORDERS[0], other) == {ORDERS[0]: 3, other: 3}
    assert store.versions(COMMIT) == store.versions(FETCH) == [9]


async def test_a_commit_contains_the_member_identity(store: Store) -> None:
    member = CommitIdentity("m", 4, "i")
    told = {ORDERS[0]: OffsetAndMetadata(3, "")}
    with pytest.raises(GroupIdNotFound):
        await store.store.begin_commit(told, store.soon).complete(member)
    (request,) = [seen.body for seen in store.fake.requests if seen.api_key == COMMIT]
    assert isinstance(request, OffsetCommitRequest)
    said = (request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    assert said == ("m", 4, "i")
    assert store.versions(COMMIT) == [10]


async def test_each_attempt_may_have_another_identity(store: Store) -> None:
    store.fake.control(COMMIT, error=14)
    call = store.store.begin_commit({ORDERS[0]: OffsetAndMetadata(3, "")}, store.soon)
    await call.attempt(await call.connect(), CommitIdentity("gone", 1, None))
    assert not call.done
    await call.attempt(await call.connect(), None)
    assert call.done
    assert store.fake.committed("readers") == {ORDERS[0]: 3}


async def test_a_retried_commit_sends_only_the_rejected_partitions(store: Store) -> None:
    offsets = {tp: OffsetAndMetadata(3, "") for tp in ORDERS[:2]}
    call = store.store.begin_commit(offsets, store.soon)
    store.fake.control(COMMIT, error=22, partitions=[("orders", 0)])
    with pytest.raises(IllegalGenerationError):
        await call.complete()
    assert store.fake.committed("readers") == {ORDERS[1]: 3}
    assert not call.done
    await call.complete()
    assert store.fake.committed("readers") == {ORDERS[0]: 3, ORDERS[1]: 3}
    last = [seen.body for seen in store.fake.requests if seen.api_key == COMMIT][-1]
    assert isinstance(last, OffsetCommitRequest)
    assert [len(topic.partitions) for topic in last.topics] == [1]


async def test_a_request_is_sent_before_its_attempt_suspends(store: Store) -> None:
    """The caller's checks after `connect` still hold when the request is sent."""
    for call in (
        store.store.begin_commit({ORDERS[0]: OffsetAndMetadata(3, "")}, store.soon),
        store.store.begin_fetch(ORDERS, require_stable=True, deadline=store.soon),
    ):
        connection = await call.connect()
        before = connection.in_flight
        attempt = call.attempt(connection, None)
        suspended = attempt.send(None)  # the first suspension: it waits for the response
        assert connection.in_flight == before + 1
        attempt.close()
        assert suspended is not None


async def test_an_empty_commit_sends_no_request(store: Store) -> None:
    await store.store.begin_commit({}, store.soon).complete()
    assert await store.fetch([], require_stable=True, deadline=store.soon) == {}
    assert not store.versions(COMMIT)
    assert not store.versions(FETCH)


# --- every error


@asynccontextmanager
async def tracking(**options: Any) -> AsyncIterator[Store]:
    """A separate store for one code."""
    async for store in opened(**options):
        await store.track()
        yield store


async def test_every_error_of_one_partition_of_a_commit() -> None:
    async def reaction_to(code: int) -> str:
        async with tracking() as store:
            store.fake.control(COMMIT, error=code, partitions=[("orders", 1)])
            try:
                await store.commit(5, 6, 7)
            except for_code(code):
                assert store.fake.committed("readers") == {ORDERS[0]: 5, ORDERS[2]: 7}
                assert store.fake.count(COMMIT) == 1
                return "raise"
            assert store.fake.committed("readers") == dict(zip(ORDERS, (5, 6, 7), strict=True))
            again = [seen.body for seen in store.fake.requests if seen.api_key == COMMIT][1:]
            assert len(again) == 1  # and only for what was not committed
            assert [len(topic.partitions) for body in again for topic in body.topics] == [1]  # type: ignore[union-attr]  # an OffsetCommitRequest
            return "retry"

    await assert_reactions(COMMITTING, reaction_to)


async def test_every_error_of_one_partition_of_a_fetch() -> None:
    async def reaction_to(code: int) -> str:
        async with tracking() as store:
            await store.commit(5, 6, 7)
            store.fake.control(FETCH, error=code, partitions=[("orders", 1)])
            try:
                found = await store.offsets()
            except for_code(code):
                return "raise"
            if found == {ORDERS[0]: 5, ORDERS[2]: 7}:
                return "nothing"
            assert found == dict(zip(ORDERS, (5, 6, 7), strict=True))
            assert store.fake.count(FETCH) == 2
            return "retry"

    await assert_reactions(FETCHING, reaction_to)


@pytest.mark.parametrize("version", [1, 2, 10])
async def test_every_error_of_a_group(version: int) -> None:
    async def reaction_to(code: int) -> str:
        async with tracking(api_versions={FETCH: (1, version)}) as store:
            await store.commit(5, 6, 7)
            store.fake.control(FETCH, error=code)
            try:
                found = await store.offsets()
            except for_code(code):
                return "raise"
            if found == {}:
                return "nothing"
            assert found == dict(zip(ORDERS, (5, 6, 7), strict=True))
            return "retry"

    table = dict(FETCHING_OF_GROUP)
    if version == 1:  # each partition has the code
        table[UnknownTopicOrPartitionError.errno] = "nothing"
    await assert_reactions(table, reaction_to)


@pytest.mark.parametrize("code", [15, 16])
async def test_a_coordinator_that_moved_is_found(code: int, store: Store) -> None:
    store.fake.control(COMMIT, error=code)
    await store.commit(5)
    assert store.fake.count(ApiKey.FIND_COORDINATOR) == 2


async def test_a_coordinator_that_ran_out_of_time_is_looked_up_again(store: Store) -> None:
    store.fake.control(COMMIT, error=7)
    await store.commit(5)
    assert store.fake.count(ApiKey.FIND_COORDINATOR) == 2


async def test_a_lost_connection_is_made_again(store: Store) -> None:
    store.fake.control(COMMIT, disconnect=True)
    store.fake.control(FETCH, disconnect=True)
    await store.commit(5)
    assert await store.offsets() == {ORDERS[0]: 5}


async def test_a_timeout_has_the_last_error_as_its_cause(store: Store) -> None:
    store.fake.control(COMMIT, error=14, times=None)
    store.fake.control(FETCH, error=14, times=None)
    now = asyncio.get_running_loop().time()
    offsets = {ORDERS[0]: OffsetAndMetadata(5, "")}
    with pytest.raises(KafkaTimeoutError) as committing:
        await store.store.begin_commit(offsets, now + 0.05).complete()
    with pytest.raises(KafkaTimeoutError) as reading:
        await store.fetch(ORDERS, require_stable=True, deadline=now + 0.1)
    assert isinstance(committing.value.__cause__, for_code(14))
    assert isinstance(reading.value.__cause__, for_code(14))


async def test_commits_need_a_connection_of_their_own(store: Store) -> None:
    await store.commit(5)
    connections = {s.api_key: s.connection_id for s in store.fake.requests}
    assert connections[COMMIT] != connections[ApiKey.METADATA]


# --- grouping


async def test_a_refusal_names_all_topics_and_the_rest_is_committed(store: Store) -> None:
    for name in ("a", "b"):
        store.fake.create_topic(name, 1)
    tps = [TopicPartition(name, 0) for name in ("b", "orders", "a")]
    store.fake.control(COMMIT, error=29, partitions=[("a", 0), ("b", 0)])
    store.fake.control(FETCH, error=29, partitions=[("a", 0), ("b", 0)])
    with pytest.raises(TopicAuthorizationFailedError) as refused:
        await store.store.begin_commit(
            dict.fromkeys(tps, OffsetAndMetadata(1, "")), store.soon
        ).complete()
    assert refused.value.args == ("a", "b")
    assert store.fake.committed("readers") == {tps[1]: 1}
    with pytest.raises(TopicAuthorizationFailedError) as refused:
        await store.offsets(*tps)
    assert refused.value.args == ("a", "b")


async def test_a_refused_group_is_named(store: Store) -> None:
    for api in (COMMIT, FETCH):
        store.fake.control(api, error=30)
    with pytest.raises(GroupAuthorizationFailedError, match="readers"):
        await store.commit(5)
    with pytest.raises(GroupAuthorizationFailedError, match="readers"):
        await store.offsets()


async def test_a_lasting_error_takes_precedence_over_a_retriable_one(store: Store) -> None:
    store.fake.control(COMMIT, error=3, partitions=[("orders", 0)], times=None)
    offsets = {
        ORDERS[0]: OffsetAndMetadata(1, ""),
        ORDERS[1]: OffsetAndMetadata(1, "x" * 5000),
    }
    with pytest.raises(OffsetMetadataTooLargeError):
        await store.store.begin_commit(offsets, store.soon).complete()
    assert store.fake.count(COMMIT) == 1


async def test_a_missing_topic_fails_a_commit_that_must_not_wait(store: Store) -> None:
    store.fake.control(COMMIT, error=3, partitions=[("orders", 0)], times=None)
    with pytest.raises(UnknownTopicOrPartitionError):
        await store.commit(1, 2, missing_topics_may_come=False)
    assert store.fake.committed("readers") == {ORDERS[1]: 2}


async def test_a_topic_made_again_gets_no_offset_of_the_old_one(store: Store) -> None:
    store.fake.delete_topic("orders")
    store.fake.create_topic("orders", 3)
    with pytest.raises(UnknownTopicIdError):
        await store.commit(5)
    assert store.fake.committed("readers") == {}


async def test_the_offsets_of_a_recreated_topic_are_returned(store: Store) -> None:
    store.fake.delete_topic("orders")
    store.fake.create_topic("orders", 3)
    other = Store(store.fake)
    await other.cluster.start()
    await other.commit(1)
    assert await store.offsets() == {ORDERS[0]: 1}
    assert store.versions(FETCH) == [10, 9]  # the old id is unknown, so by name
    await other.cluster.close(other.soon)


async def test_an_open_transaction_is_waited_for(store: Store) -> None:
    await store.commit(5, 6)
    fault = store.fake.control(FETCH, error=88, partitions=[("orders", 0)], times=3)
    assert await store.offsets(*ORDERS[:2]) == {ORDERS[0]: 5, ORDERS[1]: 6}
    assert fault.hits == 3
    require_stable = [
        seen.body.require_stable  # type: ignore[union-attr]  # an OffsetFetchRequest
        for seen in store.fake.requests
        if seen.api_key == FETCH
    ]
    assert require_stable == [True] * 4


async def test_a_non_member_is_refused_offsets_of_the_group(store: Store) -> None:
    store.fake.control(FETCH, error=25)
    call = store.store.begin_fetch(ORDERS, require_stable=True, deadline=store.soon)
    with pytest.raises(UnknownMemberIdError):
        await call.complete(CommitIdentity("m", 1, None))
    (request,) = [seen.body for seen in store.fake.requests if seen.api_key == FETCH]
    group = request.groups[0]  # type: ignore[union-attr]  # an OffsetFetchRequest
    assert (group.member_id, group.member_epoch) == ("m", 1)


async def test_unknown_topics_and_partitions_have_no_offset(store: Store) -> None:
    await store.commit(5)
    told = await store.offsets(TopicPartition("nowhere", 0), TopicPartition("orders", 77))
    assert told == {}


# --- responses that no broker sends


@pytest.mark.parametrize("answer", [OffsetCommitResponse(), None], ids=["nothing", "others"])
async def test_a_commit_that_is_not_answered_for(
    answer: OffsetCommitResponse | None, store: Store
) -> None:
    def shift(response: Any) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.partition_index += 10

    if answer is not None:
        store.fake.control(COMMIT, respond_with=answer)
    else:
        store.fake.control(COMMIT, edit=shift)
    with pytest.raises(KafkaProtocolError, match="response omits"):
        await store.commit(5)
    assert store.fake.count(COMMIT) == 1


async def test_an_offset_that_is_not_answered_for(store: Store) -> None:
    store.fake.control(FETCH, respond_with=OffsetFetchResponse())
    with pytest.raises(KafkaProtocolError, match="response omits"):
        await store.offsets()
    store.fake.control(FETCH, edit=lambda response: response.groups[0].topics.clear())
    with pytest.raises(KafkaProtocolError, match="response omits"):
        await store.offsets()
    store.fake.control(FETCH, respond_with=OffsetFetchResponse())
    with pytest.raises(KafkaProtocolError, match="response omits"):
        await store.fetch(None, require_stable=True, deadline=store.soon)


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie not in NEEDS_PATIENCE])
async def test_impossible_replies_are_not_believed(lie: str, store: Store) -> None:
    """Some are retried, some raised; none is accepted or affects later requests."""
    fault = store.fake.control(COMMIT, after_handling=True, tamper=LIES[lie])
    with suppress(KafkaProtocolError):
        await store.commit(5, 6)
    assert fault.hits == 1
    await store.commit(7, 8)
    fault = store.fake.control(FETCH, after_handling=True, tamper=LIES[lie])
    with suppress(KafkaProtocolError):
        assert await store.offsets() == {ORDERS[0]: 7, ORDERS[1]: 8}
    assert fault.hits == 1
    fault = store.fake.control(FETCH, after_handling=True, tamper=LIES[lie])
    with suppress(KafkaProtocolError):
        found = await store.fetch(None, require_stable=True, deadline=store.soon)
        assert found.keys() == set(ORDERS[:2])
    assert fault.hits == 1
    assert await store.offsets() == {ORDERS[0]: 7, ORDERS[1]: 8}
