"""A cache of the ApiVersions version, or the old release, of each known broker.

Finding the ApiVersions version that a broker supports, or the release of a broker that supports
none, costs round trips and even connections. With the cache, this cost arises once per broker, not
per connection.
"""

from typing import Final, NamedTuple

NOT_BESIDE_OLD_ONES: Final = 3
"""The ApiVersions of Kafka 2.4: a cluster with such a broker has no broker before 0.10."""


class Known(NamedTuple):
    """The cached facts about one broker."""

    api_versions: int = -1
    """The ApiVersions version to send; -1 if the broker supports none."""
    release: str | None = None
    """The detected release of a broker without ApiVersions: "0.9" or "0.8.2"."""
    plain: bool = False
    """True if it offers newer versions of ApiVersions but answers only version 0, because of a
    proxy, for example."""

    @property
    def guessed(self) -> bool:
        """True if this was concluded from a missing answer."""
        return self.plain or self.release is not None


class KnownBrokers:
    """Known brokers by address; connections read and write it."""

    def __init__(self) -> None:
        self._brokers: dict[tuple[str, int], Known] = {}
        self._misses: dict[tuple[str, int], int] = {}
        self._suspected: dict[tuple[str, int], Known] = {}  # how each looked, once
        self.modern = False
        """True if a broker is too new for its cluster to have brokers before 0.10."""

    @property
    def newest(self) -> int | None:
        """The newest ApiVersions version of the known brokers; None before the first."""
        return max((known.api_versions for known in self._brokers.values()), default=None)

    def recall(self, host: str, port: int) -> Known | None:
        """Return the cached facts, None for an unknown broker."""
        return self._brokers.get((host, port))

    def remember(self, host: str, port: int, known: Known) -> None:
        """Store what a broker's answer showed; a guess never replaces an answer."""
        if known.guessed and self._answered(host, port):
            return
        self._brokers[host, port] = known
        self._suspected.pop((host, port), None)
        self._misses.pop((host, port), None)
        if known.api_versions >= NOT_BESIDE_OLD_ONES:
            self.modern = True

    def believes(self, host: str, port: int, guess: Known) -> bool:
        """True if the client may rely on a guess about a broker.

        A network that cuts connections can make any broker look old once. A broker that is mistaken
        for an old one loses features, idempotence among them. So the broker must look old twice in
        a row, unless other brokers are old, too. Each broker is counted separately: attempts to
        connect to several brokers overlap, because the ladder takes longer than a refresh's
        patience. For the same reason, the broker may have answered another attempt meanwhile.
        """
        if self._answered(host, port):
            return False
        if any(each.release is not None for each in self._brokers.values()) and not guess.plain:
            return True
        suspected = self._suspected.get((host, port))
        self._suspected[host, port] = guess
        return suspected == guess

    def _answered(self, host: str, port: int) -> bool:
        known = self.recall(host, port)
        return known is not None and not known.guessed

    def forget(self, host: str, port: int) -> None:
        """Drop a broker's entry, so that the next connection detects its versions again."""
        self._brokers.pop((host, port), None)

    def misses(self, host: str, port: int) -> int:
        """Return how often in a row a connection was accepted there but could not be used."""
        return self._misses.get((host, port), 0)

    def on_miss(self, host: str, port: int) -> None:
        """A connection was accepted but cannot be used: the next one tries another address of the
        name first."""
        self._misses[host, port] = self.misses(host, port) + 1
