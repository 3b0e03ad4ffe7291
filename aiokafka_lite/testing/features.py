"""Which features a cluster has, and at which levels they are finalized (KIP-584). No I/O.

A release on ZooKeeper has none; one on KRaft tells the highest levels that it supports and has
finalized those that a freshly formatted cluster has. The features of what is not served here
(share and streams groups) are neither supported nor finalized.
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
"""The newest `metadata.version` of each release that runs on KRaft (`MetadataVersion`)."""

FIRST_ON_KRAFT: Final = (3, 3)
FIRST_WITH_FEATURES: Final = (2, 7)  # KIP-584: the epoch of the (still empty) features is told


class Levels(NamedTuple):
    """From the lowest to the highest level, both included."""

    lowest: int
    highest: int


def release_number(version: str | None) -> tuple[int, int]:
    """`(2, 8)` of "2.8" or "2.8.2"; the newest release's of None.

    Raises:
        ValueError: An unknown release.
    """
    if version is None:
        return max(_METADATA_LEVELS)
    versions_of(version)
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


class Features:
    """Supported and finalized levels by the features' names.

    Args:
        version: The release posed as; None for the newest.
        overrides: Finalized levels that differ from a fresh cluster's; 0 takes a feature out.
        journal: Remembers over a restart what was updated.

    Attributes:
        release: The release posed as, `(4, 4)`.
        on_kraft: Whether it is one that runs on KRaft.
        supported: What every broker of the cluster can do.
        finalized: What they do; a feature at level 0 is not in it.
        epoch: Grows with every change of `finalized`; -1 where features are unknown.

    Raises:
        ValueError: An unknown release; an override of a feature, or to a level, that is not
            supported.
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
            if self._refusal(str(key[0]), updated["level"]) is None:  # or of another release
                self._set(str(key[0]), updated["level"])
                self.epoch += 1

    def level(self, name: str) -> int:
        """The finalized level of a feature; 0 when there is none."""
        return self.finalized.get(name, 0)

    def check_update(self, name: str, level: int, *, may_lower: bool) -> None:
        """Refuse a level that the controller would not finalize.

        Args:
            name: The feature.
            level: Its new level; 0 takes it out.
            may_lower: The request allows a downgrade.

        Raises:
            InvalidUpdateVersionError: Unknown or unsupported; or lower without being allowed to,
                or where Kafka never allows it.
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
            self._set(name, level)
            self.epoch += 1
            self._journal.note(JOURNAL_KIND, (name,), {"level": level})

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
    lowest = 7 if number >= (4, 0) else 1  # 4.0 dropped what came before 3.3-IV3
    levels = {METADATA_VERSION: Levels(lowest, _METADATA_LEVELS[number])}
    if number >= (3, 9):
        levels["kraft.version"] = Levels(0, 1)
    if number >= (4, 0):
        levels["transaction.version"] = Levels(0, 2)
        levels["group.version"] = Levels(0, 1)
        levels["eligible.leader.replicas.version"] = Levels(0, 1)
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
    return levels
