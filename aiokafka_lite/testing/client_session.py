"""One client's connection as the broker sees it: where it comes from and who it is."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aiokafka_lite.testing.security.authentication import Authentication

__all__ = ["ANONYMOUS", "Session"]

ANONYMOUS: Final = "User:ANONYMOUS"


class Session:
    """Lives as long as its connection; handed to every API with each request.

    Attributes:
        connection_id: Counts the connections of the cluster, from 0.
        client_host: The client's address, as in descriptions of groups ("/127.0.0.1").
        principal: Who it is ("User:alice"); `ANONYMOUS` without authentication.
        authentication: How far SASL has come; None on a listener without SASL.
    """

    __slots__ = ("authentication", "client_host", "connection_id", "principal")

    def __init__(
        self,
        connection_id: int,
        client_host: str = "/127.0.0.1",
        authentication: "Authentication | None" = None,
    ) -> None:
        self.connection_id = connection_id
        self.client_host = client_host
        self.principal = ANONYMOUS
        self.authentication = authentication

    @property
    def address(self) -> str:
        """The client's address as ACLs name it: without the slash."""
        return self.client_host.removeprefix("/")

    @property
    def user(self) -> str:
        """The principal's name without its type: whom quotas are for."""
        return self.principal.partition(":")[2]
