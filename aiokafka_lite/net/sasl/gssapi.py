"""SASL/GSSAPI: Kerberos. The broker proves its identity, too; no secret is sent.

After the Kerberos exchange both sides agree on a security layer. Kafka has none: TLS encrypts.

Source: RFC 4752; KIP-12, KIP-43.
"""

from collections.abc import Generator
from typing import Final

from aiokafka_lite.errors import AuthenticationFailedError
from aiokafka_lite.net.authenticate import Exchange, Unanswered
from aiokafka_lite.net.gss import KerberosLogin, SecurityContext, new_context
from aiokafka_lite.net.gss.gss_context import NewContext
from aiokafka_lite.net.slow_exchange import SlowExchange

MOST_STEPS: Final = 8
"""Maximum number of the broker's tokens in the Kerberos exchange, which needs one."""

LONGEST_ANSWER: Final = 256 * 1024
"""Maximum number of bytes of a broker's token; Kerberos's are below 70 KB."""

NO_LAYER: Final = 1
"""The bit of the security layer "none" in the broker's offer."""


class Gssapi:
    """A Kerberos client.

    Args:
        login: The client's credentials.
        service: Name of the brokers' service, `sasl.kerberos.service.name` there.
        domain: Host in the brokers' principal; None for the host that the client dials.
        new_context: Makes the security contexts.
    """

    name = "GSSAPI"
    hint = ""

    def __init__(
        self,
        login: KerberosLogin,
        service: str = "kafka",
        domain: str | None = None,
        new_context: NewContext = new_context,
    ) -> None:
        self._login = login
        self._service = service
        self._domain = domain
        self._new_context = new_context

    async def begin(self, host: str) -> Exchange:
        """Begin an exchange, each step of which may ask the KDC and so runs in a thread.

        Raises:
            KafkaConfigurationError: No implementation of GSS-API is installed.
        """
        context = self._new_context(self._login, f"{self._service}@{self._domain or host}")
        return SlowExchange(_exchange(context), self.name, slow_start=True)

    def __repr__(self) -> str:
        return f"<SASL/GSSAPI {self._service}: {self._login}>"


def _exchange(context: SecurityContext) -> Generator[bytes, bytes, None]:
    try:
        token = context.step(None)
        for _ in range(MOST_STEPS):
            if context.complete:
                break
            token = context.step(_checked((yield token)))
        else:
            raise AuthenticationFailedError(
                f"GSSAPI: the exchange is not complete after {MOST_STEPS} tokens of the broker"
            )
        # The last token may be empty. The broker answers it with its offer of security layers.
        offer = context.unwrap(_checked((yield token)))
        if len(offer) != 4:
            raise AuthenticationFailedError(
                f"GSSAPI: the broker's offer of security layers has {len(offer)} bytes, not 4"
            )
        if not offer[0] & NO_LAYER:
            raise AuthenticationFailedError(
                "GSSAPI: the broker requires a security layer, which Kafka does not support: use "
                "SASL_SSL for encryption"
            )
        # No layer, so a maximum size of 0; no authorization id: the principal's own.
        yield Unanswered(context.wrap(bytes((NO_LAYER, 0, 0, 0))))
    finally:
        context.close()


def _checked(answer: bytes) -> bytes:
    if len(answer) > LONGEST_ANSWER:
        raise AuthenticationFailedError(
            f"GSSAPI: the broker's token of {len(answer)} bytes is longer than {LONGEST_ANSWER}"
        )
    return answer
