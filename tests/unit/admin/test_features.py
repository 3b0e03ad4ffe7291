"""Describing and updating the features of a cluster."""

from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    FeatureLevels,
    FeatureUpdate,
    FeatureUpgradeType,
)
from aiokafka_lite.errors import (
    FeatureUpdateFailedError,
    IllegalArgumentError,
    InvalidUpdateVersionError,
    KafkaProtocolError,
    NotControllerError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesResponse,
)
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

GROUPS = "group.version"
REMOVE = FeatureUpdate(0, FeatureUpgradeType.SAFE_DOWNGRADE)


def updates_asked(brokers: FakeCluster) -> list[list[str]]:
    return [
        [each.feature for each in seen.body.feature_updates]
        for seen in brokers.requests
        if seen.api_key == ApiKey.UPDATE_FEATURES
    ]


async def test_features_are_described_and_updated(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    before = await admin.describe_features()
    assert before.finalized[GROUPS] == FeatureLevels(1, 1)
    assert before.supported[GROUPS].max_level >= 1
    assert before.finalized_epoch is not None
    (await admin.update_features({GROUPS: REMOVE}, validate_only=True)).raise_for_errors()
    assert (await admin.describe_features()).finalized == before.finalized
    updated = await admin.update_features({GROUPS: REMOVE})
    assert updated.raise_for_errors() == {GROUPS: None}
    after = await admin.describe_features(2)
    assert GROUPS not in after.finalized
    assert after.finalized_epoch == before.finalized_epoch + 1
    asked = [seen for seen in brokers.requests if seen.api_key == ApiKey.API_VERSIONS]
    assert asked[-1].node_id == 2
    (await admin.update_features({GROUPS: FeatureUpdate(1)})).raise_for_errors()
    assert (await admin.describe_features()).finalized == before.finalized


async def test_refused_updates_are_raised(admin: AIOKafkaAdminClient) -> None:
    before = await admin.describe_features()
    for updates in ({GROUPS: FeatureUpdate(99)}, {GROUPS: REMOVE, "none": FeatureUpdate(1)}):
        with pytest.raises(InvalidUpdateVersionError):
            await admin.update_features(updates)
    assert await admin.describe_features() == before


@pytest.mark.parametrize("version", ["3.2", "3.9"], ids=["version 0", "version 1"])
async def test_older_brokers_answer_for_each_feature(version: str) -> None:
    def answer(request: Any) -> Any:
        asked = [each.feature for each in request.feature_updates]
        return UpdateFeaturesResponse(results=[UpdatableFeatureResult(name) for name in asked])

    async with (
        FakeCluster(1, version=version) as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        old.control(ApiKey.UPDATE_FEATURES, respond_with=answer)
        updates = {"a": FeatureUpdate(1), "b": REMOVE}
        (await admin.update_features(updates)).raise_for_errors()
        old.control(
            ApiKey.UPDATE_FEATURES,
            respond_with=lambda request: _second_failed(answer(request)),
        )
        updated = await admin.update_features(updates)
        assert updated["a"] is None
        with pytest.raises(FeatureUpdateFailedError, match="feature 'b'"):
            updated.value("b")
        old.control(
            ApiKey.UPDATE_FEATURES,
            respond_with=lambda request: _first_only(answer(request)),
        )
        updated = await admin.update_features(updates)
        assert updated["a"] is None
        assert isinstance(updated["b"], KafkaProtocolError)
        sent = [seen.body for seen in old.requests if seen.api_key == ApiKey.UPDATE_FEATURES]
        of_b = sent[0].feature_updates[1]
        expected = (True, 1) if version == "3.2" else (False, 2)
        assert (of_b.allow_downgrade, of_b.upgrade_type) == expected


def _second_failed(response: Any) -> Any:
    response.results[1].error_code = FeatureUpdateFailedError.errno
    return response


def _first_only(response: Any) -> Any:
    del response.results[1:]
    return response


async def test_a_request_is_repeated_at_the_new_controller(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.UPDATE_FEATURES, error=NotControllerError.errno)
    (await admin.update_features({GROUPS: REMOVE})).raise_for_errors()
    assert updates_asked(brokers) == [[GROUPS], [GROUPS]]


async def test_old_brokers_are_named() -> None:
    unsafe = FeatureUpdate(0, FeatureUpgradeType.UNSAFE_DOWNGRADE)
    async with (
        FakeCluster(1, version="2.3") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"features requires Kafka 2\.4 or newer"):
            await admin.describe_features()
        with pytest.raises(UnsupportedVersionError, match=r"features requires Kafka 2\.7 or newer"):
            await admin.update_features({GROUPS: REMOVE})
    async with (
        FakeCluster(1, version="2.8") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        described = await admin.describe_features()
        assert described.finalized == {}
        with pytest.raises(UnsupportedVersionError, match=r"unsafe.* requires Kafka 3\.3 or newer"):
            await admin.update_features({GROUPS: unsafe})
        with pytest.raises(UnsupportedVersionError, match=r"validate_only.* Kafka 3\.3 or newer"):
            await admin.update_features({GROUPS: REMOVE}, validate_only=True)
        assert updates_asked(old) == []


async def test_bad_arguments_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    call: Any = admin
    update: Any = FeatureUpdate
    for bad in (None, [GROUPS], {GROUPS: 1}, {1: REMOVE}):
        with pytest.raises(TypeError):
            await call.update_features(bad)
    for empty in ({}, {"": REMOVE}):
        with pytest.raises(IllegalArgumentError, match="empty"):
            await admin.update_features(empty)
    with pytest.raises(TypeError, match="`validate_only`"):
        await call.update_features({GROUPS: REMOVE}, validate_only=1)
    with pytest.raises(TypeError, match="`node_id`"):
        await call.describe_features("1")
    with pytest.raises(IllegalArgumentError, match="should be a downgrade"):
        update(0)
    for level in (-1, 40_000):
        with pytest.raises(IllegalArgumentError, match="`max_level`"):
            update(level)
    with pytest.raises(TypeError, match="`upgrade_type`"):
        update(1, 1)
    assert updates_asked(brokers) == []
