"""The API versions of a broker: from its ApiVersions response, or assumed from its release.

Brokers since 0.10.0 return the range of versions of each API. 0.8.2 and 0.9 close the connection or
do not respond. Their ranges are known, as are those of every later release (`RELEASES`), so that
the embedded broker can emulate any of them.

Source: KIP-35, KIP-511, KIP-584; ApiVersionsResponse.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.protocol.message import Message, RequestOf, Response
from aiokafka_lite.protocol.registry import api_name
from aiokafka_lite.protocol.releases import RANGES

if TYPE_CHECKING:
    from aiokafka_lite.protocol.api_keys import ApiKey
    from aiokafka_lite.protocol.messages.api_versions import ApiVersionsResponse


def _parse(text: str) -> Iterator[tuple[int, tuple[int, int]]]:
    for entry in text.split():
        api_key, _, versions = entry.partition(":")
        low, _, high = versions.partition("-")
        yield int(api_key), (int(low), int(high or low))


class _Releases(Mapping[str, "dict[ApiKey, tuple[int, int]]"]):
    """`RANGES`, parsed on access."""

    def __getitem__(self, release: str) -> dict[ApiKey, tuple[int, int]]:
        from aiokafka_lite.protocol.api_keys import ApiKey  # only the embedded broker needs it

        return {ApiKey(api_key): versions for api_key, versions in _parse(RANGES[release])}

    def __iter__(self) -> Iterator[str]:
        return iter(RANGES)

    def __len__(self) -> int:
        return len(RANGES)


RELEASES: Final[Mapping[str, dict[ApiKey, tuple[int, int]]]] = _Releases()
"""By release ("0.8.2" to the newest, oldest first), the versions of each API that it supports."""


def versions_of(release: str) -> BrokerVersions:
    """Return the API versions of a release.

    Args:
        release: "2.8", or with a patch level: "2.8.2".

    Raises:
        ValueError: The release is unknown.
    """
    parts = release.split(".")
    for length in range(len(parts), 1, -1):
        known = ".".join(parts[:length])
        if known in RANGES:
            return BrokerVersions(dict(_parse(RANGES[known])), release=known)
    raise ValueError(f"unknown Kafka release {release!r}; known: {', '.join(RANGES)}")


class BrokerVersions:
    """The versions that a broker supports, by API. Immutable.

    Args:
        ranges: Oldest and newest version, both inclusive, by API key.
        release: The release, if the versions were assumed rather than returned by the broker.
        features: Finalized features of the cluster: level by name (KIP-584).
    """

    __slots__ = ("_ranges", "features", "release")

    def __init__(
        self,
        ranges: Mapping[int, tuple[int, int]],
        *,
        release: str | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self._ranges = dict(ranges)
        self.release = release
        self.features: Mapping[str, int] = dict(features or {})

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> BrokerVersions:
        """Create from an ApiVersions response."""
        return cls(
            {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
            features={
                feature.name: feature.max_version_level for feature in response.finalized_features
            },
        )

    def range_of(self, api_key: int) -> tuple[int, int] | None:
        """Return the oldest and newest supported version; None if the API is not supported."""
        return self._ranges.get(api_key)

    def supports(self, api_key: int, version: int = 0) -> bool:
        """True if the broker supports `version` of the API or a newer one."""
        found = self._ranges.get(api_key)
        return found is not None and found[1] >= version

    def pick(
        self,
        request: type[Message] | RequestOf[Response],
        latest: int | None = None,
        oldest: int = 0,
    ) -> int:
        """Return the newest version that both sides support.

        Args:
            request: The request, or its class.
            latest: Newest version that the caller can use; None: the newest of this client.
            oldest: Oldest version that the caller can use.

        Raises:
            UnsupportedVersionError: There is none.
        """
        found = self._ranges.get(request.api_key)
        newest = request.max_version if latest is None else min(latest, request.max_version)
        least = max(oldest, request.min_version)
        if found is not None:
            version = min(newest, found[1])
            if version >= max(least, found[0]):
                return version
        raise UnsupportedVersionError(self._refusal(request.name, found, least, newest))

    def _refusal(self, name: str, found: tuple[int, int] | None, least: int, newest: int) -> str:
        broker = "the broker" if self.release is None else f"the broker (assumed {self.release})"
        wanted = f"{least} to {newest}" if least < newest else f"{least}"
        if found is None:
            return f"{broker} does not support the {name} API (version {wanted} is needed)"
        return f"{broker} supports {name} {found[0]} to {found[1]}; version {wanted} is needed"

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BrokerVersions):
            return NotImplemented
        return self._ranges == other._ranges and self.features == other.features

    def __hash__(self) -> int:
        return hash(frozenset(self._ranges.items()))

    def __repr__(self) -> str:
        assumed = "" if self.release is None else f"release={self.release!r}, "
        shown = ", ".join(f"{api_name(key)} {low}-{high}" for key, (low, high) in self._items())
        return f"BrokerVersions({assumed}{shown})"

    def _items(self) -> list[tuple[int, tuple[int, int]]]:
        return sorted(self._ranges.items())
