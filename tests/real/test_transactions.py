"""Transactions on a real Kafka: behaviour that applications of aiokafka rely on (rows 10 and 11).

Most tests also run with aiokafka, to verify that it behaves this way.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import aiokafka_lite
from aiokafka_lite import AIOKafkaClient
from aiokafka_lite.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.real.visibility import acls_count
from tools.kafka import KafkaCluster, RealKafka

aiokafka: Any = pytest.importorskip("aiokafka", reason="the interop extra is not installed")

TopicFactory = Callable[..., str]

BOTH = pytest.mark.parametrize("library", [aiokafka_lite, aiokafka], ids=["ours", "aiokafka"])
PATIENCE = 30  # seconds


def error_of(library: ModuleType, name: str) -> type[Exception]:
    errors = library.errors if library is aiokafka_lite else aiokafka.errors
    found: type[Exception] = getattr(errors, name)
    return found


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:10]}"


def producer_of(library: Any, bootstrap: str, name: str, **options: Any) -> Any:
    return library.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, **options)


async def stop(producer: Any) -> None:
    """Stop a failed producer; aiokafka's raises an error and leaves its connections open."""
    try:
        await producer.stop()
    except aiokafka.errors.KafkaError:
        await producer.client.close()


async def committed(library: Any, bootstrap: str, topic: str, partitions: int = 1) -> list[bytes]:
    """All values that a read_committed consumer reads, by partition."""
    places = [library.TopicPartition(topic, number) for number in range(partitions)]
    found: dict[Any, list[bytes]] = {place: [] for place in places}
    async with (
        library.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
        library.AIOKafkaConsumer(bootstrap_servers=bootstrap) as other,
    ):
        consumer.assign(places)
        async with asyncio.timeout(PATIENCE):
            # The log ends. The last stable offsets would leave out a transaction that has ended,
            # but whose markers are not written yet.
            ends = await other.end_offsets(places)
            while any([await consumer.position(place) < ends[place] for place in places]):
                for place, records in (await consumer.getmany(timeout_ms=100)).items():
                    found[place] += [record.value for record in records]
    return [value for place in places for value in found[place]]


async def offset_of(bootstrap: str, group: str, topic: str) -> int | None:
    async with aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    ) as consumer:
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        offset: int | None = await consumer.committed(aiokafka.TopicPartition(topic, 0))
        return offset


async def wait_for_offset(bootstrap: str, group: str, topic: str, expected: int) -> None:
    """Wait until the transaction that committed an offset has its marker.

    Kafka writes the marker after it has answered the producer.
    """
    async with asyncio.timeout(PATIENCE):
        while await offset_of(bootstrap, group, topic) != expected:
            await asyncio.sleep(0.05)


# Row 11: transactions


@BOTH
async def test_transaction_commits_all_or_nothing(
    kafka: RealKafka, topic: TopicFactory, library: Any
) -> None:
    name, bootstrap = topic(3), kafka.bootstrap_servers
    async with producer_of(library, bootstrap, unique("all")) as producer:
        for number in range(4):
            await producer.begin_transaction()
            for partition in range(3):
                await producer.send(name, b"%d" % number, partition=partition)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    for reader in (aiokafka_lite, aiokafka):
        assert await committed(reader, bootstrap, name, 3) == [b"0", b"2"] * 3


@BOTH
async def test_commit_flushes_and_an_empty_transaction_succeeds(
    kafka: RealKafka, topic: TopicFactory, library: Any
) -> None:
    name = topic(1)
    async with producer_of(
        library, kafka.bootstrap_servers, unique("flush"), linger_ms=5_000
    ) as producer:
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        ack = await producer.send(name, b"lingers")
        assert not ack.done()
        await producer.commit_transaction()
        assert ack.done()
        assert (await ack).offset == 0
    assert await committed(library, kafka.bootstrap_servers, name) == [b"lingers"]


@BOTH
async def test_transaction_context_aborts_on_an_exception(
    kafka: RealKafka, topic: TopicFactory, library: Any
) -> None:
    name = topic(1)

    async def fail(producer: Any) -> None:
        async with producer.transaction():
            await producer.send_and_wait(name, b"lost")
            raise ZeroDivisionError

    async with producer_of(library, kafka.bootstrap_servers, unique("context")) as producer:
        with pytest.raises(ZeroDivisionError):
            await fail(producer)
        async with producer.transaction():
            await producer.send(name, b"kept")
    assert await committed(library, kafka.bootstrap_servers, name) == [b"kept"]


@BOTH
async def test_call_in_a_wrong_state_raises(
    kafka: RealKafka, topic: TopicFactory, library: Any
) -> None:
    name, illegal = topic(1), error_of(library, "IllegalOperation")
    offsets = {library.TopicPartition(name, 0): 1}
    async with library.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as plain:
        for call in (plain.begin_transaction, plain.commit_transaction, plain.abort_transaction):
            with pytest.raises(illegal):
                await call()
        with pytest.raises(illegal):
            await plain.send_offsets_to_transaction(offsets, "group")
        with pytest.raises(illegal):
            await plain.transaction().__aenter__()
    async with producer_of(library, kafka.bootstrap_servers, unique("misuse")) as producer:
        with pytest.raises(illegal, match="Can't send messages while not in transaction"):
            await producer.send(name, b"outside")
        batch = producer.create_batch()
        batch.append(key=None, value=b"outside", timestamp=None)
        batch.close()
        with pytest.raises(illegal):
            await producer.send_batch(batch, name, partition=0)
        with pytest.raises(illegal):  # this error is raised first
            await producer.send_offsets_to_transaction(offsets, "")
        await producer.begin_transaction()
        await producer.send(name, b"kept")
        commit = asyncio.create_task(producer.commit_transaction())
        await asyncio.sleep(0)
        with pytest.raises(illegal):
            await producer.send(name, b"while it commits")
        await commit
        await producer.begin_transaction()
        for group in ("", None, 5):
            with pytest.raises(ValueError):  # the texts differ
                await producer.send_offsets_to_transaction(offsets, group)
        await producer.abort_transaction()
    assert await committed(library, kafka.bootstrap_servers, name) == [b"kept"]


@BOTH
async def test_offset_arguments_of_send_offsets(
    kafka: RealKafka, topic: TopicFactory, library: Any
) -> None:
    name, group = topic(1), unique("group")
    bootstrap, place = kafka.bootstrap_servers, library.TopicPartition(name, 0)
    forms = [5, (6, "note"), library.structs.OffsetAndMetadata(7, "")]
    async with producer_of(library, bootstrap, unique("offsets")) as producer:
        for number, form in enumerate(forms):
            await producer.begin_transaction()
            await producer.send(name, b"made of them")
            await producer.send_offsets_to_transaction({place: form}, group)
            await producer.commit_transaction()
            await wait_for_offset(bootstrap, group, name, 5 + number)
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({place: 9}, group)
        await producer.abort_transaction()
        assert await offset_of(bootstrap, group, name) == 7


@BOTH
async def test_zombie_is_fenced_and_the_context_keeps_the_error(
    kafka: RealKafka, topic: TopicFactory, library: Any
) -> None:
    name, who, bootstrap = topic(1), unique("zombie"), kafka.bootstrap_servers
    fenced = error_of(library, "ProducerFenced")

    async def work(producer: Any) -> None:
        async with producer.transaction():
            await producer.send_and_wait(name, b"of the zombie")

    producer = producer_of(library, bootstrap, who)
    await producer.start()
    await work(producer)
    async with producer_of(library, bootstrap, who) as successor:
        with pytest.raises(fenced):
            await work(producer)
        await work(successor)
    await stop(producer)
    assert len(await committed(library, bootstrap, name)) == 2


async def test_zombie_that_only_commits_is_fenced(kafka: RealKafka, topic: TopicFactory) -> None:
    name, who, bootstrap = topic(1), unique("zombie"), kafka.bootstrap_servers
    async with producer_of(aiokafka_lite, bootstrap, who) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"of the zombie")
        async with producer_of(aiokafka_lite, bootstrap, who) as successor:
            with pytest.raises(aiokafka_lite.errors.ProducerFenced):
                await producer.commit_transaction()
            with pytest.raises(aiokafka_lite.errors.ProducerFenced):
                await producer.abort_transaction()
            async with successor.transaction():
                await successor.send(name, b"of the successor")
    assert await committed(aiokafka_lite, bootstrap, name) == [b"of the successor"]


async def test_successor_aborts_an_open_transaction(kafka: RealKafka, topic: TopicFactory) -> None:
    name, who, bootstrap = topic(1), unique("left"), kafka.bootstrap_servers
    producer = producer_of(aiokafka_lite, bootstrap, who)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(name, b"left open")
    producer._sender.abort()  # as with SIGKILL: nothing is sent
    async with producer_of(aiokafka_lite, bootstrap, who) as successor, successor.transaction():
        await successor.send(name, b"kept")
    await producer.stop()
    assert await committed(aiokafka_lite, bootstrap, name) == [b"kept"]


async def test_transaction_timeout_aborts(kafka: RealKafka, topic: TopicFactory) -> None:
    name, bootstrap = topic(1), kafka.bootstrap_servers
    async with producer_of(
        aiokafka_lite, bootstrap, unique("slow"), transaction_timeout_ms=1_000
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"late")
        async with asyncio.timeout(PATIENCE):
            while not await aborted(bootstrap, name):
                await asyncio.sleep(0.2)
        with pytest.raises(aiokafka_lite.errors.InvalidTxnState, match="transaction_timeout_ms"):
            await producer.commit_transaction()
    assert await committed(aiokafka_lite, bootstrap, name) == []


async def aborted(bootstrap: str, topic: str) -> bool:
    """True if a marker follows the record."""
    place = aiokafka_lite.TopicPartition(topic, 0)
    async with aiokafka_lite.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        return (await consumer.end_offsets([place]))[place] == 2


async def test_offsets_of_a_former_member_are_rejected(
    kafka: RealKafka, topic: TopicFactory
) -> None:
    """KIP-447."""
    name, group, bootstrap = topic(1), unique("group"), kafka.bootstrap_servers
    place = aiokafka_lite.TopicPartition(name, 0)

    def member() -> Any:
        return aiokafka_lite.AIOKafkaConsumer(
            name, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        )

    async with producer_of(aiokafka_lite, bootstrap, unique("member")) as producer:
        async with member() as consumer:
            before = consumer.group_metadata()
            async with producer.transaction():
                await producer.send_offsets_to_transaction({place: 1}, before)
        async with member() as successor:
            await producer.begin_transaction()
            with pytest.raises(aiokafka_lite.errors.CommitFailedError):
                await producer.send_offsets_to_transaction({place: 2}, before)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_offsets_to_transaction({place: 3}, successor.group_metadata())
    await wait_for_offset(bootstrap, group, name, 3)


# Row 10: authorization

TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5  # ACL resource types
READ, WRITE, DESCRIBE = 3, 4, 8
DENY, ALLOW, PREFIXED = 2, 3, 4
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


async def deny(bootstrap: str, prefix: str, *what: tuple[int, int], describe: bool = False) -> None:
    """Deny operations on resources, and wait until the broker checks it."""
    async with AIOKafkaClient(bootstrap_servers=bootstrap) as client:
        acls = [
            AclCreation(kind, prefix, PREFIXED, "User:*", "*", operation, DENY)
            for kind, operation in what
        ]
        if describe:
            acls.append(AclCreation(TOPIC, prefix, PREFIXED, "User:*", "*", DESCRIBE, ALLOW))
        told = await client.send(client.get_random_node(), CreateAclsRequest(acls))
        assert not any(result.error_code for result in told.results)
    await acls_count(bootstrap, prefix, len(acls))


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A broker that denies access to names that begin with "secret"."""
    with KafkaCluster(config=CONFIG, heap="256m") as cluster:
        for name in ("open", "secret", "read-only"):
            cluster.create_topic(name, 1)
        asyncio.run(deny(cluster.bootstrap_servers, "read-only", (TOPIC, WRITE), describe=True))
        what = [(TOPIC, WRITE), (GROUP, READ), (TRANSACTIONAL_ID, WRITE)]
        asyncio.run(deny(cluster.bootstrap_servers, "secret", *what))
        yield cluster.bootstrap_servers


@BOTH
async def test_denied_transactional_id_raises(guarded: str, library: Any) -> None:
    producer = producer_of(library, guarded, unique("secret"))
    with pytest.raises(error_of(library, "TransactionalIdAuthorizationFailed")):
        await asyncio.wait_for(producer.start(), PATIENCE)
    await stop(producer)


@BOTH
async def test_transactional_id_denied_later_raises(guarded: str, library: Any) -> None:
    denied, who = error_of(library, "TransactionalIdAuthorizationFailed"), unique("later")
    producer = producer_of(library, guarded, who)
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait("open", b"allowed")
    await deny(guarded, who, (TRANSACTIONAL_ID, WRITE))
    await producer.begin_transaction()
    with pytest.raises(denied):
        await asyncio.wait_for(producer.send_and_wait("open", b"denied"), PATIENCE)
    if library is aiokafka_lite:  # aiokafka asserts that this is not called
        with pytest.raises(denied):
            await producer.commit_transaction()
    await stop(producer)


@BOTH
async def test_denied_topic_raises(guarded: str, library: Any) -> None:
    denied = error_of(library, "TopicAuthorizationFailedError")
    async with producer_of(library, guarded, unique("free")) as producer:
        await producer.begin_transaction()
        with pytest.raises(denied):
            await asyncio.wait_for(producer.send("secret", b"denied"), PATIENCE)
        await producer.send("open", b"allowed")
        await producer.commit_transaction()  # the transaction is intact

        await producer.begin_transaction()
        with pytest.raises(denied):
            await asyncio.wait_for(producer.send_and_wait("read-only", b"denied"), PATIENCE)
        with pytest.raises(denied):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("open", b"allowed")


@BOTH
async def test_denied_group_raises(guarded: str, library: Any) -> None:
    denied = error_of(library, "GroupAuthorizationFailedError")
    offsets = {library.TopicPartition("open", 0): 1}
    async with producer_of(library, guarded, unique("free")) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("open", b"aborted")
        with pytest.raises(denied):
            await asyncio.wait_for(
                producer.send_offsets_to_transaction(offsets, unique("secret")), PATIENCE
            )
        with pytest.raises(denied):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("open", b"allowed")
