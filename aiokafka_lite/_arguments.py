"""Checks arguments immediately. The errors name the argument, with the same wording for producer
and consumer.

A value of the wrong type raises TypeError. A value out of range raises KafkaConfigurationError (an
option) or IllegalArgumentError (a call's argument); both are ValueErrors. A value that passes can
be encoded on the wire, so no argument fails later in a background task.

A topic name is rejected here only if no request can carry it: it cannot be encoded in UTF-8, or is
longer than a Kafka string. The error is InvalidTopicError, as the broker returns it for every
other invalid name.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import ssl
from collections.abc import Collection, Iterable, Mapping
from operator import index
from typing import Any, Final

from aiokafka_lite.errors import (
    IllegalArgumentError,
    InvalidTopicError,
    KafkaConfigurationError,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

INT32: Final = 2**31 - 1
INT64: Final = 2**63 - 1
STRING_BYTES: Final = 32_767
"""Maximum length of a string on the wire, in bytes."""

_LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


# Options


def milliseconds(name: str, value: object, *, least: float = 0, most: int = INT32) -> float:
    """Check a duration in milliseconds and return it in seconds.

    Args:
        most: Maximum; by default that of a 32-bit integer, as on the wire.

    Raises:
        TypeError: Not a number.
        KafkaConfigurationError: Out of range, infinite or nan.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`{name}` should be a number of milliseconds, not {value!r}")
    _check_range(name, value, least, most)
    return value / 1000


def seconds(name: str, value: object) -> float:
    """Check a duration in seconds, which may be infinite.

    Raises:
        TypeError: Not a number.
        IllegalArgumentError: nan.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`{name}` should be a number of seconds, not {value!r}")
    if value != value:
        raise IllegalArgumentError(f"`{name}` should be a number of seconds, not {value}")
    return value


def size(name: str, value: object, *, least: int = 0, most: int = INT32) -> int:
    """Check a size or a count.

    Raises:
        TypeError: Not an integer.
        KafkaConfigurationError: Out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{name}` should be an integer, not {value!r}")
    _check_range(name, value, least, most)
    return value


def _check_range(name: str, value: float, least: float, most: int) -> None:
    if not value >= least:
        raise KafkaConfigurationError(f"`{name}` should be at least {least}, not {value}")
    if value > most:
        raise KafkaConfigurationError(f"`{name}` should be at most {most}, not {value}")


def flag(name: str, value: object) -> bool:
    """Check for True or False.

    Raises:
        TypeError: Anything else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` should be True or False, not {value!r}")
    return value


def check_callable(name: str, value: object) -> None:
    """Check for None or a callable that is not a coroutine function: no caller awaits its result.

    Raises:
        TypeError: Neither, or a coroutine function.
    """
    if value is not None and not callable(value):
        raise TypeError(f"`{name}` should be callable or None, not {value!r}")
    for function in (value, getattr(value, "func", None), getattr(value, "__call__", None)):  # noqa: B004
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"`{name}` should be a plain function, not the coroutine function {value!r}: its "
                "result is needed at once. Await such work before the send, or after the read"
            )


def wire_string(name: str, value: object) -> str:
    """Check for a string that a request can carry.

    Raises:
        TypeError: Not a str.
        KafkaConfigurationError: Not encodable in UTF-8, or too long.
    """
    if not isinstance(value, str):
        raise TypeError(f"`{name}` should be a str, not {value!r}")
    if (why := _why_unencodable(value)) is not None:
        raise KafkaConfigurationError(f"`{name}` {why}")
    return value


def check_loop(loop: object) -> None:
    """Check for an event loop or None.

    Raises:
        TypeError: Neither.
    """
    if loop is not None and not isinstance(loop, asyncio.AbstractEventLoop):
        raise TypeError(f"`loop` should be an event loop, not {loop!r}")


def running_loop(face: str) -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Args:
        face: Name of the class that is created.

    Raises:
        RuntimeError: No event loop is running, as at the top of a module.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"{face} should be created within an async function: no event loop is running here. "
            "To keep it in a global, create it at startup, for example in the lifespan of a web "
            "framework"
        ) from None


def check_api_version(release: object) -> None:
    """Check aiokafka's deprecated `api_version`, which has no effect.

    Raises:
        TypeError: Neither None nor a str.
        KafkaConfigurationError: Neither "auto" nor a release.
    """
    if release is None:
        return
    if not isinstance(release, str):
        raise TypeError(f'`api_version` should be a str such as "auto", not {release!r}')
    if release != "auto" and not re.fullmatch(r"\d+(\.\d+){0,3}", release):
        raise KafkaConfigurationError(
            f'`api_version` should be "auto" or a release such as "0.9", not {release!r}'
        )


def check_security(protocol: object, ssl_context: object, tls_options: bool = False) -> None:
    """Check the security options, with aiokafka's messages; `net.sasl` checks those of SASL.

    Args:
        protocol: The `security_protocol`.
        ssl_context: The `ssl_context`.
        tls_options: True if `ssl_cafile` or another option of TLS was given.

    Raises:
        TypeError: The protocol is not a str, or the context not an SSLContext.
        ValueError: The protocol is unknown.
        KafkaConfigurationError: (a ValueError) the TLS options contradict the context or protocol.
    """
    if not isinstance(protocol, str):
        raise TypeError(f"`security_protocol` should be a str, not {protocol!r}")
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ValueError(
            "`security_protocol` should be SSL or PLAINTEXT, or with SASL SASL_SSL or "
            f"SASL_PLAINTEXT, not {protocol!r}"
        )
    if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
        raise TypeError(f"`ssl_context` should be an ssl.SSLContext, not {ssl_context!r}")
    if tls_options and ssl_context is not None:
        raise KafkaConfigurationError(
            "`ssl_context` cannot be combined with the other `ssl_` options: the context already "
            "has its certificates and settings"
        )
    if tls_options and protocol not in ("SSL", "SASL_SSL"):
        raise KafkaConfigurationError(
            f"`ssl_` options were given, but security_protocol {protocol} does not encrypt: "
            "choose SSL or SASL_SSL"
        )


def refuse_unknown(given: Iterable[str], known: Iterable[str], face: str) -> None:
    """Reject unknown keyword arguments.

    Raises:
        TypeError: Names the first unknown argument and the closest known one.
    """
    known = list(known)
    for name in given:
        from difflib import get_close_matches

        near = get_close_matches(name.replace(".", "_"), known, 1, 0.5)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise TypeError(f"{face} has no argument `{name}`{hint}")


# Calls


def whole(name: str, value: object, *, least: int = 0, most: int = INT64) -> int:
    """Check an integer, of any type with `__index__` except bool.

    Raises:
        TypeError: Not an integer.
        IllegalArgumentError: Out of range.
    """
    try:
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # raises below
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"`{name}` should be an int, not {value!r}")
    if not least <= number <= most:
        raise IllegalArgumentError(f"`{name}` should be between {least} and {most}, not {number}")
    return number


def partition_number(value: object) -> int:
    """Check a partition number.

    Raises:
        TypeError: Not an integer.
        IllegalArgumentError: Negative, or larger than a 32-bit integer.
    """
    return whole("partition", value, most=INT32)


def check_headers(value: object) -> None:
    """Check a record's headers, which are iterated over more than once.

    Raises:
        TypeError: Not a collection, such as an iterator.
    """
    if not isinstance(value, Collection):
        raise TypeError(f"headers must be a sequence of (str, bytes or None) pairs, not {value!r}")


def inert(headers: Any) -> Any:
    """Return the headers in a form that runs no application code when iterated over.

    Headers are read while a batch is being written to. A container that sends a record when
    iterated over would write to the same batch in between.
    """
    if type(headers) in (list, tuple) and all(type(each) is tuple for each in headers):
        return headers
    return tuple(tuple(each) if isinstance(each, list | tuple) else each for each in headers)


def timestamp_ms(value: object) -> int:
    """Check a record's timestamp.

    Raises:
        TypeError: Not an integer.
        IllegalArgumentError: Negative, or larger than a 64-bit integer.
    """
    return whole("timestamp_ms", value)


def topic_name(value: object, name: str = "topic") -> str:
    """Check that a request can carry a topic name; the broker checks that the name is legal.

    Raises:
        TypeError: Not a str.
        InvalidTopicError: Not encodable in UTF-8, or longer than a Kafka string.
    """
    if not isinstance(value, str):
        raise TypeError(f"`{name}` should be a str, not {value!r}")
    if not _LEGAL_TOPIC.fullmatch(value) and (why := _why_unencodable(value)) is not None:
        raise InvalidTopicError(f"`{name}` {why}")
    return value


def topic_names(topics: object) -> frozenset[str]:
    """Check topic names from the application.

    Raises:
        TypeError: Not a tuple, list or set of str.
        InvalidTopicError: No request can carry one of the names.
    """
    if not isinstance(topics, tuple | set | frozenset | list) or not all(
        isinstance(name, str) for name in topics
    ):
        raise TypeError(f"Topics should be list of strings, not {topics!r}")
    return frozenset(topic_name(name) for name in topics)


def as_partition(value: object) -> TopicPartition:
    """Check a partition from the application.

    Raises:
        TypeError: Not a (str, int).
        IllegalArgumentError: The number is below 0 or above 2**31 - 1.
        InvalidTopicError: No request can carry the topic name.
    """
    if isinstance(value, tuple) and len(value) == 2:
        topic, partition = value
        if isinstance(topic, str) and is_int(partition):
            topic_name(topic)
            if not 0 <= partition <= INT32:
                partition_number(partition)  # raises
            # One call may pass thousands, most of them TopicPartitions already.
            return value if type(value) is TopicPartition else TopicPartition(topic, partition)
    raise TypeError(f"partitions must be TopicPartition instances, not {value!r}")


def as_partitions(values: object) -> list[TopicPartition]:
    """Check partitions from the application.

    Raises:
        TypeError: Not an iterable of (str, int).
        IllegalArgumentError, InvalidTopicError: As for `as_partition`.
    """
    if not isinstance(values, Iterable):
        raise TypeError(f"partitions must be TopicPartition instances, not {values!r}")
    return [as_partition(each) for each in values]


def offsets_to_commit(value: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Check the offsets of a commit from the application, with aiokafka's messages.

    Args:
        value: By TopicPartition, an int, an (int, str) or an OffsetAndMetadata.

    Raises:
        ValueError: Not a mapping, an empty one, a value of another type, or a negative offset.
        TypeError: A key is not a TopicPartition, or metadata is not a str.
        InvalidTopicError: No request can carry a topic name.
    """
    if not value or not isinstance(value, Mapping):
        raise IllegalArgumentError(
            f"offsets should be a dict from TopicPartition to the offset to commit, not {value!r}"
        )
    checked: set[str] = set()
    return {_commit_key(tp, checked): _to_commit(tp, each) for tp, each in value.items()}


def _commit_key(tp: object, checked: set[str]) -> TopicPartition:
    """Check a partition to commit; `checked` holds the topic names already checked."""
    if not isinstance(tp, TopicPartition):
        raise TypeError("Key should be TopicPartition instance")
    topic, partition = tp
    if topic in checked and type(partition) is int and 0 <= partition <= INT32:
        return tp
    tp = as_partition(tp)
    checked.add(tp.topic)
    return tp


def _to_commit(tp: object, value: object) -> OffsetAndMetadata:
    metadata: object = ""
    offset = value
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise IllegalArgumentError(f"{tp} should have an offset and metadata, not {value!r}")
        offset, metadata = value
    if not isinstance(metadata, str):
        raise TypeError("Metadata should be a string")
    epoch = value.leader_epoch if isinstance(value, OffsetAndMetadata) else None
    if type(offset) is int and 0 <= offset <= INT64 and not metadata and epoch is None:
        return OffsetAndMetadata(offset, "")  # fast path: one commit may have thousands
    try:
        number = whole(f"offset of {tp}", offset)
    except TypeError as error:
        raise IllegalArgumentError(str(error.args[0])) from None
    return OffsetAndMetadata(number, wire_string("metadata", metadata), known_epoch(tp, epoch))


def known_epoch(tp: object, epoch: object) -> int | None:
    """Check a leader epoch; return None for an unknown one: None, or the -1 of a `ConsumerRecord`.

    Raises:
        TypeError: Not an integer.
        IllegalArgumentError: Out of range.
    """
    if epoch is None:
        return None
    number = whole(f"leader epoch of {tp}", epoch, least=-1, most=INT32)
    return None if number == -1 else number


def is_int(value: object) -> bool:
    """True if a value is an int; bools do not count."""
    return isinstance(value, int) and not isinstance(value, bool)


def _why_unencodable(text: str) -> str | None:
    """Return why no request can carry a text, or None if one can."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        return f"cannot be encoded in UTF-8: {text[error.start : error.end]!r} at {error.start}"
    if length > STRING_BYTES:
        return f"is {length} bytes long in UTF-8; Kafka allows at most {STRING_BYTES}"
    return None
