"""The filters of `consume --grep`: [!]k:RE, [!]v:RE, [!]t:RE, [!]h:NAME=RE."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.formats.writing import Record

__all__ = ["parse_filters"]

_Test = Callable[[Record], bool]


def parse_filters(texts: Sequence[str]) -> Callable[[Sequence[Record]], list[Record]] | None:
    """Return a function that keeps the records which pass every filter; None without filters.

    Raises:
        UsageError: A filter is invalid.
    """
    tests = [_parse(text) for text in texts]
    if not tests:
        return None
    if len(tests) == 1:
        only = tests[0]
        return lambda records: [record for record in records if only(record)]
    return lambda records: [record for record in records if all(test(record) for test in tests)]


def _parse(text: str) -> _Test:
    negated = text.startswith("!")
    field, colon, pattern = text.removeprefix("!").partition(":")
    if not colon or field not in ("k", "v", "t", "h"):
        raise UsageError(f"--grep {text!r}: write k:RE, v:RE, t:RE or h:NAME=RE, or ! before it")
    name = ""
    if field == "h":
        name, equals, pattern = pattern.partition("=")
        if not equals or not name:
            raise UsageError(f"--grep {text!r}: write h:NAME=RE")
    try:
        search = re.compile(pattern.encode(errors="surrogateescape")).search
    except re.error as error:
        raise UsageError(f"--grep {text!r} is not a regular expression: {error}") from None
    test = _test(field, name, lambda data: search(data) is not None)
    return (lambda record: not test(record)) if negated else test


def _test(field: str, name: str, matches: Callable[[bytes], bool]) -> _Test:
    """A null key, value or header matches nothing."""
    if field == "k":
        return lambda record: record.key is not None and matches(record.key)
    if field == "v":
        return lambda record: record.value is not None and matches(record.value)
    if field == "t":
        return lambda record: matches(record.topic.encode())
    return lambda record: any(
        each == name and value is not None and matches(value) for each, value in record.headers
    )
