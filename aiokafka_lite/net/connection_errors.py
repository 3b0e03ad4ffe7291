"""The errors of a connection that is lost, and what its user may check."""

from typing import TypeVar

from aiokafka_lite.errors import KafkaConnectionError, KafkaError
from aiokafka_lite.net.connection_options import ConnectionOptions

ErrorT = TypeVar("ErrorT", bound=KafkaError)


def chained(error: ErrorT, cause: BaseException | None) -> ErrorT:
    """Return the error as if raised from its cause."""
    error.__cause__ = cause
    return error


def lost_error(address: str, reason: KafkaError | None) -> KafkaConnectionError:
    """Return a new error that says why a connection is closed; None: it was closed on purpose."""
    if isinstance(reason, KafkaConnectionError):
        return chained(KafkaConnectionError(*reason.args), reason.__cause__)
    if reason is None:
        return KafkaConnectionError(f"{address}: the connection was closed")
    return chained(KafkaConnectionError(f"{address}: the connection was closed: {reason}"), reason)


def hung_up_hint(options: ConnectionOptions) -> str:
    """Return a hint for a listener that hangs up at the first request."""
    certificate = " or a client certificate" if options.tls else ""
    return (
        f" at the first request, as a listener that requires SASL{certificate} does: check "
        f"security_protocol, which is {options.security_protocol}"
    )


def silent_listener(
    no_answer: KafkaConnectionError, options: ConnectionOptions
) -> KafkaConnectionError:
    """Return the error for an address that accepts connections and answers no Kafka request.

    Args:
        no_answer: The error of the last attempt.
        options: The options of the connection.
    """
    return chained(
        KafkaConnectionError(
            f"{no_answer.args[0]}; the address accepts connections but answers no Kafka "
            f"request: check that it is a listener for {options.security_protocol} (the "
            "client's security_protocol)"
            + (" and whether it requires a client certificate" if options.tls else "")
        ),
        no_answer,
    )
