"""The steps between a pipeline's source and its sink, as plain data.

One key names the kind of a step: `sql`, `python`, `decode`, `window` or `session`, `deduplicate`,
`encode`. `transforms` applies them with Spark.
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
    """A query on the view `records`, which contains the previous step's result."""

    query: str


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function from DataFrame to DataFrame.

    Args:
        path: `package.module:function`; modules beside the specification can be imported, too.
        arguments: Keyword arguments; `repr` omits them because they may contain passwords.
    """

    path: str
    arguments: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        module, colon, function = self.path.partition(":")
        if not colon or not module or not function.isidentifier():
            raise SpecError(f"python must be package.module:function, not {self.path!r}")


@dataclass(frozen=True, slots=True)
class Decode:
    """Decodes the text of one column into columns.

    Args:
        codec: `json` or `csv`.
        schema: The columns as DDL: `order_id STRING, price DOUBLE`.
        column: The column to decode.
        keep: Columns of the row to keep beside the new ones; expressions like
            `timestamp AS sent_at` rename them.
        on_error: Text that does not match the schema fails the pipeline (`fail`), drops the row
            (`drop`), or sets its columns to null (`null`).
    """

    codec: str
    schema: str
    column: str = "value"
    keep: tuple[str, ...] = ()
    on_error: str = "fail"


@dataclass(frozen=True, slots=True)
class Window:
    """Groups rows by time (and by other columns) and aggregates each group to one row.

    The result has `window_start`, `window_end`, the columns of `by` and the aggregates.

    Args:
        time: The column with a row's event time; text is cast to a timestamp.
        aggregates: Name and SQL expression of each: `revenue = "sum(price)"`.
        length: Length of a window: `1 minute`. None for sessions.
        slide: Time between the starts of two windows; by default the length.
        gap: A session ends after this long without rows. None for windows.
        by: Further columns or expressions to group by.
        watermark: How late a row may arrive; a window closes this long after its end.
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
            raise SpecError("exactly one of a window's length and a session's gap must be set")
        if not self.aggregates:
            raise SpecError('a window requires aggregates, such as { orders = "count(*)" }')


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Drops duplicate rows within the watermark.

    Args:
        columns: The columns that identify duplicates.
        time: The column with a row's event time.
        watermark: How far apart duplicates may arrive.
    """

    columns: tuple[str, ...]
    time: str
    watermark: str


@dataclass(frozen=True, slots=True)
class Encode:
    """Encodes a row for a Kafka sink: the columns become `value`, with optional Kafka columns.

    Args:
        codec: `json` or `csv`.
        key: SQL expression of the record's key; by default records have no key.
        columns: The columns to encode into the value; by default all.
        topic: SQL expression of the topic, if the sink's option does not name one.
        partition: SQL expression of the partition; by default the partitioner chooses it.
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
    """Parse one step of a specification.

    Raises:
        SpecError: The step is invalid; the message names the place and the problem.
    """
    fields = Fields(table, where)
    named = [name for name in _PARSERS if name in fields]
    if len(named) != 1:
        raise SpecError(
            f"{where} must have exactly one of {', '.join(_PARSERS)};"
            f" it has {' and '.join(named) if named else 'none'}"
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
