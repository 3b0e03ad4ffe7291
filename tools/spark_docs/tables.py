"""The tables, in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aiokafka_lite.spark.kafka_options import client_options
from aiokafka_lite.spark.kafka_options.jaas import SASL_OPTIONS, SASL_REFUSED
from aiokafka_lite.spark.kafka_options.tls import TLS_OPTIONS, TLS_REFUSED
from aiokafka_lite.spark.options import TABLE, Option
from aiokafka_lite.spark.write_options import WRITE_OPTIONS

__all__ = ["TABLES"]


def reading() -> str:
    """Every option of a reader except `kafka.*`."""
    return _table(
        ("Option", "Default", "Queries", "Meaning"),
        (
            (_named(option), _code(option.default), option.queries, option.meaning)
            for option in TABLE
        ),
    )


def writing() -> str:
    """Every option of a writer except `kafka.*`."""
    return _table(
        ("Option", "Meaning"), ((f"`{name}`", text) for name, text in WRITE_OPTIONS.items())
    )


def reading_clients() -> str:
    """The effect of `kafka.*` options in a reader."""
    return _clients(
        client_options.CONSUMER_OPTIONS,
        client_options.LEFT_BY_CONSUMERS,
        client_options.REFUSED_BY_CONSUMERS,
    )


def writing_clients() -> str:
    """The effect of `kafka.*` options in a writer."""
    return _clients(
        client_options.PRODUCER_OPTIONS,
        client_options.LEFT_BY_PRODUCERS | {"retries"},
        client_options.REFUSED_BY_PRODUCERS,
        (f"compression.{codec}.level" for codec in client_options.LEVELS),
    )


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "reading options": reading,
    "writing options": writing,
    "kafka options of readers": reading_clients,
    "kafka options of writers": writing_clients,
}
"""The tables by their names in the page."""


def _named(option: Option) -> str:
    return f"`{option.name}`" + (" †" if option.ours else "")


def _code(default: str) -> str:
    return f"`{default}`" if default and " " not in default else default


def _clients(
    taken: Iterable[str],
    no_effect: Iterable[str],
    refused: Mapping[str, str],
    also: Iterable[str] = (),
) -> str:
    never = SASL_REFUSED | TLS_REFUSED
    secured = (SASL_OPTIONS | TLS_OPTIONS | {"security.protocol"}) - never
    rows = [
        ("supported", _list([*taken, *also])),
        ("supported: security", _list(secured)),
        ("accepted, without effect", _list(no_effect)),
        ("refused: Java only", _list(never)),
        *(("refused", f"`{name}`: {why}.") for name, why in sorted(refused.items())),
    ]
    return _table(("", "`kafka.` and"), rows)


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(each.replace('|', '&#124;') for each in line)} |" for line in lines
    )
