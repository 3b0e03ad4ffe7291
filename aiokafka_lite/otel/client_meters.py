"""`meter`: a client's metrics as observable instruments.

Non-obvious:
- A reader of the SDK collects in its own thread. The values are read in the client's event loop, in
  one snapshot for all instruments.
- Each provider has one set of instruments, regardless of the number of clients: a second instrument
  with the same name would count twice. The clients are held weakly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from time import monotonic
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite._version import __version__
from aiokafka_lite.metrics_push.snapshots import Snapshot, SnapshotTimeoutError, take
from aiokafka_lite.net.traffic import Traffic
from aiokafka_lite.otel.conventions import (
    CLIENT_ID,
    DESTINATION,
    GROUP,
    PARTITION,
    SCHEMA_URL,
)

__all__ = ["meter"]

log: Final = logging.getLogger(__name__)

Client = AIOKafkaProducer[Any, Any] | AIOKafkaConsumer[Any, Any] | AIOKafkaShareConsumer[Any, Any]
ClientT = TypeVar("ClientT", bound=Client)
Attributes = dict[str, str | int]

FRESH_FOR: Final = 0.5
"""Seconds for which a snapshot serves all instruments of one collection."""

LOOP_TIMEOUT: Final = 1.0
"""Seconds that an event loop has to answer; a client whose loop is blocked is omitted."""

_PARTITION: Final = ("records-lag", "records-lead")


def meter(client: ClientT, *, meter_provider: MeterProvider | None = None) -> ClientT:
    """Export a client's metrics by observable instruments. A second call does nothing.

    They are named `kafka.producer.record_send_total`, for example: "kafka", the kind of client and
    Kafka's name. Totals are counters, other metrics gauges. Metrics of brokers have the
    attribute `kafka.node.id`, and those of partitions their topic and partition.

    Args:
        client: A producer, consumer or share consumer; it is not kept alive.
        meter_provider: None: the global one.

    Returns:
        The client.

    Raises:
        TypeError: The object is not a client of one of these kinds.
    """
    if not isinstance(client, AIOKafkaProducer | AIOKafkaConsumer | AIOKafkaShareConsumer):
        raise TypeError(f"`client` should be a producer or consumer, not {client!r}")
    _instruments_of(meter_provider).add(client)
    return client


def _kind(client: Client) -> str:
    if isinstance(client, AIOKafkaProducer):
        return "producer"
    return "consumer" if isinstance(client, AIOKafkaConsumer) else "share_consumer"


class _Instruments:
    """The instruments of one provider."""

    def __init__(self, provider: MeterProvider | None) -> None:
        self._meter = metrics.get_meter("aiokafka_lite", __version__, provider, SCHEMA_URL)
        self._clients: WeakKeyDictionary[Client, tuple[float, Snapshot | None]]
        self._clients = WeakKeyDictionary()  # with the time and the result of the last snapshot
        self._names: set[str] = set()
        self._silent: WeakKeyDictionary[Client, bool] = WeakKeyDictionary()

    def add(self, client: Client) -> None:
        if client in self._clients:
            return
        self._clients[client] = (-FRESH_FOR, None)
        kind = _kind(client)
        for metric in client.metrics():
            self._create(f"kafka.{kind}.", metric, partial(self._of_clients, kind, metric))
        for metric in _OF_NODES:
            observe = partial(self._of_nodes, kind, metric)
            self._create(f"kafka.{kind}.node.", metric, observe)
        if kind == "consumer":
            for metric in _PARTITION:
                self._create("kafka.consumer.", metric, partial(self._of_partitions, metric))

    def _create(
        self, prefix: str, metric: str, observe: Callable[[CallbackOptions], Iterable[Observation]]
    ) -> None:
        name = prefix + metric.replace("-", "_")
        if name in self._names:
            return
        self._names.add(name)
        if metric.endswith("-total"):
            self._meter.create_observable_counter(name, [observe])
        else:
            self._meter.create_observable_gauge(name, [observe])

    def _snapshots(self, kind: str) -> Iterator[tuple[Attributes, Snapshot]]:
        for client in list(self._clients):
            if _kind(client) != kind:
                continue
            at, snapshot = self._clients[client]
            now = monotonic()
            loop, client_id, group = client._identity()
            if now - at >= FRESH_FOR:
                try:
                    snapshot = take(client, loop, LOOP_TIMEOUT)
                except SnapshotTimeoutError as error:
                    snapshot = None
                    if client not in self._silent:
                        log.warning("%s: its metrics are not exported: %s", client_id, error)
                    self._silent[client] = True
                else:
                    self._silent.pop(client, None)
                self._clients[client] = (monotonic(), snapshot)
            if snapshot is not None:
                attributes: Attributes = {CLIENT_ID: client_id}
                if group is not None:
                    attributes[GROUP] = group
                yield attributes, snapshot

    def _of_clients(
        self, kind: str, metric: str, options: CallbackOptions
    ) -> Iterator[Observation]:
        for attributes, snapshot in self._snapshots(kind):
            value = snapshot.metrics.get(metric)
            if value is not None:
                yield Observation(value, attributes)

    def _of_nodes(self, kind: str, metric: str, options: CallbackOptions) -> Iterator[Observation]:
        for attributes, snapshot in self._snapshots(kind):
            for node_id, values in snapshot.nodes.items():
                value = values.get(metric)
                if value is not None:
                    yield Observation(value, {**attributes, "kafka.node.id": node_id})

    def _of_partitions(self, metric: str, options: CallbackOptions) -> Iterator[Observation]:
        for attributes, snapshot in self._snapshots("consumer"):
            for tp, lag, lead in snapshot.partitions:
                value = lag if metric == "records-lag" else lead
                if value is not None:
                    where = {DESTINATION: tp.topic, PARTITION: str(tp.partition)}
                    yield Observation(value, {**attributes, **where})


_OF_NODES: Final = tuple(Traffic().metrics(0.0))


@lru_cache(maxsize=64)
def _instruments_of(provider: MeterProvider | None) -> _Instruments:
    return _Instruments(provider)
