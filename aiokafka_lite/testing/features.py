"""The features of a cluster and their finalized levels (KIP-584). No I/O.

A release with ZooKeeper has none. A release with KRaft supports its own levels, and has finalized
those of a newly formatted cluster. Streams groups are not served, so their feature is neither
supported nor finalized.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from aiokafka_lite.errors import InvalidUpdateVersionError
from aiokafka_lite.protocol.versions import versions_of
from aiokafka_lite.testing.storage.journal import Journal

__all__ = ["Features", "Levels", "release_number"]

JOURNAL_KIND: Final = "feature"
METADATA_VERSION: Final = "metadata.version"

_METADATA_LEVELS: Final = {
    (3, 3): 7,
    (3, 4): 8,
    (3, 5): 11,
    (3, 6): 14,
    (3, 7): 19,
    (3, 8): 20,
    (3, 9): 21,
    (4, 0): 25,
    (4, 1): 27,
    (4, 2): 29,
    (4, 3): 30,
    (4, 4): 33,
}
"""The latest `metadata.version` of each release with KRaft (`MetadataVersion`)."""

FIRST_ON_KRAFT: Final = (3, 3)
FIRST_WITH_FEATURES: Final = (2, 7)  # KIP-584: returns the epoch of the (still empty) features


class Levels(NamedTuple):
    """The lowest and the highest level, both inclusive."""

    lowest: int
    highest: int


def release_number(version: str | None) -> tuple[int, int]:
    """Return `(2, 8)` for "2.8" or "2.8.2"; for None, the latest release.

    Raises:
        ValueError: The release is unknown.
    """
    if version is None:
        return max(_METADATA_LEVELS)
    versions_of(version)
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


class Features:
    """The supported and finalized levels by feature name.

    Args:
        version: The emulated release; None for the latest.
        overrides: Finalized levels that differ from a new cluster's; 0 removes a feature.
        journal: Stores updates across restarts.

    Attributes:
        release: The emulated release, such as `(4, 4)`.
        on_kraft: True for a release with KRaft.
        supported: The levels that every broker supports.
        finalized: The finalized levels, without features at level 0.
        epoch: Grows with every change of `finalized`; -1 if the release has no features.

    Raises:
        ValueError: The release is unknown, or an override is not supported.
    """

    def __init__(
        self,
        version: str | None,
        overrides: Mapping[str, int] | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal or Journal()
        number = release_number(version)
        self.release = number
        self.on_kraft = number >= FIRST_ON_KRAFT
        self.supported = _supported(number)
        self.finalized = _finalized(number)
        self.epoch = -1
        if number >= FIRST_WITH_FEATURES:
            self.epoch = 1 if self.on_kraft else 0
        for name, level in (overrides or {}).items():
            refusal = self._refusal(name, level)
            if refusal is not None:
                raise ValueError(f"features={{{name!r}: {level}}}: {refusal}")
            self._set(name, level)
        for key, updated in self._journal.entries(JOURNAL_KIND):
            if self._refusal(str(key[0]), updated["level"]) is None:  # else from another release
                self._set(str(key[0]), updated["level"])
                self.epoch += 1

    def level(self, name: str) -> int:
        """Return the finalized level of a feature, or 0."""
        return self.finalized.get(name, 0)

    def check_update(self, name: str, level: int, *, may_lower: bool) -> None:
        """Check that the controller would finalize a level.

        Args:
            name: The feature.
            level: Its new level; 0 removes it.
            may_lower: True if the request allows a downgrade.

        Raises:
            InvalidUpdateVersionError: The feature is unknown, the level is unsupported, or a
                downgrade is not allowed.
        """
        current = self.level(name)
        refusal = self._refusal(name, level)
        if refusal is None and level < current:
            if not may_lower:
                refusal = (
                    "Can't downgrade the version of this feature without setting the upgrade type"
                    " to either safe or unsafe downgrade."
                )
            elif name == METADATA_VERSION:
                refusal = "Refusing to perform a downgrade that might delete metadata information."
        if refusal is not None:
            raise InvalidUpdateVersionError(
                "The update failed for all features since the following feature had an error:"
                f" Invalid update version {level} for feature {name}. {refusal}"
            )

    def update(self, name: str, level: int) -> None:
        """Finalize a checked level."""
        if self.level(name) != level:
            self._journal.note(JOURNAL_KIND, (name,), {"level": level})
            self._set(name, level)
            self.epoch += 1

    def _set(self, name: str, level: int) -> None:
        if level:
            self.finalized[name] = level
        else:
            self.finalized.pop(name, None)

    def _refusal(self, name: str, level: int) -> str | None:
        levels = self.supported.get(name)
        if levels is None:
            return "Broker 0 does not support this feature."
        if not (levels.lowest <= level <= levels.highest):
            return f"Broker 0 only supports versions {levels.lowest}-{levels.highest}."
        return None


def _supported(number: tuple[int, int]) -> dict[str, Levels]:
    if number < FIRST_ON_KRAFT:
        return {}
    lowest = 7 if number >= (4, 0) else 1  # 4.0 dropped the levels before 3.3-IV3
    levels = {METADATA_VERSION: Levels(lowest, _METADATA_LEVELS[number])}
    if number >= (3, 9):
        levels["kraft.version"] = Levels(0, 1)
    if number >= (4, 0):
        levels["transaction.version"] = Levels(0, 2)
        levels["group.version"] = Levels(0, 1)
        levels["eligible.leader.replicas.version"] = Levels(0, 1)
    if number >= (4, 1):
        levels["share.version"] = Levels(0, 2 if number >= (4, 4) else 1)
    return levels


def _finalized(number: tuple[int, int]) -> dict[str, int]:
    if number < FIRST_ON_KRAFT:
        return {}
    levels = {METADATA_VERSION: _METADATA_LEVELS[number]}
    if number >= (4, 0):
        levels["transaction.version"] = 2
        levels["group.version"] = 1
    if number >= (4, 1):
        levels["eligible.leader.replicas.version"] = 1
    if number >= (4, 2):  # a preview in 4.1
        levels["share.version"] = 2 if number >= (4, 4) else 1
    return levels
