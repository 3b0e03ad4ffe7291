"""`KafkaCollector`: passes the metrics of clients to `prometheus_client`, from any thread.

Non-obvious:
- The labels of a partition are kept from one scrape to the next.
- Clients are held weakly, so that a dropped client is collected and logs its usual warning. A
  stopped client disappears from the output with the next scrape.
- A series that appears twice makes Prometheus reject the whole scrape. So clients with the same
  id, such as consumers that keep the default, get a number in their label.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final
from weakref import ReferenceType, ref

from prometheus_client.core import Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite._arguments import seconds
from aiokafka_lite.metrics_push.metric_groups import series_name
from aiokafka_lite.metrics_push.snapshots import (
    Client,
    PartitionLag,
    Snapshot,
    SnapshotTimeoutError,
    take,
)
from aiokafka_lite.prometheus.families import Family, LabelSet
from aiokafka_lite.structs import TopicPartition

__all__ = ["KafkaCollector"]

log: Final = logging.getLogger(__name__)

_KINDS: Final[dict[type[Client], str]] = {
    AIOKafkaProducer: "producer",
    AIOKafkaConsumer: "consumer",
    AIOKafkaShareConsumer: "share consumer",
}
_CLIENT: Final = ("client_id", "group")
_PARTITION: Final = (*_CLIENT, "topic", "partition")
_NODE: Final = (*_CLIENT, "node_id")


@dataclass(slots=True)
class _Source:
    """A client and its labels.

    Attributes:
        partitions: The labels of the partitions of the last scrape.
    """

    client: ReferenceType[Client]
    loop: asyncio.AbstractEventLoop
    kind: str
    client_id: str
    group: str

    labels: LabelSet = field(init=False)
    partitions: dict[TopicPartition, LabelSet] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = LabelSet(_CLIENT, (self.client_id, self.group))

    def partition_labels(self, partitions: list[TopicPartition]) -> list[LabelSet]:
        """Return the labels of these partitions, and drop those of all others."""
        known, name = self.partitions, (self.client_id, self.group)
        found = []
        for tp in partitions:
            labels = known.get(tp)
            if labels is None:
                labels = known[tp] = LabelSet(_PARTITION, (*name, tp.topic, str(tp.partition)))
            found.append(labels)
        if len(known) > len(found):
            self.partitions = dict(zip(partitions, found, strict=True))
        return found


class KafkaCollector(Collector):
    """Collects the metrics of clients at each scrape.

    It may be scraped in any thread. The snapshot of a client is taken in its event loop, in
    slices of well under a millisecond. In the client's own loop a scrape works as well, but
    blocks it meanwhile: prefer a thread, as `prometheus_client.start_http_server` has.

    Args:
        registry: Where to register; None: `prometheus_client.REGISTRY`.
        timeout: Seconds that a scrape waits for the event loop of each client. The metrics of a
            client whose loop is blocked are omitted, and its `aiokafka_lite_scraped` is 0.

    Raises:
        ValueError: `timeout` is not positive and finite.
    """

    def __init__(self, registry: CollectorRegistry | None = None, *, timeout: float = 1.0) -> None:
        if not 0 < seconds("timeout", timeout) < inf:
            raise ValueError(f"`timeout` should be positive and finite, not {timeout!r}")
        self._timeout = timeout
        self._sources: list[_Source] = []
        self._lock = threading.Lock()
        self._failing: set[str] = set()  # client ids, from the first failed scrape to the next good
        (registry or REGISTRY).register(self)

    def add(
        self,
        client: AIOKafkaProducer | AIOKafkaConsumer | AIOKafkaShareConsumer,
        *,
        client_id: str | None = None,
    ) -> None:
        """Collect the metrics of a client until it is stopped or dropped.

        Args:
            client: The client; it need not be started yet.
            client_id: The label `client_id`; by default the client's own id. A number is added if
                another client has the same label.

        Raises:
            TypeError: It is not a producer or consumer of this package.
            ValueError: The client was added before.
        """
        kind = next((name for each, name in _KINDS.items() if isinstance(client, each)), None)
        if kind is None:
            raise TypeError(f"`client` should be a producer or consumer, not {client!r}")
        with self._lock:
            self._forget_collected()
            if any(source.client() is client for source in self._sources):
                raise ValueError(f"{client!r} was added before")
            loop, own_id, group = client._identity()
            taken = {source.client_id for source in self._sources}
            name = wanted = client_id or own_id
            number = 2
            while name in taken:
                name, number = f"{wanted}-{number}", number + 1
            self._sources.append(_Source(ref(client), loop, kind, name, group or ""))

    def remove(self, client: object) -> None:
        """Stop collecting the metrics of a client; does nothing if it was not added."""
        with self._lock:
            self._sources = [each for each in self._sources if each.client() is not client]

    def _log_failed(self, source: _Source, error: Exception) -> None:
        """Log the first of several failed scrapes."""
        if source.client_id in self._failing:
            return
        self._failing.add(source.client_id)
        extra = {"kafka_client_id": source.client_id}
        if isinstance(error, SnapshotTimeoutError):
            log.warning("%s: not scraped: %s", source.client_id, error, extra=extra)
        else:
            log.error("%s: not scraped", source.client_id, exc_info=error, extra=extra)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not scrape."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Take a snapshot of each client; called by `prometheus_client` for a scrape."""
        with self._lock:
            self._forget_collected()
            sources = list(self._sources)
        families = _Families()
        for source in sources:
            client = source.client()
            if client is None:
                continue
            try:
                snapshot = take(client, source.loop, self._timeout)
            except Exception as error:
                self._log_failed(source, error)
                families.add("aiokafka_lite_scraped", source.labels, 0.0)
                continue
            self._failing.discard(source.client_id)
            if snapshot is None:
                self.remove(client)
                continue
            families.add("aiokafka_lite_scraped", source.labels, 1.0)
            families.add_snapshot(source, snapshot)
        return families.all

    def _forget_collected(self) -> None:
        self._sources = [each for each in self._sources if each.client() is not None]


class _Families:
    """The metrics of one scrape, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Family] = {}

    @property
    def all(self) -> Iterable[Metric]:
        return self._by_name.values()

    def add(self, name: str, labels: LabelSet, value: float) -> None:
        self._family(name).add(labels, value)

    def add_snapshot(self, source: _Source, snapshot: Snapshot) -> None:
        """Add the metrics of one client."""
        kind, labels = source.kind, source.labels
        self.add("aiokafka_lite_ready", labels, float(snapshot.health.ready))
        self.add("aiokafka_lite_alive", labels, float(snapshot.health.alive))
        for metric, value in snapshot.metrics.items():
            if value is not None:
                self.add(series_name(kind, metric), labels, value)
        side = "producer" if kind == "producer" else "consumer"
        for node_id, metrics in snapshot.nodes.items():
            node = LabelSet(_NODE, (source.client_id, source.group, f"node-{node_id}"))
            for metric, value in metrics.items():
                if value is not None:
                    self.add(f"kafka_{side}_node_{metric.replace('-', '_')}", node, value)
        self._add_partitions(source, snapshot.partitions)

    def _add_partitions(self, source: _Source, partitions: list[PartitionLag]) -> None:
        each = source.partition_labels([tp for tp, _, _ in partitions])
        lags = [
            (labels, lag)
            for labels, (_, lag, _) in zip(each, partitions, strict=True)
            if lag is not None
        ]
        leads = [
            (labels, lead)
            for labels, (_, _, lead) in zip(each, partitions, strict=True)
            if lead is not None
        ]
        for metric, series in (("records-lag", lags), ("records-lead", leads)):
            if series:
                self._family(series_name(source.kind, metric)).extend(series)

    def _family(self, name: str) -> Family:
        family = self._by_name.get(name)
        if family is None:
            family = self._by_name[name] = Family(name)
        return family
