"""The clients that push metrics (KIP-714): their subscriptions, and what they pushed.

It follows Kafka's `ClientMetricsManager`: a client may push once in its interval, and once after
each question for its subscription, so that a change of the subscription takes effect at once.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.errors import (
    InvalidRequestError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.configs.config_store import ConfigResource, ConfigStore
from aiokafka_lite.testing.configs.config_values import listed

__all__ = ["ACCEPTED_CODECS", "ClientIdentity", "PushedMetrics", "TelemetryInstances"]

ACCEPTED_CODECS: Final = (
    *(Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY),
)
EVERYTHING: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
_NEVER: Final = float("-inf")

ClientIdentity = Mapping[str, str]
"""What a subscription can match: `client_id`, `client_instance_id`, ..."""


class PushedMetrics(NamedTuple):
    """One accepted push.

    Attributes:
        client_id: Of the client.
        client_instance_id: Assigned by the broker.
        terminating: True if it is the client's last push.
        data: The metrics as OpenTelemetry's MetricsData, decompressed.
    """

    client_id: str | None
    client_instance_id: UUID
    terminating: bool
    data: bytes


class Instance:
    """One client.

    Attributes:
        subscription_id: Of its current subscription.
        metrics: Prefixes of the wanted metrics.
        interval_ms: Milliseconds from push to push.
    """

    def __init__(self, instance_id: UUID, metrics: list[str], interval_ms: int, seen: int) -> None:
        text = f"{sorted(metrics)}{interval_ms}{instance_id}".encode()
        self.subscription_id = zlib.crc32(text) - 2**31
        self.metrics = metrics
        self.interval_ms = interval_ms
        self.seen = seen  # the version of the subscriptions that it was made from
        self.terminating = False
        self.asks_again = False  # its last push was refused because of its subscription
        self.asked_at = self.pushed_at = _NEVER


class TelemetryInstances:
    """All clients of a cluster.

    Args:
        configs: Holds the subscriptions.
        clock: The cluster's.
        new_uuid: Returns an unused id.

    Attributes:
        pushes: All accepted pushes.
    """

    def __init__(self, configs: ConfigStore, clock: Clock, new_uuid: Callable[[], UUID]) -> None:
        self._configs = configs
        self._clock = clock
        self._new_uuid = new_uuid
        self._instances: dict[UUID, Instance] = {}
        self._version = 0
        self._subscriptions: list[Mapping[str, str]] = []
        self.pushes: list[PushedMetrics] = []

    def new_id(self) -> UUID:
        """Return the id of a new client."""
        return self._new_uuid()

    def ask(self, instance_id: UUID, client: ClientIdentity) -> Instance:
        """A client asks for its subscription.

        Raises:
            ThrottlingQuotaExceededError: It asks too early.
        """
        instance, now = self._instance(instance_id, client), self._clock.now_ms()
        early = now - max(instance.asked_at, instance.pushed_at) < instance.interval_ms
        if early and not instance.asks_again:
            raise ThrottlingQuotaExceededError(
                "Request from the client arrived before the next push interval time"
            )
        if not early:
            instance.asked_at = now
        instance.asks_again = False
        return instance

    def check_push(
        self,
        instance_id: UUID,
        client: ClientIdentity,
        subscription_id: int,
        codec: int,
        size: int,
        most: int,
        *,
        terminating: bool,
    ) -> None:
        """Check a push, which is then counted.

        Args:
            size: Bytes of the metrics, compressed.
            most: Maximum bytes.

        Raises:
            BrokerResponseError: The broker refuses it.
        """
        instance, now = self._instance(instance_id, client), self._clock.now_ms()
        if instance.terminating and not terminating:
            raise InvalidRequestError(
                "Client should not send any more metrics after the terminating push"
            )
        early = now - instance.pushed_at < instance.interval_ms
        may = instance.asked_at > instance.pushed_at or not early
        if may:
            instance.pushed_at = now
        elif not terminating:
            raise ThrottlingQuotaExceededError(
                "Request from the client arrived before the next push interval time"
            )
        if subscription_id != instance.subscription_id:
            instance.asks_again = True
            raise UnknownSubscriptionIdError(f"Unknown client subscription id: {subscription_id}")
        if codec not in (Compression.NONE, *ACCEPTED_CODECS):
            instance.asks_again = True
            raise UnsupportedCompressionTypeError(f"Unknown compression type: {codec}")
        if size > most:
            raise TelemetryTooLargeError(f"Telemetry request from client exceeds {most} bytes")
        instance.terminating = terminating

    def _instance(self, instance_id: UUID, client: ClientIdentity) -> Instance:
        """The client, with its current subscription; a changed one makes it a new client."""
        subscriptions = [
            self._configs.of(ConfigResource.CLIENT_METRICS, name)
            for name in self._configs.names(ConfigResource.CLIENT_METRICS)
        ]
        if subscriptions != self._subscriptions:
            self._subscriptions = [dict(each) for each in subscriptions]
            self._version += 1
        known = self._instances.get(instance_id)
        if known is not None and known.seen == self._version:
            return known
        identity = {**client, "client_instance_id": _java_id(instance_id)}
        matching = [each for each in subscriptions if _matches(each.get("match", ""), identity)]
        metrics = {name for each in matching for name in listed(each.get("metrics", ""))}
        # The default bounds the intervals of subscriptions, as in Kafka.
        intervals = [int(each.get("interval.ms", DEFAULT_INTERVAL_MS)) for each in matching]
        interval = min([DEFAULT_INTERVAL_MS, *intervals])
        wanted = [EVERYTHING] if EVERYTHING in metrics else sorted(metrics)
        made = self._instances[instance_id] = Instance(instance_id, wanted, interval, self._version)
        if known is not None:
            made.terminating = known.terminating
        return made


def _matches(patterns: str, client: ClientIdentity) -> bool:
    for pattern in listed(patterns):
        name, _, expression = pattern.partition("=")
        if not re.fullmatch(expression.strip(), client.get(name.strip(), "")):
            return False
    return True


def _java_id(instance_id: UUID) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(instance_id.bytes).rstrip(b"=").decode()
