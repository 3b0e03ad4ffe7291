"""What a cluster offers that poses as a release of Kafka: its APIs, their versions, nothing newer.

Releases before 3.3 are taken to run on ZooKeeper, those since on KRaft. APIs between brokers are
not offered in any release: there is nobody here who would ask.
"""

from collections.abc import Mapping
from typing import Final

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.protocol.versions import versions_of
from aiokafka_lite.testing.context import ApiRanges
from aiokafka_lite.testing.features import FIRST_ON_KRAFT, release_number

__all__ = ["offered", "told"]

_ON_KRAFT_ONLY: Final = {ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER}
_PRODUCE_TOLD_FROM_0: Final = (4, 0)


def offered(
    served: ApiRanges, version: str | None, narrowed: Mapping[int, tuple[int, int] | None]
) -> ApiRanges:
    """The versions to offer: those served, as far as release and caller leave them.

    Args:
        served: All that there is.
        version: The release; None for all that there is.
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


def told(ranges: ApiRanges, release: tuple[int, int]) -> ApiRanges:
    """What ApiVersions answers: what is offered, but for a fib of Kafka's.

    Since 4.0 it tells Produce from 0 on, for the sake of old librdkafka, and takes it from 3.
    """
    if release >= _PRODUCE_TOLD_FROM_0 and ranges.get(ApiKey.PRODUCE, (0, 0))[0] == 3:
        return {**ranges, ApiKey.PRODUCE: (0, ranges[ApiKey.PRODUCE][1])}
    return ranges
