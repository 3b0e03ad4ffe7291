"""SASL/PLAIN: the password itself, so over TLS only where the network is not trusted.

Source: RFC 4616.
"""

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.authenticate import Exchange
from aiokafka_lite.net.sasl.text import encoded


class Plain:
    """Says name and password.

    Raises:
        KafkaConfigurationError: A NUL in either, which would end it in the middle; or either
            cannot be encoded.
    """

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise KafkaConfigurationError("SASL/PLAIN takes no NUL in a user name or password")
        self._token = b"\0".join(
            (b"", encoded(username, "user name"), encoded(password, "password"))
        )

    async def begin(self, host: str) -> Exchange:
        return self._exchange()

    def _exchange(self) -> Exchange:
        yield self._token  # the broker's answer says nothing but that it believes

    def __repr__(self) -> str:
        return "<SASL/PLAIN>"  # never the password
