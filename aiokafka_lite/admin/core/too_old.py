"""The error for a broker that is too old: names the feature, and the release that has it."""

from __future__ import annotations

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.protocol.versions import RELEASES

__all__ = ["too_old"]


def too_old(
    kind: type[Request], oldest: int, feature: str | None, error: UnsupportedVersionError
) -> UnsupportedVersionError:
    """Return the error for a broker that is too old for a request.

    Args:
        oldest: Oldest version that can express the request.
        feature: The feature that needs that version; None: the API.
        error: The connection's error, which has the versions of the broker.
    """
    needed = max(oldest, kind.min_version)
    what = feature or f"{kind.name} version {needed}"
    for release, ranges in RELEASES.items():  # the oldest first
        offered = ranges.get(ApiKey(kind.api_key))
        if offered is not None and offered[1] >= needed:
            what = f"{what} requires Kafka {release} or newer"
            break
    return UnsupportedVersionError(f"{what}: {error.args[0]}")
