"""Text on its way into SASL messages, and out of them into errors."""

from typing import Final

from aiokafka_lite.errors import KafkaConfigurationError

LONGEST_SHOWN: Final = 100
"""Characters of a broker's text that an error repeats."""


def encoded(secret: str, what: str) -> bytes:
    """A name or a password in UTF-8.

    Args:
        what: What it is, for the error, which does not show it.

    Raises:
        KafkaConfigurationError: It has a lone surrogate, as text does that was decoded with
            "surrogateescape", such as that of `os.environ`.
    """
    try:
        return secret.encode()
    except UnicodeEncodeError:
        pass  # it holds the text: it must not become the context of what is raised
    raise KafkaConfigurationError(
        f"the SASL {what} cannot be encoded in UTF-8: it contains a lone surrogate"
    )


def shown(told: str) -> str:
    """What a broker said, cut off where it is long."""
    return told if len(told) <= LONGEST_SHOWN else f"{told[:LONGEST_SHOWN]}..."
