"""SASL/PLAIN: sends the password itself, so use it only over TLS or a trusted network.

Source: RFC 4616.
"""

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.authenticate import Exchange
from aiokafka_lite.net.sasl.text import encoded


class Plain:
    """Sends user name and password.

    Raises:
        KafkaConfigurationError: Either contains NUL, the separator, or cannot be encoded.
    """

    name = "PLAIN"
    hint = ""

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise KafkaConfigurationError("SASL/PLAIN allows no NUL in a user name or password")
        self._token = b"\0".join(
            (b"", encoded(username, "user name"), encoded(password, "password"))
        )

    async def begin(self, host: str) -> Exchange:
        return self._exchange()

    def _exchange(self) -> Exchange:
        yield self._token  # the broker's response carries no data, only success

    def __repr__(self) -> str:
        return "<SASL/PLAIN>"  # never the password
