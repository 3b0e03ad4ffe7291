"""The base classes: `KafkaError`, and `BrokerResponseError` for numbered codes.

Exceptions hold plain data only, so they can be copied and pickled: every future of a batch shares
one error and raises a copy of it.
"""

from typing import Any, ClassVar, Final, Self, cast

from aiokafka_lite.errors.table import AMBIGUOUS, CODES, ENDS_CONSUMER, REFRESH, RETRIABLE

__all__ = ["BrokerResponseError", "KafkaError"]


class KafkaError(RuntimeError):
    """Base class of the errors between this client and Kafka.

    The class attributes say how a caller can react to the error; they are constant. Only
    `ambiguous` may be set on an instance: the error of a produced record does so.
    """

    retriable: ClassVar[bool] = False
    """The same attempt may succeed later."""
    invalid_metadata: ClassVar[bool] = False
    """Metadata should be refreshed before the next attempt."""
    ambiguous: bool = False
    """The request may have taken effect: the records may be stored."""
    fatal_to_consumer: ClassVar[bool] = False
    """The consumer cannot continue in its group and must be closed."""

    def __str__(self) -> str:
        if not self.args:
            return type(self).__name__
        return f"{type(self).__name__}: {super().__str__()}"

    def __copy__(self) -> Self:
        """Return a copy to raise, with the cause, which `copy.copy` of exceptions leaves out."""
        make, args, *_ = cast("tuple[Any, ...]", self.__reduce__())
        duplicate: Self = make(*args)
        duplicate.__dict__.update(self.__dict__)
        duplicate.__cause__ = self.__cause__
        # Assigning a cause, even None, hides the context that the copy gets when it is raised.
        duplicate.__suppress_context__ = self.__suppress_context__
        return duplicate


_CLASSES: Final[dict[int, type["BrokerResponseError"]]] = {}  # filled by __init_subclass__ only


class BrokerResponseError(KafkaError):
    """Base class of the errors for the codes that a broker returns.

    A subclass names its code (`class X(BrokerResponseError, code=3)`). The code's name and traits
    come from the table; the subclass's docstring is the description.
    """

    errno: ClassVar[int]
    """The code on the wire."""
    message: ClassVar[str]
    """Kafka's name for the code, such as `NOT_LEADER_OR_FOLLOWER`."""
    description: ClassVar[str] = ""
    """Kafka's description of the code."""

    def __init_subclass__(cls, *, code: int | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if code is None:
            return  # a base class of several codes, or an application's subclass of one
        if code in _CLASSES:
            raise TypeError(f"error code {code} already belongs to {_CLASSES[code].__name__}")
        cls.errno = code
        cls.message, traits = CODES[code]
        cls.description = " ".join((cls.__doc__ or "").split())
        cls.retriable = bool(traits & RETRIABLE)
        cls.invalid_metadata = bool(traits & REFRESH)
        cls.ambiguous = bool(traits & AMBIGUOUS)
        cls.fatal_to_consumer = bool(traits & ENDS_CONSUMER)
        _CLASSES[code] = cls

    def __str__(self) -> str:
        text = super().__str__()
        # The text may be the broker's: it must not forge lines of a log, or control a terminal.
        return f"[Error {self.errno}] {text if text.isprintable() else printable(text)}"


def printable(text: str) -> str:
    """Return the text with its line breaks and other control characters escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def classes_by_code() -> dict[int, type[BrokerResponseError]]:
    """Return every numbered class defined so far, by code."""
    return dict(_CLASSES)
