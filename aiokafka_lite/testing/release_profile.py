"""The APIs and versions that a cluster offers when it emulates a Kafka release.

Releases before 3.3 run with ZooKeeper, later ones with KRaft. APIs between brokers are never
offered, because nothing here uses them.
"""

from collections.abc import Mapping
from typing import Final

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.protocol.versions import versions_of
from aiokafka_lite.testing.context import ApiRanges
from aiokafka_lite.testing.features import FIRST_ON_KRAFT, release_number

__all__ = ["announced", "offered"]

_ON_KRAFT_ONLY: Final = {ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER}
_PRODUCE_TOLD_FROM_0: Final = (4, 0)


def offered(
    served: ApiRanges, version: str | None, narrowed: Mapping[int, tuple[int, int] | None]
) -> ApiRanges:
    """Return the versions to offer: the served ones, limited by the release and the caller.

    Args:
        served: All served versions.
        version: The release; None for no limit.
        narrowed: The caller's own ranges; None withdraws an API.

    Raises:
        ValueError: An unknown release.
    """
    limits: dict[int, tuple[int, int] | None] = {}
    if version is not None:
        released = versions_of(version)
        limits = {key: released.range_of(key) for key in served}
        if release_number(version) < FIRST_ON_KRAFT:
            limits.update(dict.fromkeys(_ON_KRAFT_ONLY))
    limits.update(narrowed)
    found = {}
    for key, (first, last) in served.items():
        limit = limits.get(key, (first, last))
        if limit is not None and max(first, limit[0]) <= min(last, limit[1]):
            found[key] = (max(first, limit[0]), min(last, limit[1]))
    return found


def announced(ranges: ApiRanges, release: tuple[int, int]) -> ApiRanges:
    """Return the versions in the ApiVersions response, which differ from the offered ones once.

    Since 4.0, Kafka announces Produce from version 0 on, for old librdkafka, but accepts it from 3.
    """
    if release >= _PRODUCE_TOLD_FROM_0 and ranges.get(ApiKey.PRODUCE, (0, 0))[0] == 3:
        return {**ranges, ApiKey.PRODUCE: (0, ranges[ApiKey.PRODUCE][1])}
    return ranges
