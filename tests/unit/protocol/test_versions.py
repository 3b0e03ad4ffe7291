"""The choice of the newest version that both sides and the caller support."""

from itertools import pairwise

import pytest

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from aiokafka_lite.protocol.messages.fetch import FetchRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.produce import ProduceRequest
from aiokafka_lite.protocol.registry import ApiKey, request_class
from aiokafka_lite.protocol.versions import RELEASES, BrokerVersions, versions_of


def test_newest_common_version_is_chosen() -> None:
    broker = BrokerVersions({ApiKey.METADATA: (2, 7), ApiKey.FETCH: (4, 99)})
    assert broker.pick(MetadataRequest) == 7
    assert broker.pick(MetadataRequest()) == 7
    assert broker.pick(FetchRequest) == FetchRequest.max_version
    assert broker.pick(MetadataRequest, latest=5) == 5
    assert broker.pick(MetadataRequest, oldest=7) == 7


@pytest.mark.parametrize(
    ("latest", "oldest", "problem"),
    [
        (1, 0, "the broker supports Metadata 2 to 7; version 0 to 1 is needed"),
        (None, 8, "the broker supports Metadata 2 to 7; version 8 to 13 is needed"),
        (8, 8, "the broker supports Metadata 2 to 7; version 8 is needed"),
    ],
)
def test_no_common_version_raises(latest: int | None, oldest: int, problem: str) -> None:
    broker = BrokerVersions({ApiKey.METADATA: (2, 7)})
    with pytest.raises(UnsupportedVersionError, match=problem):
        broker.pick(MetadataRequest, latest, oldest)


def test_api_unsupported_by_the_broker_raises() -> None:
    broker = versions_of("0.8.2.2")
    with pytest.raises(
        UnsupportedVersionError, match=r"assumed 0\.8\.2\) does not support the InitProducerId API"
    ):
        broker.pick(request_class(ApiKey.INIT_PRODUCER_ID))
    assert not broker.supports(ApiKey.INIT_PRODUCER_ID)
    assert broker.range_of(ApiKey.INIT_PRODUCER_ID) is None


def test_supports() -> None:
    broker = BrokerVersions({ApiKey.METADATA: (2, 7)})
    assert broker.supports(ApiKey.METADATA)
    assert broker.supports(ApiKey.METADATA, 7)
    assert not broker.supports(ApiKey.METADATA, 8)
    assert broker.range_of(ApiKey.METADATA) == (2, 7)
    assert list(broker) == [3]


def test_versions_from_a_response() -> None:
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(3, 0, 12), ApiVersion(4242, 1, 2)],
        finalized_features=[FinalizedFeatureKey("transaction.version", 2, 0)],
    )
    broker = BrokerVersions.from_response(response)
    assert broker == BrokerVersions({3: (0, 12), 4242: (1, 2)}, features={"transaction.version": 2})
    assert hash(broker) == hash(BrokerVersions.from_response(response))
    assert broker.release is None
    assert repr(broker) == "BrokerVersions(Metadata 0-12, API 4242 1-2)"


@pytest.mark.parametrize(
    ("release", "known"),
    [
        ("0.8.2.2", "0.8.2"),
        ("0.9.0.1", "0.9"),
        ("0.9", "0.9"),
        ("0.10.2.2", "0.10.2"),
        ("0.11.0.3", "0.11"),
        ("2.8", "2.8"),
        ("4.4.0", "4.4"),
    ],
)
def test_release_names_ignore_the_patch_level(release: str, known: str) -> None:
    assert versions_of(release).release == known


@pytest.mark.parametrize("release", ["0.8.1", "5", "", "kafka", "4"])
def test_unknown_releases_raise(release: str) -> None:
    with pytest.raises(ValueError, match="unknown Kafka release"):
        versions_of(release)


def test_releases_never_lose_a_newest_version() -> None:
    """Ranges only grow at their newer end, and only 4.0 dropped old versions.

    3.0 took UnregisterBroker from brokers (KRaft was in preview), 3.3 gave it back.
    """
    names = list(RELEASES)
    assert names[0] == "0.8.2"
    for older, newer in pairwise(names):
        before, after = RELEASES[older], RELEASES[newer]
        for api_key, (low, high) in before.items():
            if (newer, api_key) == ("3.0", ApiKey.UNREGISTER_BROKER):
                continue
            assert api_key in after, (newer, api_key)
            assert after[api_key][1] >= high, (newer, api_key)
            if newer != "4.0":
                assert after[api_key][0] == low, (newer, api_key)


@pytest.mark.parametrize("release", list(RELEASES))
def test_client_has_a_common_version_with_every_release(release: str) -> None:
    broker = versions_of(release)
    for api_key in RELEASES[release]:
        message = request_class(api_key)
        version = broker.pick(message)
        assert message.min_version <= version <= message.max_version
        assert version == RELEASES[release][api_key][1], "nothing newer is left unused"


def test_produce_version_matches_the_message_format_of_a_release() -> None:
    """Produce 0-1 means message format v0, 2 means v1, 3 and later v2."""
    picked = {release: versions_of(release).pick(ProduceRequest) for release in RELEASES}
    assert (picked["0.8.2"], picked["0.9"], picked["0.10.2"], picked["0.11"]) == (0, 1, 2, 3)
