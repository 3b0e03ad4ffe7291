"""A consumer-protocol member's state and its transitions (KIP-848), and the events that end its
membership at any time: fencing, failure, leaving. Sans-IO; see `machine`."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import IllegalStateError, KafkaError
from aiokafka_lite.group.consumer.heartbeat_errors import explain
from aiokafka_lite.group.consumer.heartbeat_schedule import Pace
from aiokafka_lite.group.consumer.identity import MemberIdentity
from aiokafka_lite.group.consumer.reconciliation import Reconciliation
from aiokafka_lite.group.consumer.requests import HeartbeatRequests, Heartbeats
from aiokafka_lite.group.consumer.states import FOLLOWING, IN_GROUP, LEAVES, MemberState
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.group.membership import (
    CommitIdentity,
    Counters,
    MembershipOptions,
)
from aiokafka_lite.group.session_clocks import PollClock
from aiokafka_lite.structs import TopicPartition

__all__ = ["ConsumerMember"]

logger: Final = logging.getLogger(__name__)


class ConsumerMember:
    """The state of a member of a group of the consumer protocol.

    Args:
        options: Options of the member. The group's configuration replaces `session_timeout` and
            `heartbeat_interval`.
        new_uuid: Makes the member id, which the member keeps for life.
        heartbeats: Makes the requests, given the options and the member id.
    """

    def __init__(
        self,
        options: MembershipOptions,
        new_uuid: Callable[[], UUID] = uuid.uuid4,
        heartbeats: Callable[[MembershipOptions, str], HeartbeatRequests] = Heartbeats,
    ) -> None:
        self.options = options
        self.counters = Counters()
        self._state = MemberState.UNSUBSCRIBED
        self._identity = MemberIdentity(options, new_uuid(), heartbeats)
        self._pace = Pace(options.retry_backoff)
        self._parts = Reconciliation()
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._poll = PollClock(options.max_poll_interval)
        self._failure: KafkaError | None = None  # to return as a `Fail`
        self._last_failure: KafkaError | None = None  # reported, and not retried since
        self._rejoin = False  # from FATAL, or after LEAVING
        self._stale = False  # leaves because the application does not poll
        self._closing = False
        self._rebalancing_since: float | None = None

    # properties

    @property
    def pending_failure(self) -> KafkaError | None:
        return self._failure

    @property
    def state(self) -> MemberState:
        """The current state; read-only."""
        return self._state

    @property
    def member_id(self) -> str:
        """The member id, once a coordinator has answered; the same through all rejoins."""
        return self._identity.member_id

    @property
    def generation(self) -> int:
        """The member epoch; -1 outside of the group."""
        return self._identity.generation

    @property
    def protocol(self) -> str:
        """Always "": the broker assigns."""
        return ""

    @property
    def broker_assigns(self) -> bool:
        """Always True."""
        return True

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the application holds; revoked or lost ones stay until their listener
        has completed."""
        return self._parts.held

    @property
    def rejoin_needed(self) -> bool:
        """True if a join, reconciliation or acknowledgement is needed or in progress."""
        return self._state not in (MemberState.STABLE, MemberState.UNSUBSCRIBED)

    @property
    def closed(self) -> bool:
        """True once `close` has completed."""
        return self._closing and self._state is MemberState.UNSUBSCRIBED

    @property
    def leaving(self) -> bool:
        """True while `leave` or `close` is in progress."""
        return self._state in LEAVES and not self._stale

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics that `on_metadata` must report."""
        return self._topics | self._parts.topics

    @property
    def unresolved_topic_ids(self) -> frozenset[UUID]:
        """Assigned topics (such as matches of a pattern) whose names are not known yet."""
        return self._parts.unresolved

    def commit_identity(self) -> CommitIdentity | None:
        """The identity to commit with now; None outside of the group."""
        return self._identity.identity

    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for transactions; its generation is the member epoch."""
        return self._identity.metadata

    # transitions

    def _to(self, state: MemberState) -> None:
        if state not in FOLLOWING[self._state]:
            raise IllegalStateError(f"invalid transition from {self._state.name} to {state.name}")
        logger.debug("%s: %s -> %s", self, self._state.name, state.name)
        self._state = state

    def _settle(self, now: float) -> None:
        """Make all transitions that need not wait."""
        before = None
        while self._state is not before:
            before = self._state
            empty = self._parts.empty
            if before is MemberState.RECONCILING:
                if self._parts.maybe_begin():
                    self._acknowledge(now)
            elif before is MemberState.LEAVING and not self._identity.known:
                if self._stale or empty:
                    self._end_membership()
                    self._to(MemberState.STALE if self._stale else MemberState.UNSUBSCRIBED)
            elif before is MemberState.PREPARE_LEAVING and empty:
                self._pace.hasten()
                self._to(MemberState.LEAVING)
            elif empty and (
                before is MemberState.FENCED
                or (before in (MemberState.FATAL, MemberState.UNSUBSCRIBED) and self._rejoin)
                or (before is MemberState.STALE and not self._poll.expired(now))
            ):
                self._join()

    def _join(self) -> None:
        self._end_membership()
        self._to(MemberState.JOINING)
        self._identity.begin()
        self._rejoin = False
        self._pace.hasten()

    def _end_membership(self) -> None:
        """End the membership; only the partitions that the application still holds remain."""
        if self._state in IN_GROUP and self._state is not MemberState.STABLE:
            self.counters.failed_rebalances += 1
        self._identity.end()
        self._parts.end()
        self._rebalancing_since = None

    def _acknowledge(self, now: float) -> None:
        self._to(MemberState.ACKNOWLEDGING)
        self._pace.hasten()
        if self._rebalancing_since is not None:
            took = now - self._rebalancing_since
            self._rebalancing_since = None
            self.counters.rebalance_time += took
            self.counters.slowest_rebalance = max(self.counters.slowest_rebalance, took)

    def _hasten(self) -> None:
        if self._identity.inside:
            self._pace.hasten()

    def _on_fenced(self, error: KafkaError) -> None:
        logger.warning("%s: fenced; rejoining: %s", self, error, extra=self.options.log_fields)
        self._identity.known = False
        if self._state in IN_GROUP:
            self._end_membership()
            self._to(MemberState.FENCED)
        else:
            self._identity.end()

    def _on_fatal(self, error: KafkaError) -> None:
        explained = self._explain(error)
        logger.error("%s: %s", self, explained, extra=self.options.log_fields)
        if self._state not in IN_GROUP:
            self._identity.known = False  # it leaves anyway, without a heartbeat
            return
        self._end_membership()
        self._to(MemberState.FATAL)
        self._failure = self._last_failure = explained

    def _explain(self, error: KafkaError) -> KafkaError:
        """The error for the application, with advice on how to fix it."""
        return explain(error, self.options, self._pattern)

    def _on_poll_expired(self) -> None:
        logger.warning(
            "%s: leaving the group until the next poll: max_poll_interval_ms=%.0f exceeded",
            self,
            self.options.max_poll_interval * 1000,
            extra=self.options.log_fields,
        )
        self._parts.abandon()
        self._stale = True
        self._identity.plan_farewell(None)
        self._pace.hasten()
        self._to(MemberState.LEAVING)

    def _begin_leaving(self, reason: str, now: float, stay: bool | None) -> None:
        if self._state is MemberState.UNSUBSCRIBED:
            return
        self._stale = False
        self._identity.plan_farewell(stay)
        if self._state not in LEAVES:
            client_id, group_id = self.options.client_id, self.options.group_id
            text = "%s: leaving group %s as member %s: %s"
            logger.info(text, client_id, group_id, self.member_id, reason)
            self._parts.abandon()
            self._to(MemberState.PREPARE_LEAVING)
        self._settle(now)

    def __str__(self) -> str:
        return f"{self.options.client_id}: {self._identity}, {self._state.value}"
