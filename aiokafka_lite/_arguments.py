"""What applications pass, checked at once: one wording for both faces, the argument named.

A value of the wrong kind is a TypeError; one out of its range a KafkaConfigurationError (of the
options) or an IllegalArgumentError (of a call), both of them ValueErrors. What passes here can be
said on the wire: nothing that an application passed may fail in a background task later.

A topic's name is refused here only if no request can carry it: it is no UTF-8, or longer than a
Kafka string. The error is InvalidTopicError, the same that the broker, the judge of all other
names, answers with.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Collection, Iterable
from difflib import get_close_matches
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
"""Most bytes of a string on the wire."""

_LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


# Options


def milliseconds(name: str, value: object, *, least: float = 0, most: int = INT32) -> float:
    """A duration in milliseconds, as seconds.

    Args:
        most: The largest one; by default what 32 bits hold, as on the wire.

    Raises:
        TypeError: Not a number.
        KafkaConfigurationError: Out of range, infinite or not a number at all (nan).
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`{name}` should be a number of milliseconds, not {value!r}")
    _check_range(name, value, least, most)
    return value / 1000


def seconds(name: str, value: object) -> float:
    """A duration in seconds, infinite if you like.

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
    """A size or a count.

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
    """True or False.

    Raises:
        TypeError: Anything else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` should be True or False, not {value!r}")
    return value


def check_callable(name: str, value: object) -> None:
    """Something to call, or None.

    Raises:
        TypeError: It cannot be called.
    """
    if value is not None and not callable(value):
        raise TypeError(f"`{name}` should be callable or None, not {value!r}")


def wire_string(name: str, value: object) -> str:
    """A string that a request can carry.

    Raises:
        TypeError: Not a str.
        KafkaConfigurationError: No UTF-8, or too long.
    """
    if not isinstance(value, str):
        raise TypeError(f"`{name}` should be a str, not {value!r}")
    if (why := _unsayable(value)) is not None:
        raise KafkaConfigurationError(f"`{name}` {why}")
    return value


def check_loop(loop: object) -> None:
    """An event loop, or None.

    Raises:
        TypeError: Neither.
    """
    if loop is not None and not isinstance(loop, asyncio.AbstractEventLoop):
        raise TypeError(f"`loop` should be an event loop, not {loop!r}")


def running_loop(face: str) -> asyncio.AbstractEventLoop:
    """The event loop that runs here.

    Args:
        face: The class that is made.

    Raises:
        RuntimeError: There is none, as at the top of a module.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"{face} should be created within an async function: no event loop is running here. "
            "An application that needs it in a global creates it when it starts, for example in "
            "the lifespan of a web framework"
        ) from None


def check_api_version(release: object) -> None:
    """aiokafka's deprecated `api_version`: without effect, but no nonsense.

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


def check_security(protocol: object, ssl_context: object) -> None:
    """How connections are secured, in aiokafka's words; what SASL needs, `net.sasl` checks.

    Raises:
        TypeError: The protocol is no str, or the context none of TLS.
        ValueError: An unknown protocol, or no TLS context where one is needed.
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
    if protocol in ("SSL", "SASL_SSL") and ssl_context is None:
        raise ValueError("`ssl_context` is mandatory if security_protocol=='SSL'")


def refuse_unknown(given: Iterable[str], known: Iterable[str], face: str) -> None:
    """Refuse arguments that a face does not have.

    Raises:
        TypeError: For the first of them, with the nearest name that exists.
    """
    known = list(known)
    for name in given:
        near = get_close_matches(name.replace(".", "_"), known, 1, 0.5)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise TypeError(f"{face} has no argument `{name}`{hint}")


# Calls


def whole(name: str, value: object, *, least: int = 0, most: int = INT64) -> int:
    """An integer, also of another library's kind; True and False are none.

    Raises:
        TypeError: Not an integer.
        IllegalArgumentError: Out of range.
    """
    try:
        number = None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # what has no __index__ is told below
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"`{name}` should be an int, not {value!r}")
    if not least <= number <= most:
        raise IllegalArgumentError(f"`{name}` should be between {least} and {most}, not {number}")
    return number


def partition_number(value: object) -> int:
    """The number of a partition.

    Raises:
        TypeError: Not an integer.
        IllegalArgumentError: Negative, or more than 32 bits hold.
    """
    return whole("partition", value, most=INT32)


def check_headers(value: object) -> None:
    """A record's headers, which are read more than once.

    Raises:
        TypeError: No collection; what can be iterated over only once is none.
    """
    if not isinstance(value, Collection):
        raise TypeError(f"headers must be a sequence of (str, bytes or None) pairs, not {value!r}")


def inert(headers: Any) -> Any:
    """The same headers in a form that runs no code of the application when it is walked through.

    Headers are read while a batch is being written to. A container whose iteration sends a record
    of its own would write to that batch in between.
    """
    if type(headers) in (list, tuple) and all(type(each) is tuple for each in headers):
        return headers
    return tuple(tuple(each) if isinstance(each, list | tuple) else each for each in headers)


def timestamp_ms(value: object) -> int:
    """A record's time.

    Raises:
        TypeError: Not an integer.
        IllegalArgumentError: Negative, or more than 64 bits hold.
    """
    return whole("timestamp_ms", value)


def topic_name(value: object, name: str = "topic") -> str:
    """The name of a topic, as far as it can be said; whether it is legal, the broker tells.

    Raises:
        TypeError: Not a str.
        InvalidTopicError: No UTF-8, or longer than a string may be.
    """
    if not isinstance(value, str):
        raise TypeError(f"`{name}` should be a str, not {value!r}")
    if not _LEGAL_TOPIC.fullmatch(value) and (why := _unsayable(value)) is not None:
        raise InvalidTopicError(f"`{name}` {why}")
    return value


def topic_names(topics: object) -> frozenset[str]:
    """Topic names as an application gives them.

    Raises:
        TypeError: Not a tuple, list or set of str.
        InvalidTopicError: One that cannot be said.
    """
    if not isinstance(topics, tuple | set | frozenset | list) or not all(
        isinstance(name, str) for name in topics
    ):
        raise TypeError(f"Topics should be list of strings, not {topics!r}")
    return frozenset(topic_name(name) for name in topics)


def as_partition(value: object) -> TopicPartition:
    """A partition as an application gives it.

    Raises:
        TypeError: Not a (str, int).
        IllegalArgumentError: A number below 0 or above 2**31 - 1.
        InvalidTopicError: A topic that cannot be said.
    """
    if isinstance(value, tuple) and len(value) == 2:
        topic, partition = value
        if isinstance(topic, str) and is_int(partition):
            topic_name(topic)
            if not 0 <= partition <= INT32:
                partition_number(partition)  # says what is wrong
            # Thousands may come at once, and be what they should be already.
            return value if type(value) is TopicPartition else TopicPartition(topic, partition)
    raise TypeError(f"partitions must be TopicPartition instances, not {value!r}")


def as_partitions(values: object) -> list[TopicPartition]:
    """Partitions as an application gives them.

    Raises:
        TypeError: Not an iterable of (str, int).
        IllegalArgumentError, InvalidTopicError: As of `as_partition`.
    """
    if not isinstance(values, Iterable):
        raise TypeError(f"partitions must be TopicPartition instances, not {values!r}")
    return [as_partition(each) for each in values]


def offsets_to_commit(value: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as an application gives them to be committed, in aiokafka's words.

    Args:
        value: By TopicPartition an int, an (int, str) or an OffsetAndMetadata.

    Raises:
        ValueError: No dict, none in it, or something else by a partition; a negative offset.
        TypeError: A key is no TopicPartition, or metadata no str.
        InvalidTopicError: A topic that cannot be said.
    """
    if not value or not isinstance(value, dict):
        raise IllegalArgumentError(
            f"offsets should be a dict of what to commit by TopicPartition, not {value!r}"
        )
    checked: set[str] = set()
    return {_commit_key(tp, checked): _to_commit(tp, told) for tp, told in value.items()}


def _commit_key(tp: object, checked: set[str]) -> TopicPartition:
    """A partition to commit for; `checked` are the names of topics that are good."""
    if not isinstance(tp, TopicPartition):
        raise TypeError("Key should be TopicPartition instance")
    topic, partition = tp
    if topic in checked and type(partition) is int and 0 <= partition <= INT32:
        return tp
    tp = as_partition(tp)
    checked.add(tp.topic)
    return tp


def _to_commit(tp: object, told: object) -> OffsetAndMetadata:
    metadata: object = ""
    offset = told
    if isinstance(told, tuple | list):
        if len(told) != 2:
            raise IllegalArgumentError(f"{tp} should have an offset and metadata, not {told!r}")
        offset, metadata = told
    if not isinstance(metadata, str):
        raise TypeError("Metadata should be a string")
    epoch = told.leader_epoch if isinstance(told, OffsetAndMetadata) else None
    if type(offset) is int and 0 <= offset <= INT64 and not metadata and epoch is None:
        return OffsetAndMetadata(offset, "")  # thousands may come at once
    try:
        number = whole(f"offset of {tp}", offset)
    except TypeError as error:
        raise IllegalArgumentError(str(error.args[0])) from None
    if epoch is not None:
        epoch = whole(f"leader epoch of {tp}", epoch, most=INT32)
    return OffsetAndMetadata(number, wire_string("metadata", metadata), epoch)


def is_int(value: object) -> bool:
    """Whether a value is an int; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _unsayable(text: str) -> str | None:
    """Why no request can carry a text, or None."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        return f"cannot be encoded in UTF-8: {text[error.start : error.end]!r} at {error.start}"
    if length > STRING_BYTES:
        return f"has {length} bytes; Kafka's strings have {STRING_BYTES} at most"
    return None
