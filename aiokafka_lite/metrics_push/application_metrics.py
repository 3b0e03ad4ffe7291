"""Metrics of the application that are pushed with those of its client (KIP-1076)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from aiokafka_lite._arguments import check_callable, flag
from aiokafka_lite.metrics_push.metric_groups import CLIENT_PREFIX

if TYPE_CHECKING:  # loaded if the brokers collect metrics
    from aiokafka_lite.metrics_push.otlp import Attributes, Point

__all__ = ["ApplicationMetrics"]

log = logging.getLogger(__name__)

LONGEST_NAME: Final = 255
"""Characters of a name or an attribute: what OpenTelemetry allows for a name."""


class _Metric:
    __slots__ = ("failed", "measure", "monotonic")

    def __init__(self, measure: Callable[[], float], monotonic: bool) -> None:
        self.measure = measure
        self.monotonic = monotonic
        self.failed = False  # True once a failure was logged


class ApplicationMetrics:
    """The metrics that an application has registered with one client."""

    def __init__(self) -> None:
        self._metrics: dict[tuple[str, Attributes], _Metric] = {}

    def register(
        self,
        name: str,
        measure: Callable[[], float],
        monotonic: bool,
        attributes: Mapping[str, str] | None,
    ) -> None:
        """Add a metric, or replace the one with this name and these attributes."""
        key = _key(name, attributes)
        if not callable(measure):
            raise TypeError(f"`measure` should be a function, not {measure!r}")
        check_callable("measure", measure)
        self._metrics[key] = _Metric(measure, flag("monotonic", monotonic))

    def unregister(self, name: str, attributes: Mapping[str, str] | None) -> None:
        """Remove a metric; does nothing if there is none."""
        self._metrics.pop(_key(name, attributes), None)

    def points(self, wants: Callable[[str], bool], client: str) -> Iterator[Point]:
        """Measure the wanted metrics; one that fails is omitted, and logged once.

        Args:
            wants: True for the names that are wanted.
            client: The client's id, for the log.
        """
        from aiokafka_lite.metrics_push.otlp import Point

        for (name, attributes), metric in list(self._metrics.items()):
            if not wants(name):
                continue
            try:
                value = float(metric.measure())
            except Exception:
                if not metric.failed:
                    metric.failed = True
                    extra = {"kafka_client_id": client}
                    log.exception("%s: the metric %s failed", client, name, extra=extra)
                continue
            metric.failed = False
            yield Point(name, value, attributes, metric.monotonic)


def _key(name: str, attributes: Mapping[str, str] | None) -> tuple[str, Attributes]:
    _check_text("`name`", name)
    if name.startswith(CLIENT_PREFIX):
        raise ValueError(f"names that begin with {CLIENT_PREFIX!r} are the client's own: {name!r}")
    found = {} if attributes is None else attributes
    if not isinstance(found, Mapping):
        raise TypeError(f"`attributes` should be a dict of str to str, not {attributes!r}")
    for key, value in found.items():
        _check_text("an attribute's name", key)
        _check_text(f"the attribute {key!r}", value)
    return name, tuple(sorted(found.items()))


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} should be a str, not {value!r}")
    if not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise ValueError(
            f"{what} should have 1 to {LONGEST_NAME} printable characters, not {value!r}"
        )
