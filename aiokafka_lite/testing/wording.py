"""The error message in a broker's response."""

from aiokafka_lite.errors import BrokerResponseError

__all__ = ["wording"]


def wording(error: BrokerResponseError) -> str:
    """Return the error's message, or Kafka's default message for its code.

    `str(error)` would also contain the code and the class.
    """
    return str(error.args[0]) if error.args else error.description
