"""What a broker says of an error, beside its code."""

from aiokafka_lite.errors import BrokerResponseError

__all__ = ["wording"]


def wording(error: BrokerResponseError) -> str:
    """The sentence alone; without one of its own, Kafka's for the code.

    `str(error)` is for people in front of a traceback: it names the code and the class first.
    """
    return str(error.args[0]) if error.args else error.description
