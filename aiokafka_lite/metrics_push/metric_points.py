"""Converts a client's metrics to the points of a push.

Non-obvious:
- A difference is measured from the last push that a broker may have accepted. A push that it
  refused is not lost: the next one includes it. A push without an answer counts as accepted, so
  that nothing is counted twice.
- Each difference begins at the last push that had its total, which need not be the last push: the
  subscription may have changed, or the application's function may have failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Final

from aiokafka_lite.metrics_push.metric_groups import metric_group, otlp_name
from aiokafka_lite.metrics_push.otlp import Attributes, Point
from aiokafka_lite.structs import TopicPartition

__all__ = ["ClientMetrics", "Deltas", "PartitionMetrics"]

Values = Mapping[str, float | None]

SLICE: Final = 100
"""Partitions read and encoded at once: about a millisecond."""

_PARTITION: Final = ("records-lag", "records-lead")


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """The metrics of a consumer's partitions.

    Attributes:
        assigned: Returns the assigned partitions.
        read: Returns the metrics of those of them that are still assigned.
    """

    assigned: Callable[[], Sequence[TopicPartition]]
    read: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, Values]]


@dataclass(frozen=True, slots=True)
class ClientMetrics:
    """The source of one client's metrics.

    Attributes:
        kind: "producer", "consumer", "share consumer" or "admin".
        metrics: Returns the client's metrics under Kafka's names.
        nodes: Returns those of each broker by node id.
        resource: Returns the attributes of the client: its group, for example.
        partitions: Those of each partition, if there are any.
    """

    kind: str
    metrics: Callable[[], Values]
    nodes: Callable[[], Mapping[int, Values]]
    resource: Callable[[], Mapping[str, str]]
    partitions: PartitionMetrics | None = None

    def points(self, wants: Callable[[str], bool]) -> Iterator[list[Point]]:
        """Yield the wanted points, in lists that are read at once.

        The caller may let the event loop run between two lists.
        """
        kind = self.kind
        yield list(_points(self.metrics(), lambda metric: metric_group(kind, metric), (), wants))
        node_group = f"{metric_group(kind, 'connection-count')}-node"
        found: list[Point] = []
        for node_id, values in self.nodes().items():
            attributes: Attributes = (("node_id", f"node-{node_id}"),)
            found += _points(values, lambda _: node_group, attributes, wants)
        yield found
        if self.partitions is None:
            return
        group = metric_group(kind, _PARTITION[0])
        if not any(wants(otlp_name(group, metric)) for metric in _PARTITION):
            return
        waiting = iter(self.partitions.assigned())
        while part := list(islice(waiting, SLICE)):
            found = []
            for tp, values in self.partitions.read(part).items():
                attributes = (("partition", str(tp.partition)), ("topic", tp.topic))
                found += _points(values, lambda _: group, attributes, wants)
            yield found


def _points(
    values: Values,
    group_of: Callable[[str], str],
    attributes: Attributes,
    wants: Callable[[str], bool],
) -> Iterator[Point]:
    for metric, value in values.items():
        if value is not None and wants(name := otlp_name(group_of(metric), metric)):
            yield Point(name, value, attributes, metric.endswith("-total"))


class Deltas:
    """The totals of the last push, to send differences."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, Attributes], tuple[float, int]] = {}  # with the time
        self._pending: dict[tuple[str, Attributes], tuple[float, int]] = {}
        self._now = 0  # when the values of the push in preparation were read

    def since_last(self, points: Iterable[Point]) -> Iterator[Point]:
        """Replace totals by their differences since the last push that had them; at least 0.

        A total that was never pushed stays: it is the difference since the client's start. One that
        is not finite is omitted, and the next difference includes its time.
        """
        for point in points:
            if not point.monotonic:
                yield point
            elif isfinite(point.value):
                key = point.name, point.attributes
                self._pending[key] = point.value, self._now
                sent = self._sent.get(key)
                if sent is None:
                    yield point
                else:
                    value, start = sent
                    yield point._replace(value=max(point.value - value, 0.0), start_ns=start)

    def begin(self, now_ns: int) -> None:
        """A push is being prepared.

        Args:
            now_ns: When its values are read, in nanoseconds since the epoch.
        """
        self._now = now_ns
        self._pending = {}

    def on_accepted(self) -> None:
        """The broker has accepted the push, as far as is known."""
        self._sent.update(self._pending)
        self._pending = {}
