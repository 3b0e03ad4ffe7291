"""What a client remembers about the brokers it has met, so that it asks the right way at once.

Which version of ApiVersions a broker answers, or that it answers none and which release it then
seems to be, costs round trips and even connections to find out. It is found out once a broker.
"""

from typing import NamedTuple


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

    def recall(self, host: str, port: int) -> Known | None:
        """What was learned, None about a stranger."""
        return self._brokers.get((host, port))

    def remember(self, host: str, port: int, known: Known) -> None:
        """It answered so."""
        self._brokers[host, port] = known

    def forget(self, host: str, port: int) -> None:
        """It no longer answers so: the next connection finds out anew."""
        self._brokers.pop((host, port), None)
