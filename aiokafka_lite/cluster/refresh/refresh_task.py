"""The task that keeps the metadata up to date.

A refresh asks the least loaded known broker, then the others one by one until one answers. If no
known broker answers, it uses the bootstrap addresses again (KIP-899, KIP-1102).

The decisions are in sans-IO modules without a clock: `metadata_merge` (what a response means),
`tracked_topics` (what to request), `refresh_schedule` (when), `recovery` (when to bootstrap again).

Non-obvious:
- One task refreshes, so at most one refresh is in progress. `request_all` and `request_new` only
  record a need and wake the task; a need recorded during a refresh belongs to the next one.
- If a broker does not answer a metadata request within `PATIENCE`, long before the request times
  out, the refresh tries the next one. A stopped broker must not hide the failover that it caused.
  If all brokers are slow, for example under load, they get more time; otherwise no refresh would
  ever succeed.
- A response from a known broker with another cluster id is rejected, because another cluster now
  uses that address. From a bootstrap address it is accepted, and replaces all data of the old
  cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.broker import Broker
from aiokafka_lite.cluster.brokers import Brokers
from aiokafka_lite.cluster.large_metadata import MetadataAnswer, read_on
from aiokafka_lite.cluster.metadata import NO_CONTROLLER, Metadata
from aiokafka_lite.cluster.metadata_merge import Merging
from aiokafka_lite.cluster.outage import Outage, reason
from aiokafka_lite.cluster.refresh.metadata_waits import MetadataWaits
from aiokafka_lite.cluster.refresh.recovery import Recovery
from aiokafka_lite.cluster.refresh.refresh_schedule import RefreshSchedule
from aiokafka_lite.cluster.refresh.tracked_topics import TrackedTopics
from aiokafka_lite.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    RebootstrapRequiredError,
    for_code,
)
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.dial import canonical_addresses
from aiokafka_lite.net.handshake import OtherBrokerError
from aiokafka_lite.protocol.messages.metadata import MetadataResponse

log = logging.getLogger(__name__)

PATIENCE: Final = 5.0
"""Minimum number of seconds that one broker has to answer a metadata request, including the time to
connect, before the next broker is tried. Slow brokers get more."""

_LONGEST_SLEEP: Final = 3600.0  # seconds: event loops do not accept unbounded timers


Ask: TypeAlias = Callable[[Broker, frozenset[str] | None], Awaitable[tuple[MetadataAnswer, int]]]
"""Requests the metadata of these topics (None: of all) from a broker. Returns the response, and the
version of Metadata to interpret it by."""


class RefreshTask:
    """Refreshes the metadata of one cluster.

    Args:
        brokers: The brokers to ask.
        topics: The topics to request.
        waits: Woken at the end of each refresh.
        recovery: Decides when to bootstrap again.
        options: Options of every connection.
        ask: Requests metadata from a broker.
        current: Returns the current metadata.
        on_refreshed: Called with the result of a refresh, to adopt it.
        on_rebootstrap: Called with the current metadata without its brokers, to adopt it.
        name: The client's name, for log lines.
        max_age: Metadata is refreshed at least this often, in seconds.
        backoff: The pause between refreshes.
    """

    def __init__(
        self,
        brokers: Brokers,
        topics: TrackedTopics,
        waits: MetadataWaits,
        recovery: Recovery,
        options: ConnectionOptions,
        *,
        ask: Ask,
        current: Callable[[], Metadata],
        on_refreshed: Callable[[Metadata], None],
        on_rebootstrap: Callable[[Metadata], None],
        name: str,
        max_age: float,
        backoff: Backoff,
    ) -> None:
        self.schedule = RefreshSchedule(max_age, backoff)
        self._brokers = brokers
        self._topics = topics
        self._waits = waits
        self._recovery = recovery
        self._canonical_bootstrap = options.canonical_bootstrap
        self._connect_timeout = options.connect_timeout
        self._request_timeout = options.request_timeout
        self._patience = 0.0  # the seconds that the brokers need, if more than PATIENCE
        self._ask = ask
        self._current = current
        self._on_refreshed = on_refreshed
        self._on_rebootstrap = on_rebootstrap
        self._name = name
        self._log_fields: dict[str, object] = {"kafka_client_id": name}
        self._outage = Outage("no broker answers", "a broker answers")
        self._closed = False
        self._wake = asyncio.Event()  # set: the task checks the schedule again

    def request_all(self) -> int:
        """Request a full refresh; see `RefreshSchedule.request_all`."""
        self._wake.set()
        return self.schedule.request_all()

    def request_new(self, names: Iterable[str]) -> int:
        """Request topics that are not known yet; see `RefreshSchedule.request_new`."""
        self._wake.set()
        return self.schedule.request_new(names)

    def close(self) -> None:
        """End the task. Idempotent."""
        self._closed = True
        self._wake.set()

    async def run(self, *, log_first: bool) -> None:
        """Refresh whenever the schedule is due, until `close`.

        Args:
            log_first: Log an outage before the first metadata, too: no caller raises it.
        """
        loop = asyncio.get_running_loop()
        while not self._closed:
            pause = self.schedule.time_to_next(loop.time())
            if pause <= 0:
                await self._refresh(log_first=log_first)
                continue
            self._wake.clear()
            try:
                async with asyncio.timeout(min(pause, _LONGEST_SLEEP)):
                    await self._wake.wait()
            except TimeoutError:
                pass  # the pause is over

    def on_refused(self, broker: Broker, error: KafkaError) -> None:
        """An attempt to connect failed; the broker may have responded that it is another one."""
        if broker.node_id >= 0 and self._recovery.is_required(error):
            self.rebootstrap(str(error))

    def rebootstrap(self, why: str) -> None:
        """Close every connection and drop the brokers; the next metadata comes from the bootstrap
        addresses, whose names are resolved again."""
        metadata = self._current()
        if not metadata.brokers or self._closed:
            return  # it already does
        log.warning(
            "%s: bootstrapping again from %s: %s",
            self._name,
            self._brokers,
            why,
            extra=self._log_fields,
        )
        self._recovery.on_metadata()
        self._brokers.forget_live()
        self._on_rebootstrap(metadata._replace(brokers={}, controller_id=NO_CONTROLLER))
        self.request_all()

    async def _refresh(self, *, log_first: bool) -> None:
        """One refresh: try one broker after another until one answers."""
        asked = self.schedule.take_names(self._topics.names)
        if asked is None and not self._topics.all:
            asked = self._topics.names
        errors: dict[Broker, KafkaError] = {}
        patience = max(PATIENCE, self._patience)
        any_silent = False
        if self._canonical_bootstrap and not self._current().brokers:
            timeout = self._connect_timeout
            self._brokers.use_seeds(await canonical_addresses(self._brokers.addresses, timeout))
        while not self._closed:
            now = asyncio.get_running_loop().time()
            self._recovery.on_attempt(now)
            waited = self._recovery.overdue(now)
            if waited is not None:
                self.rebootstrap(f"no broker has returned metadata for {waited:.0f} s")
            broker = self._brokers.next_to_ask(errors)
            if broker is None:
                break
            try:
                # Before the first metadata there may be no other broker to try.
                others = self._brokers.next_to_ask((*errors, broker)) is not None
                limit = patience if self._current().version or others else None
                async with asyncio.timeout(limit):
                    response, api_version = await self._ask(broker, asked)
                merging = Merging(
                    self._current(), api_version=api_version, asked=asked, keep=self._topics.wants
                )
                took = asyncio.get_running_loop().time() - now
                self._patience = min(2 * took, self._request_timeout)
                await read_on(response, merging)
                self._on_answer(broker, response, merging, asked)
                return
            except KafkaError as error:
                errors[broker] = error
                self.on_refused(broker, error)
            except TimeoutError:
                any_silent = True
                errors[broker] = KafkaTimeoutError(f"no answer within {patience:.3g} s")
            except Exception as error:  # an invalid response, or a bug
                log.exception(
                    "%s: cannot decode the metadata from %s",
                    self._name,
                    broker,
                    extra=self._log_fields,
                )
                errors[broker] = NoBrokersAvailable(repr(error))
        if self._closed:
            return
        if any_silent:
            self._patience = min(2 * patience, self._request_timeout)
        now = asyncio.get_running_loop().time()
        self.schedule.on_failure(now)
        reasons = "; ".join(f"{broker}: {reason(error)}" for broker, error in errors.items())
        if self._current().version or log_first:
            line = self._outage.on_failure(now, reasons)
            if line is not None:
                log.warning("%s: %s", self._name, line, extra=self._log_fields)
        self._waits.record(_failure(errors, reasons))
        self._waits.wake()

    def _on_answer(
        self,
        broker: Broker,
        response: MetadataResponse,
        merging: Merging,
        asked: frozenset[str] | None,
    ) -> None:
        if self._closed:
            return
        if response.error_code:  # Metadata v13: REBOOTSTRAP_REQUIRED (KIP-1102), and so on
            # A RebootstrapRequiredError is not final: the next broker may return metadata.
            kind = for_code(response.error_code)
            text = f"{broker} refused the metadata request"
            if kind is RebootstrapRequiredError and self._recovery.enabled:
                raise OtherBrokerError(f"{text}: {kind.message}")
            raise kind(text)
        current = self._current()
        expected = current.cluster_id
        if broker.node_id >= 0 and expected and response.cluster_id not in (None, expected):
            broker.disconnect()
            raise KafkaConnectionError(
                f"{broker} belongs to cluster {response.cluster_id}, not {expected}"
            )
        now = asyncio.get_running_loop().time()
        newer = merging.finish(response, version=self.schedule.number, current=current)
        self._topics.on_answer(now)
        unsettled = {
            name
            for name in (self._topics.names if asked is None else asked)
            if name in self._topics and (name not in newer.topics or not newer.topics[name].settled)
        }
        self.schedule.on_answer(now, unsettled)
        self._recovery.on_metadata()
        line = self._outage.on_success(now)
        if line is not None:  # at the level of the outage, so that a log shows both or neither
            log.warning("%s: %s", self._name, line, extra=self._log_fields)
        self._waits.record(None)
        self._on_refreshed(newer)
        self._brokers.leave_seeds()
        self._waits.wake()


def _failure(errors: dict[Broker, KafkaError], reasons: str) -> KafkaError:
    """One error for a refresh that no broker answered; `reasons` has the reason of each."""
    kinds = {type(error) for error in errors.values()}
    if len(kinds) == 1 and not (kind := kinds.pop()).retriable:
        return kind(reasons)
    return KafkaConnectionError(f"no broker answers: {reasons}")
