"""Features, the metadata quorum and its voters against a real Kafka; kafka-python verifies them."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    FeatureLevels,
    FeatureUpdate,
    FeatureUpgradeType,
    QuorumInfo,
)
from aiokafka_lite.errors import (
    BrokerIdNotRegisteredError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidUpdateVersionError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from tools.kafka import KafkaCluster

pytest.importorskip("kafka.admin")


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaCluster]:
    """Three separate nodes: the tests change the cluster permanently."""
    with KafkaCluster(nodes=3, heap="256m") as cluster:
        yield cluster


@pytest.fixture
async def admin(three: KafkaCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=three.bootstrap_servers) as client:
        yield client


async def asked_by_kafka_python(kafka: KafkaCluster, call: str) -> str:
    """What kafka-python's admin client prints, in a separate process because it leaks sockets."""
    script = (
        "import sys, kafka.admin\n"
        "client = kafka.admin.KafkaAdminClient(bootstrap_servers=sys.argv[1])\n"
        f"print(client.{call})\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, kafka.bootstrap_servers), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return printed.decode()


async def until(condition: Any) -> None:
    """Wait until a coroutine function returns a true value."""
    async with asyncio.timeout(120):
        while not await condition():
            await asyncio.sleep(0.1)


@pytest.mark.long
async def test_features_are_described_and_updated(
    admin: AIOKafkaAdminClient, three: KafkaCluster
) -> None:
    before = await admin.describe_features()
    level = before.finalized["metadata.version"].max_level
    assert before.supported["metadata.version"].max_level >= level
    assert before.finalized["group.version"] == FeatureLevels(1, 1)
    assert before.finalized_epoch is not None
    remove = {"group.version": FeatureUpdate(0, FeatureUpgradeType.SAFE_DOWNGRADE)}
    (await admin.update_features(remove, validate_only=True)).raise_for_errors()
    assert (await admin.describe_features()).finalized == before.finalized
    for wrong in (
        {"group.version": FeatureUpdate(99)},
        {"no.such.feature": FeatureUpdate(1)},
    ):
        with pytest.raises(InvalidUpdateVersionError):
            await admin.update_features(wrong)
    (await admin.update_features(remove)).raise_for_errors()

    async def removed() -> bool:
        described = [await admin.describe_features(node_id) for node_id in range(3)]
        return all("group.version" not in each.finalized for each in described)

    await until(removed)
    ask = "describe_features()['group.version'].get('finalized')"
    assert (await asked_by_kafka_python(three, ask)).strip() == "None"
    (await admin.update_features({"group.version": FeatureUpdate(1)})).raise_for_errors()

    async def added() -> bool:
        described = [await admin.describe_features(node_id) for node_id in range(3)]
        levels = [each.finalized.get("group.version") for each in described]
        return levels == [FeatureLevels(1, 1)] * 3

    await until(added)
    assert (await asked_by_kafka_python(three, ask)).strip() == "(1, 1)"


@pytest.mark.long
async def test_voters_are_removed_and_added(
    admin: AIOKafkaAdminClient, three: KafkaCluster
) -> None:
    quorum = await admin.describe_metadata_quorum()
    assert {each.replica_id for each in quorum.voters} == {0, 1, 2}
    assert quorum.leader_id in (0, 1, 2)
    assert quorum.high_watermark
    seen = await asked_by_kafka_python(three, "describe_metadata_quorum()")
    assert f"'leader_id': {quorum.leader_id}" in seen
    [other, *_] = [each for each in quorum.voters if each.replica_id != quorum.leader_id]
    voter_id = other.replica_id

    async def upgraded() -> bool:
        try:
            update = {"kraft.version": FeatureUpdate(1)}
            (await admin.update_features(update)).raise_for_errors()
        except InvalidUpdateVersionError:  # the leader has yet to learn what the voters support
            return False
        return True

    await until(upgraded)

    async def dynamic() -> bool:
        nonlocal quorum
        quorum = await admin.describe_metadata_quorum()
        return bool(quorum.endpoints) and all(each.directory_id for each in quorum.voters)

    await until(dynamic)
    assert set(quorum.endpoints) == {0, 1, 2}
    [directory_id] = [each.directory_id for each in quorum.voters if each.replica_id == voter_id]
    assert directory_id is not None
    endpoints = quorum.endpoints[voter_id]
    with pytest.raises(InconsistentClusterIdError):
        await admin.remove_raft_voter(voter_id, directory_id, cluster_id="another")
    with pytest.raises(DuplicateVoterError):
        await admin.add_raft_voter(voter_id, directory_id, endpoints)
    await admin.remove_raft_voter(voter_id, directory_id)

    async def voters_are(expected: set[int]) -> bool:
        found: QuorumInfo = await admin.describe_metadata_quorum()
        return {each.replica_id for each in found.voters} == expected

    others = {0, 1, 2} - {voter_id}
    await until(lambda: voters_are(others))
    with pytest.raises(VoterNotFoundError):
        await admin.remove_raft_voter(voter_id, directory_id)

    async def observes() -> bool:
        found = await admin.describe_metadata_quorum()
        return voter_id in {each.replica_id for each in found.observers}

    await until(observes)
    await admin.add_raft_voter(voter_id, directory_id, endpoints)
    await until(lambda: voters_are({0, 1, 2}))


@pytest.mark.long
async def test_a_stopped_broker_is_unregistered(
    admin: AIOKafkaAdminClient, three: KafkaCluster
) -> None:
    with pytest.raises(BrokerIdNotRegisteredError):
        await admin.unregister_broker(77)
    three.stop(2)

    async def known() -> set[int]:
        described = await admin.describe_cluster(typed=True, include_fenced_brokers=True)
        return set(described.brokers)

    await admin.unregister_broker(2)

    async def forgotten() -> bool:
        return await known() == {0, 1}

    await until(forgotten)
    with pytest.raises(BrokerIdNotRegisteredError):
        await admin.unregister_broker(2)


async def test_a_controller_that_is_not_there_cannot_be_unregistered(kafka: Any) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        with pytest.raises((ControllerIdNotRegisteredError, UnsupportedVersionError)):
            await admin.unregister_controller(77)


async def test_the_voters_of_a_static_quorum_cannot_be_changed(kafka: Any) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        features = await admin.describe_features()
        if "kraft.version" in features.finalized:
            pytest.skip("the voters of this cluster are dynamic")
        quorum = await admin.describe_metadata_quorum()
        [voter] = quorum.voters
        with pytest.raises(UnsupportedVersionError, match="voter"):
            await admin.remove_raft_voter(voter.replica_id, uuid.uuid4())
