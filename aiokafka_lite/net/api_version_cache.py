"""What a client remembers about the brokers it has met, so that it asks the right way at once.

Which version of ApiVersions a broker answers, or that it answers none and which release it then
seems to be, costs round trips and even connections to find out. It is found out once a broker.
"""

from typing import Final, NamedTuple

NOT_BESIDE_OLD_ONES: Final = 3
"""The ApiVersions of Kafka 2.4: a cluster with such a broker has none from before 0.10."""


class Known(NamedTuple):
    """What was learned about one broker."""

    api_versions: int = -1
    """The ApiVersions version to ask it in; -1 when it answers none."""
    release: str | None = None
    """The release that one which answers none was found to be: "0.9" or "0.8.2"."""


class KnownBrokers:
    """Memory of brokers by their address; connections read and write it."""

    def __init__(self) -> None:
        self._brokers: dict[tuple[str, int], Known] = {}
        self._suspected: tuple[str, int, str] | None = None  # address and release
        self.modern = False
        """A broker has answered as those do that are not found beside brokers before 0.10."""

    def recall(self, host: str, port: int) -> Known | None:
        """What was learned, None about a stranger."""
        return self._brokers.get((host, port))

    def remember(self, host: str, port: int, known: Known) -> None:
        """It answered so."""
        self._brokers[host, port] = known
        if known.api_versions >= NOT_BESIDE_OLD_ONES:
            self.modern = True

    def believes(self, host: str, port: int, release: str) -> bool:
        """Whether a release is to be believed of a broker that seems to be so old.

        A network that cuts connections can make any broker seem so, once; and much is lost with
        one that is wrongly taken for old: idempotence, to begin with. So it has to seem so twice in
        a row, but where others are old, too.
        """
        if any(known.release is not None for known in self._brokers.values()):
            return True
        suspected, self._suspected = self._suspected, (host, port, release)
        return suspected == self._suspected

    def forget(self, host: str, port: int) -> None:
        """It no longer answers so: the next connection finds out anew."""
        self._brokers.pop((host, port), None)
