"""Encoding credentials for SASL messages, and errors that may contain them."""

from aiokafka_lite.errors import KafkaConfigurationError, KafkaConnectionError


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


def failed(what: str, error: Exception) -> KafkaConnectionError:
    """Return the retriable error for application code that failed to provide credentials.

    Raise it outside of the `except` block, or `error` becomes its context.

    Args:
        what: What failed, such as "the token provider".
        error: What it raised. Its repr is shown; but that of a UnicodeError contains the whole
            text, such as a secret from `os.environ`, so only its reason is.
    """
    if isinstance(error, UnicodeError):
        return KafkaConnectionError(f"{what} failed: {type(error).__name__}: {error}")
    failure = KafkaConnectionError(f"{what} failed: {error!r}")
    failure.__cause__ = error
    return failure
