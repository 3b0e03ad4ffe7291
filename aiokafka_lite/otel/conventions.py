"""Attributes of OpenTelemetry's semantic conventions for messaging, and contexts in headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter
from opentelemetry.trace import Link, Span, Status, StatusCode

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.cluster.metadata import Metadata

Attributes = dict[str, str | int | bool]
Header = tuple[str, bytes | None]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
CLIENT_ID: Final = "messaging.client.id"
GROUP: Final = "messaging.consumer.group.name"
COUNT: Final = "messaging.batch.message_count"
KEY: Final = "messaging.kafka.message.key"
OFFSET: Final = "messaging.kafka.offset"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
CLUSTER: Final = "messaging.kafka.cluster.id"
ADDRESS: Final = "server.address"
PORT: Final = "server.port"
ERROR: Final = "error.type"


class HasHeaders(Protocol):
    """A record of any kind."""

    @property
    def headers(self) -> Sequence[Header]:
        """Its headers."""


class _Headers(Getter[Sequence[Header]], Setter[list[Header]]):
    """Reads and writes a context in the headers of a record."""

    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        found = [value for name, value in carrier if name == key and value is not None]
        return [bytes(value).decode("utf-8", "replace") for value in found] or None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _ in carrier]

    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


_HEADERS: Final = _Headers()


def has_context(headers: Iterable[Header]) -> bool:
    """True if the headers carry a context of the global propagator."""
    fields = propagate.get_global_textmap().fields
    return any(name in fields for name, _ in headers)


def inject(headers: list[Header], span: Span) -> None:
    """Add the context of a span to the headers of a record."""
    propagate.inject(headers, trace.set_span_in_context(span), setter=_HEADERS)


def extract(headers: Sequence[Header]) -> Context:
    """Return the context in the headers of a record; an empty one if there is none."""
    return propagate.extract(headers, Context(), getter=_HEADERS)


def links_to(records: Iterable[HasHeaders]) -> list[Link]:
    """Return links to the contexts in which the records were created."""
    return [link for record in records if (link := link_to(record.headers)) is not None]


def link_to(headers: Sequence[Header]) -> Link | None:
    """Return a link to the context in the headers, or None."""
    if not headers:
        return None
    context = trace.get_current_span(extract(headers)).get_span_context()
    return Link(context) if context.is_valid else None


def text_of(key: object) -> str:
    """Return a record's key as an attribute: text, or hexadecimal digits."""
    if isinstance(key, bytes | bytearray | memoryview):
        data = bytes(key)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.hex()
    return str(key)


def record_attributes(record: ConsumerRecord[Any, Any]) -> Attributes:
    """Return the attributes of a consumed record."""
    found: Attributes = {
        DESTINATION: record.topic,
        PARTITION: str(record.partition),
        OFFSET: record.offset,
    }
    if record.key is not None:
        found[KEY] = text_of(record.key)
    if record.value is None:
        found[TOMBSTONE] = True
    return found


def server_attributes(metadata: Metadata, topic: str, partition: int) -> Attributes:
    """Return the cluster's id, and the address of the partition's leader, as far as known."""
    found: Attributes = {}
    if metadata.cluster_id:
        found[CLUSTER] = metadata.cluster_id
    leader = metadata.leader(topic, partition)
    if leader is not None:
        found[ADDRESS] = leader.host
        found[PORT] = leader.port
    return found


def error_type(error: BaseException) -> str:
    """Return the value of `error.type`: Kafka's name of the error, or the class."""
    kind = type(error)
    module = kind.__module__
    if module == "builtins" or module.startswith("aiokafka_lite."):
        return kind.__qualname__
    return f"{module}.{kind.__qualname__}"


def mark_failed(span: Span, error: BaseException) -> None:
    """Set the error of a span. A cancellation is not an error, but is visible in the attribute."""
    if not span.is_recording():
        return
    span.set_attribute(ERROR, error_type(error))
    if isinstance(error, Exception):
        span.set_status(Status(StatusCode.ERROR, str(error)))


def topics_of(topics: Iterable[str]) -> Mapping[str, str]:
    """Return the attribute of a destination if there is only one topic."""
    names = set(topics)
    return {DESTINATION: names.pop()} if len(names) == 1 else {}
