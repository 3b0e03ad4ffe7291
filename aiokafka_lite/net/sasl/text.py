"""Encoding credentials for SASL messages."""

from aiokafka_lite.errors import KafkaConfigurationError


def encoded(secret: str, what: str) -> bytes:
    """Encode a user name or password in UTF-8.

    Args:
        what: What it is, such as "password", for the error, which does not contain the text itself.

    Raises:
        KafkaConfigurationError: It contains a lone surrogate, which comes from decoding with
            "surrogateescape", as `os.environ` does.
    """
    try:
        return secret.encode()
    except UnicodeEncodeError:
        pass  # this error holds the text, so it must not become the context of the next one
    raise KafkaConfigurationError(
        f"The SASL {what} cannot be encoded in UTF-8: it contains a lone surrogate"
    )
