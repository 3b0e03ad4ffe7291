"""The roots of the exception tree: `KafkaError`, and `BrokerResponseError` for numbered codes.

Exceptions hold plain data only and can be copied and pickled: one error is given to every future
of a batch, and copies of it are raised.
"""

from typing import ClassVar, Final

from aiokafka_lite.errors.table import CODES, Trait

__all__ = ["BrokerResponseError", "KafkaError"]


class KafkaError(RuntimeError):
    """Anything that goes wrong between this client and Kafka.

    The class attributes tell a caller what may be done about it; none of them changes. Only
    `ambiguous` may be told by a single error for itself: that of a producer's record does.
    """

    retriable: ClassVar[bool] = False
    """The same attempt may succeed later."""
    invalid_metadata: ClassVar[bool] = False
    """Metadata should be refreshed before the next attempt."""
    ambiguous: bool = False
    """What was asked for may have been done: the records may be stored."""
    fatal_to_consumer: ClassVar[bool] = False
    """The consumer cannot go on in its group; it has to be closed."""

    def __str__(self) -> str:
        if not self.args:
            return type(self).__name__
        return f"{type(self).__name__}: {super().__str__()}"


_CLASSES: Final[dict[int, type["BrokerResponseError"]]] = {}  # filled by __init_subclass__ only


class BrokerResponseError(KafkaError):
    """An error code that a broker answered with.

    A subclass names its code (`class X(BrokerResponseError, code=3)`) and so takes its name and
    its traits from the table; its docstring is the description.
    """

    errno: ClassVar[int]
    """The code on the wire."""
    message: ClassVar[str]
    """Kafka's own name of the code, such as `NOT_LEADER_OR_FOLLOWER`."""
    description: ClassVar[str] = ""
    """Kafka's own sentence about the code."""

    def __init_subclass__(cls, *, code: int | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if code is None:
            return  # a parent of several codes, or a caller's own subclass of one
        if code in _CLASSES:
            raise TypeError(f"error code {code} already belongs to {_CLASSES[code].__name__}")
        cls.errno = code
        cls.message, traits = CODES[code]
        cls.description = " ".join((cls.__doc__ or "").split())
        cls.retriable = Trait.RETRIABLE in traits
        cls.invalid_metadata = Trait.REFRESH in traits
        cls.ambiguous = Trait.AMBIGUOUS in traits
        cls.fatal_to_consumer = Trait.ENDS_CONSUMER in traits
        _CLASSES[code] = cls

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


def classes_by_code() -> dict[int, type[BrokerResponseError]]:
    """Every numbered class defined so far, by its code."""
    return dict(_CLASSES)
