"""The Kafka releases that the harness can start, and the jars that each needs in addition.

Every entry was tried: an artifact that the registry lacks is pinned to the previous release, and
old brokers get the few jars that newer Java versions no longer include.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

NEWEST = "4.4.0"
"""The release that tests run against unless they ask for another."""

FALLBACK = "4.3.1"
"""Used, loudly, when `NEWEST` cannot be resolved whole."""

OLD_RELEASES = ("2.8.2", "1.1.1", "0.11.0.3", "0.10.2.2", "0.9.0.1", "0.8.2.2")
"""One broker of every protocol generation; `make test-brokers` runs the round trip on each."""


@dataclass(frozen=True)
class Artifact:
    """One Maven coordinate; `alone`: without its dependencies."""

    group: str
    name: str
    version: str
    alone: bool = False


@dataclass(frozen=True)
class Release:
    """How one Kafka release is resolved and started.

    Attributes:
        version: Kafka's version, such as `"4.4.0"`.
        scala: The Scala version in the name of the broker's artifact.
        extra: Artifacts added to the class path.
        pins: Artifacts whose version is forced wherever they appear.
    """

    version: str
    scala: str = "2.13"
    extra: tuple[Artifact, ...] = ()
    pins: tuple[Artifact, ...] = ()

    @cached_property
    def number(self) -> tuple[int, ...]:
        """The version as a comparable tuple: `(0, 11, 0, 3)`."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def kraft(self) -> bool:
        """True if it runs without ZooKeeper here (KRaft is production-ready since 3.3)."""
        return self.number >= (3, 3)

    @property
    def broker(self) -> Artifact:
        """The artifact that holds the broker."""
        return Artifact("org.apache.kafka", f"kafka_{self.scala}", self.version)


def _tools(version: str) -> Artifact:
    # Its own dependencies (Connect, Jetty, Jersey) would double the class path for nothing.
    return Artifact("org.apache.kafka", "kafka-tools", version, alone=True)


_ARGUMENTS = Artifact("net.sourceforge.argparse4j", "argparse4j", "0.7.0")
_JSON = Artifact("com.fasterxml.jackson.core", "jackson-databind", "2.16.2")
_JAXB = Artifact("javax.xml.bind", "jaxb-api", "2.3.1")
_LOG4J = (
    Artifact("log4j", "log4j", "1.2.17"),
    Artifact("org.slf4j", "slf4j-log4j12", "1.7.25"),
    Artifact("org.slf4j", "slf4j-api", "1.7.25"),
)
_SLF4J_TO_LOG4J1 = Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")
_SLF4J_TO_LOG4J2 = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5")
# kafka-tools and kafka-tools-api are missing from the registry in 4.4.0. Only the log dumper's
# plug-ins use the one; the other's command-line tools run on the newer clients unchanged.
_TOOLS_4 = _tools("4.3.1")
_TOOLS_API_4 = Artifact("org.apache.kafka", "kafka-tools-api", "4.3.1")

_RELEASES = {
    release.version: release
    for release in (
        Release("4.4.0", extra=(_TOOLS_4, _ARGUMENTS, _SLF4J_TO_LOG4J2), pins=(_TOOLS_API_4,)),
        Release("0.8.2.2", "2.10", extra=(_JSON, *_LOG4J)),
        Release("0.9.0.1", "2.11", extra=(_tools("0.9.0.1"), _ARGUMENTS, _JSON, *_LOG4J)),
        Release("0.10.2.2", "2.11", extra=(_tools("0.10.2.2"), _ARGUMENTS, _JSON, _JAXB, *_LOG4J)),
        Release("0.11.0.3", "2.11", extra=(_tools("0.11.0.3"), _ARGUMENTS, _JSON, _JAXB, *_LOG4J)),
        Release("1.1.1", "2.12", extra=(_tools("1.1.1"), _ARGUMENTS, _JSON, _JAXB, *_LOG4J)),
    )
}


def release(version: str) -> Release:
    """The release of a version; a version that is not in the table needs nothing special.

    Raises:
        ValueError: The version is not of the form `1.2.3`, or is known not to run here.
    """
    known = _RELEASES.get(version)
    if known is not None:
        return known
    parts = version.split(".")
    if len(parts) not in (3, 4) or not all(part.isdigit() for part in parts):
        raise ValueError(f"not a Kafka version: {version!r} (expected a form such as 4.4.0)")
    number = tuple(int(part) for part in parts)
    if number < (2, 4):
        known_ones = ", ".join(sorted(_RELEASES, key=lambda name: _RELEASES[name].number))
        raise ValueError(
            f"Kafka {version} was never tried here; below 2.4 there are {known_ones} "
            "(2.0 to 2.3 bring a ZooKeeper that cannot resolve addresses on Java 17)"
        )
    if number >= (4,):
        return Release(version, extra=(_tools(version), _ARGUMENTS, _SLF4J_TO_LOG4J2))
    return Release(version, extra=(_tools(version), _ARGUMENTS, _SLF4J_TO_LOG4J1))
