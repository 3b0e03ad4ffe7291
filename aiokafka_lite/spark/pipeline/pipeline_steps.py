"""The steps between a pipeline's source and its sink, as plain data.

Each says what it does by one name: `sql`, `python`, `decode`, `window` or `session`,
`deduplicate`, `encode`. What Spark makes of them is in `transforms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiokafka_lite.spark.pipeline.fields import Fields, SpecError

__all__ = [
    "Decode",
    "Deduplicate",
    "Encode",
    "PythonFunction",
    "Sql",
    "Step",
    "Window",
    "parse_step",
]

CODECS = ("json", "csv")
ON_ERROR = ("fail", "drop", "null")


@dataclass(frozen=True, slots=True)
class Sql:
    """A query over the view `records`, which holds what the step before gave."""

    query: str


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function from DataFrame to DataFrame.

    Args:
        path: `package.module:function`; modules beside the specification are found, too.
        arguments: Given to it by keyword; one may be a password, so `repr` does not show them.
    """

    path: str
    arguments: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        module, colon, function = self.path.partition(":")
        if not colon or not module or not function.isidentifier():
            raise SpecError(f"python is package.module:function, not {self.path!r}")


@dataclass(frozen=True, slots=True)
class Decode:
    """Columns out of one column's text.

    Args:
        codec: `json` or `csv`.
        schema: The columns as DDL: `order_id STRING, price DOUBLE`.
        column: What is decoded.
        keep: Columns of the row that stay beside the new ones; expressions like
            `timestamp AS sent_at` rename them.
        on_error: A text that is not of that schema fails the pipeline (`fail`), is left out
            (`drop`), or leaves its columns null (`null`).
    """

    codec: str
    schema: str
    column: str = "value"
    keep: tuple[str, ...] = ()
    on_error: str = "fail"


@dataclass(frozen=True, slots=True)
class Window:
    """Rows grouped by time (and by more), each group one row.

    The result has `window_start`, `window_end`, the columns of `by` and the aggregates.

    Args:
        time: The column that tells when a row happened; text is cast to a timestamp.
        aggregates: Name and SQL expression of each: `revenue = "sum(price)"`.
        length: Of a window: `1 minute`. None for sessions.
        slide: From one window's begin to the next; the length without it.
        gap: A session ends when nothing came for this long. None for windows.
        by: Further columns or expressions that make groups.
        watermark: How late a row may come; a window is over that long after its end.
    """

    time: str
    aggregates: Mapping[str, str]
    length: str | None = None
    slide: str | None = None
    gap: str | None = None
    by: tuple[str, ...] = ()
    watermark: str | None = None

    def __post_init__(self) -> None:
        if (self.length is None) == (self.gap is None):
            raise SpecError("a window has a length, or a session its gap: one of them")
        if not self.aggregates:
            raise SpecError('a window says what it counts: aggregates = { orders = "count(*)" }')


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Each row once, by its columns, within the watermark.

    Args:
        columns: What makes two rows the same.
        time: The column that tells when a row happened.
        watermark: How far apart two of them may come.
    """

    columns: tuple[str, ...]
    time: str
    watermark: str


@dataclass(frozen=True, slots=True)
class Encode:
    """A row for a Kafka sink: `value` out of the columns, and what Kafka needs beside it.

    Args:
        codec: `json` or `csv`.
        key: SQL expression of the record's key; without it records have none.
        columns: Those that go into the value; all without it.
        topic: SQL expression of the topic, where the sink's option does not name one.
        partition: SQL expression of the partition; the partitioner chooses without it.
        headers: SQL expression of the headers, an array of (key, value).
    """

    codec: str
    key: str | None = None
    columns: tuple[str, ...] = ()
    topic: str | None = None
    partition: str | None = None
    headers: str | None = None


Step = Sql | PythonFunction | Decode | Window | Deduplicate | Encode


def parse_step(table: object, where: str) -> Step:
    """One step out of a specification's table.

    Raises:
        SpecError: Naming the place, and what is wrong there.
    """
    fields = Fields(table, where)
    named = [name for name in _PARSERS if name in fields]
    if len(named) != 1:
        raise SpecError(
            f"{where} says what it does by one of {', '.join(_PARSERS)};"
            f" there {'are ' + ' and '.join(named) if named else 'is none'}"
        )
    try:
        step = _PARSERS[named[0]](fields)
    except SpecError as error:
        if str(error).startswith(where):
            raise
        raise SpecError(f"{where}: {error}") from None
    fields.finish()
    return step


def _sql(fields: Fields) -> Step:
    return Sql(fields.text("sql"))


def _python(fields: Fields) -> Step:
    return PythonFunction(fields.text("python"), fields.mapping("arguments"))


def _decode(fields: Fields) -> Step:
    return Decode(
        codec=fields.choice("decode", CODECS, CODECS[0]),
        schema=fields.text("schema"),
        column=fields.text("column", "value"),
        keep=fields.texts("keep"),
        on_error=fields.choice("on_error", ON_ERROR, ON_ERROR[0]),
    )


def _window(fields: Fields) -> Step:
    return Window(
        length=fields.text_or_none("window"),
        slide=fields.text_or_none("slide"),
        gap=fields.text_or_none("session"),
        time=fields.text("time"),
        by=fields.texts("by"),
        watermark=fields.text_or_none("watermark"),
        aggregates=fields.options("aggregates"),
    )


def _deduplicate(fields: Fields) -> Step:
    return Deduplicate(
        columns=fields.texts("deduplicate"),
        time=fields.text("time"),
        watermark=fields.text("watermark"),
    )


def _encode(fields: Fields) -> Step:
    return Encode(
        codec=fields.choice("encode", CODECS, CODECS[0]),
        key=fields.text_or_none("key"),
        columns=fields.texts("columns"),
        topic=fields.text_or_none("topic"),
        partition=fields.text_or_none("partition"),
        headers=fields.text_or_none("headers"),
    )


_PARSERS: dict[str, Callable[[Fields], Step]] = {
    "sql": _sql,
    "python": _python,
    "decode": _decode,
    "window": _window,
    "session": _window,
    "deduplicate": _deduplicate,
    "encode": _encode,
}
