"""The arguments of `run`, checked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiokafka_lite._arguments import flag, milliseconds, size

__all__ = ["TRANSIENT", "RunOptions", "retry_types"]

TRANSIENT: Final[tuple[type[Exception], ...]] = (ConnectionError, TimeoutError)
"""The exceptions after which a record is retried by default: those raised when a dependency is
down."""

_MOST: Final = 100_000  # handlers at a time


@dataclass(frozen=True)
class RunOptions:
    """The arguments of `run` except the handler; durations in seconds."""

    concurrency: int
    retry: tuple[type[Exception], ...]
    retry_delay: float
    ordered_by_key: bool
    renew_locks: bool
    drain_timeout: float

    @classmethod
    def checked(
        cls,
        handler: Callable[..., object],
        *,
        concurrency: int,
        retry: object,
        retry_delay_ms: float,
        ordered_by_key: bool,
        renew_locks: bool,
        drain_timeout_ms: float,
    ) -> "RunOptions":
        """Check all arguments.

        Raises:
            TypeError: An argument has the wrong type.
            KafkaConfigurationError: (a ValueError) An argument is out of range.
        """
        if not callable(handler):
            raise TypeError(f"`handler` should be a coroutine function, not {handler!r}")
        return cls(
            size("concurrency", concurrency, least=1, most=_MOST),
            retry_types(retry),
            milliseconds("retry_delay_ms", retry_delay_ms),
            flag("ordered_by_key", ordered_by_key),
            flag("renew_locks", renew_locks),
            milliseconds("drain_timeout_ms", drain_timeout_ms),
        )


def retry_types(value: object) -> tuple[type[Exception], ...]:
    """Check the argument `retry`, which may be one class.

    Raises:
        TypeError: Neither an exception class nor a tuple of them.
    """
    types = value if isinstance(value, tuple) else (value,)
    for each in types:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise TypeError(f"`retry` should be subclasses of Exception, not {each!r}")
    return types
