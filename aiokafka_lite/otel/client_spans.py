"""Spans around the calls of one client, and the code that they share.

Non-obvious: an auto-commit runs in a task of the client, so its span has no parent. The
application's call of `commit()` has its own span, which also covers the checks; the commit inside
it gets none, because its span would be a duplicate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from time import perf_counter
from typing import Any, Final, Protocol

from opentelemetry.trace import Span, SpanKind, use_span

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.otel.conventions import (
    CLIENT_ID,
    CLUSTER,
    COUNT,
    DESTINATION,
    ERROR,
    GROUP,
    OPERATION_NAME,
    OPERATION_TYPE,
    PARTITION,
    SYSTEM,
    Attributes,
    Header,
    error_type,
    links_to,
    mark_failed,
    topics_of,
)
from aiokafka_lite.otel.telemetry import Telemetry

__all__ = ["ClientSpans", "DeliveredRecord"]

_committing: Final[ContextVar[bool]] = ContextVar("committing", default=False)
"""True within a commit that has its span."""


class DeliveredRecord(Protocol):
    """The fields that records of consumers and share consumers have in common."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def headers(self) -> tuple[Header, ...]:
        """Its headers."""


class ClientSpans:
    """Makes spans and measurements with the attributes of one client.

    Args:
        telemetry: The tracer and the instruments.
        client_id: The client's id.
        group: Its group, or None.

    Attributes:
        telemetry: As given.
    """

    def __init__(self, telemetry: Telemetry, client_id: str, group: str | None) -> None:
        self.telemetry = telemetry
        self._client_id = client_id
        self._group: dict[str, str] = {} if group is None else {GROUP: group}

    def common(self, cluster: Cluster, name: str, kind: str | None) -> Attributes:
        """Return the attributes of every span.

        Args:
            cluster: The client's.
            name: Of the operation.
            kind: The operation's type in the conventions; None if they have none for it.
        """
        attributes: Attributes = {
            SYSTEM: "kafka",
            OPERATION_NAME: name,
            CLIENT_ID: self._client_id,
            **self._group,
        }
        if kind is not None:
            attributes[OPERATION_TYPE] = kind
        if cluster.metadata.cluster_id:
            attributes[CLUSTER] = cluster.metadata.cluster_id
        return attributes

    def on_polled(
        self,
        cluster: Cluster,
        records: Sequence[DeliveredRecord],
        began: int,
        took: float,
    ) -> None:
        """Records were delivered: make the span "poll TOPIC", and count them.

        Args:
            began: When the call began, in nanoseconds since the epoch.
            took: Seconds that it took.
        """
        counts = Counter((record.topic, record.partition) for record in records)
        self.on_polled_columns(cluster, counts, began, took, records)

    def on_polled_columns(
        self,
        cluster: Cluster,
        counts: Counter[tuple[str, int]],
        began: int,
        took: float,
        records: Sequence[DeliveredRecord] = (),
    ) -> None:
        """As `on_polled`, for records that are only counted, by topic and partition."""
        telemetry = self.telemetry
        topics = topics_of(topic for topic, _ in counts)
        with telemetry.shielded("the span of a poll"):
            span = telemetry.tracer.start_span(
                f"poll {topics[DESTINATION]}" if topics else "poll",
                kind=SpanKind.CLIENT,
                attributes={
                    **self.common(cluster, "poll", "receive"),
                    **topics,
                    COUNT: counts.total(),
                },
                links=links_to(records),
                start_time=began,
            )
            span.end()
        measured = {SYSTEM: "kafka", OPERATION_NAME: "poll", **self._group}
        with telemetry.shielded("measuring a poll"):
            telemetry.operations.record(took, {**measured, **topics})
            for (topic, partition), count in counts.items():
                attributes = {**measured, DESTINATION: topic, PARTITION: str(partition)}
                telemetry.consumed.add(count, attributes)

    @contextmanager
    def operation(
        self,
        cluster: Cluster,
        name: str,
        topics: Iterable[str] = (),
        *,
        kind: str | None = None,
        **more: str,
    ) -> Iterator[None]:
        """The span of a call, the current one within it.

        Args:
            cluster: The client's.
            name: Of the operation, and of the span before the topic.
            topics: Those that the call is about.
            kind: The operation's type, if the conventions have one for it.
            **more: Further attributes; `group` replaces that of the client.
        """
        telemetry, destination = self.telemetry, topics_of(topics)
        own = {GROUP: more["group"]} if "group" in more else self._group
        span: Span | None = None
        with telemetry.shielded("starting a span"):
            span = telemetry.tracer.start_span(
                f"{name} {destination[DESTINATION]}" if destination else name,
                kind=SpanKind.CLIENT,
                attributes={**self.common(cluster, name, kind), **destination, **own},
            )
        measured: dict[str, Any] = {SYSTEM: "kafka", OPERATION_NAME: name, **destination, **own}
        began = perf_counter()
        try:
            if span is None:
                yield
            else:
                with use_span(span, record_exception=False, set_status_on_exception=False):
                    yield
        except BaseException as error:
            measured[ERROR] = error_type(error)
            if span is not None:
                with telemetry.shielded("ending a span"):
                    mark_failed(span, error)
            raise
        finally:
            if span is not None:
                with telemetry.shielded("ending a span"):
                    span.end()
            with telemetry.shielded("measuring a call"):
                telemetry.operations.record(perf_counter() - began, measured)

    @contextmanager
    def commit(self, cluster: Cluster, topics: Iterable[str]) -> Iterator[None]:
        """The span "commit TOPIC" of a call of the application."""
        token = _committing.set(True)
        try:
            with self.operation(cluster, "commit", topics, kind="settle"):
                yield
        finally:
            _committing.reset(token)

    def auto_commit(self, cluster: Cluster, topics: Iterable[str]) -> AbstractContextManager[None]:
        """The span "commit TOPIC" of a commit, unless it is part of a call that has one."""
        if _committing.get():
            return nullcontext()
        return self.operation(cluster, "commit", topics, kind="settle")
