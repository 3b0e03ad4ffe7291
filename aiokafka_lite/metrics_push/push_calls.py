"""The methods of all clients whose metrics are pushed to the brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:  # each client imports it when it is constructed
    from aiokafka_lite.metrics_push.metrics_push import MetricsPush

__all__ = ["MetricsPushCalls"]


class MetricsPushCalls:
    """What an application asks of the push of metrics (KIP-714, KIP-1076)."""

    __slots__ = ()

    async def client_instance_id(self, timeout: float = 5.0) -> UUID:
        """Return the id under which the brokers store this client's metrics. Not in aiokafka
        (KIP-714).

        Args:
            timeout: Seconds to wait for a broker to assign it.

        Raises:
            IllegalStateError: `enable_metrics_push` is False, or the client is not started or is
                stopped.
            UnsupportedVersionError: The brokers do not collect metrics of clients.
            KafkaTimeoutError: No broker assigned an id in this time.
            TypeError, ValueError: `timeout` is not a valid number.

        Cancellation: stops the wait.
        """
        return await self._metrics_push().client_instance_id(timeout)

    def register_metric_for_subscription(
        self,
        name: str,
        measure: Callable[[], float],
        *,
        monotonic: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Push a metric of the application with those of the client, if the brokers want it. Not
        in aiokafka (KIP-1076).

        A metric with the same name and attributes is replaced. If a push is too large for the
        brokers, the next ones have no metrics of the application until the subscription changes.

        Args:
            name: Its name in OpenTelemetry, such as "com.example.orders.pending".
            measure: Returns its value; called in the event loop before each push. If it raises,
                the metric is omitted, and the first failure is logged.
            monotonic: The value is a total that only grows.
            attributes: Distinguish metrics with the same name.

        Raises:
            ValueError: The name or an attribute is empty, too long or not printable; or the name
                begins with "org.apache.kafka.", as the client's own do.
            TypeError: An argument has the wrong type, or `measure` is a coroutine function.
        """
        self._metrics_push().application.register(name, measure, monotonic, attributes)

    def unregister_metric_from_subscription(
        self, name: str, *, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Push a metric of the application no longer; does nothing if it is not registered. Not in
        aiokafka (KIP-1076).

        Args:
            name: Its name.
            attributes: Those with which it was registered.

        Raises:
            TypeError, ValueError: As for `register_metric_for_subscription`.
        """
        self._metrics_push().application.unregister(name, attributes)

    def _metrics_push(self) -> MetricsPush:
        raise NotImplementedError
