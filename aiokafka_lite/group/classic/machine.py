"""Membership in the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Sans-IO.

It does what Java's AbstractCoordinator and ConsumerCoordinator do, as one machine (`membership`
describes how it is driven). KIP-62 (background heartbeats, max.poll.interval), KIP-345 (static
members), KIP-394 (member id required), KIP-429 (cooperative rebalancing), KIP-559, KIP-568,
KIP-800 and KIP-814.

`states` has the table of its states, `identity` the member's place in the group,
`owned_partitions` what the application holds, `rejoin_triggers` the subscription, and
`rebalance_attempts` the reasons to rejoin.

Non-obvious:
- The membership can be lost (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION) in any active state. The
  generation ends at once, and as soon as no listener runs, a `Lost` takes the application's
  partitions. No JoinGroup is sent before that.
- ILLEGAL_GENERATION keeps the member id, UNKNOWN_MEMBER_ID does not.
- A coordinator that does not answer for a whole session counts as unknown (as in Java): the member
  looks for it and keeps its partitions until a coordinator rejects it. A coordinator restarts every
  session after a failover. If the member dropped its partitions, it would get the same generation
  back, and the coordinator could not distinguish offsets from before and after.
- While a JoinGroup or SyncGroup is in flight, the coordinator keeps the member and would answer a
  heartbeat only after that request. So no heartbeats are sent, and the session does not expire.
- A rejoin that becomes necessary before STABLE waits until STABLE: the application receives every
  assignment.
- A member id that arrives after the application left (during a JoinGroup) is given back with a
  LeaveGroup; otherwise the group would wait for a member that does not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from aiokafka_lite.errors import IllegalStateError, KafkaConfigurationError, KafkaError
from aiokafka_lite.group.classic.requests import HEARTBEAT, JOIN, SYNC
from aiokafka_lite.group.classic.responses import ClassicAnswers, assignor_failed
from aiokafka_lite.group.classic.states import ACTIVE, BEATING, ClassicState
from aiokafka_lite.group.membership import Fail, FindCoordinator, RebalanceProtocol, Step

__all__ = ["ClassicMembership", "ClassicState"]

log = logging.getLogger(__name__)

S = ClassicState


class ClassicMembership(ClassicAnswers):
    """A member of a group of the classic protocol.

    Args:
        options: Options of the member.
        assignors: The supported assignors, the preferred one first.

    Raises:
        KafkaConfigurationError: There are no assignors, two share a name, or they have no rebalance
            protocol in common.
    """

    # --- steps

    def next_step(self, now: float) -> Step | None:
        """The next step, or None for now. Each step is returned once."""
        self._look_at_clocks(now)
        if self._failure is not None:
            error, self._failure = self._failure, None
            return Fail(error)
        return self._coordinator_step(now) or self._listener_step() or self._join_step(now)

    def _coordinator_step(self, now: float) -> Step | None:
        """Coordinator lookup, heartbeat or LeaveGroup, if one is due."""
        if not self._coordinator.known:
            self._identity.forgo_farewells()
            wanted = self._state in ACTIVE and self._coordinator.begin(now)
            return FindCoordinator() if wanted else None
        if (farewell := self._identity.leave(now)) is not None:
            return farewell
        if self._beats and now >= self._session.heartbeat_at:
            self._session.on_sent(now)
            return self._identity.heartbeat(now)
        return None

    def _listener_step(self) -> Step | None:
        """The next step for the application's listener."""
        holdings = self._holdings
        if holdings.busy:
            return None
        if holdings.forfeit:
            self.counters.lost += 1
            return holdings.lose()
        if self._state is S.PREPARING and not self._prepared:
            self._prepared = True
            return self._revoke_before_join()
        if self._state is S.REVOKING:
            return holdings.revoke(holdings.partitions - self._target)
        if self._state is S.ASSIGNING:
            return holdings.assign(self._target)
        if self._state is S.LEAVING and holdings.partitions:
            return holdings.revoke(holdings.partitions)
        return None

    def _revoke_before_join(self) -> Step | None:
        holdings = self._holdings
        if self.rebalance_protocol is RebalanceProtocol.COOPERATIVE:
            gone = frozenset(tp for tp in self.assignment if tp.topic not in self._watch.topics)
            return holdings.revoke(gone) if gone else None
        # As in aiokafka, a new member's listener is called too, with no partitions. After a loss
        # the listener has been called already.
        if self._newcomer or self._identity.taken:
            return holdings.revoke(holdings.partitions)
        return None

    def _join_step(self, now: float) -> Step | None:
        """The step towards the next generation, or out of the group."""
        if self._holdings.busy:
            return None
        if self._state is S.LEAVING:
            return self._leave_step(now)
        if self._state is S.STABLE and self._rebalance.wanted is not None:
            self._state = S.PREPARING
            self._prepared = False
            return self._listener_step() or self._join_step(now)
        if self._state is S.ELECTING and self._electing is None:
            self._electing = self._elect
            return self._elect
        if not self._coordinator.known:
            return None
        if self._may_join and now >= self._rebalance.retry_at:
            return self._join(now)
        if self._state is S.SYNCING and not self._identity.asks(SYNC):
            return self._identity.sync(self._shares, now)
        return None

    def _join(self, now: float) -> Step | None:
        topics, owned, generation = self._watch.topics, self.assignment, self.generation
        rack = self.options.client_rack
        protocols: list[tuple[str, bytes]] = []
        for name, assignor in self._assignors.items():
            try:
                protocols.append((name, assignor.subscription(topics, owned, generation, rack)))
            except Exception as error:  # of an application's assignor
                self._on_join_error(JOIN, assignor_failed(self.options, name, error), now)
                return self.next_step(now)
        self._state = S.JOINING
        self._newcomer = False
        self._watch.on_join()
        return self._identity.join(protocols, self._rebalance.begin(now), now)

    def _leave_step(self, now: float) -> Step | None:
        """The step in LEAVING once all partitions are revoked."""
        if not self._departed:
            self._departed = True
            self._give_up(self._leave_reason, leave=not self._stay)
            if self._identity.departs:
                return self._coordinator_step(now) or self._leave_step(now)
        if self._identity.departs or (self._identity.joins_as_nobody and not self._stay):
            return None  # the response ends it
        if self._closing:
            self._state = S.CLOSED
            return None
        self._watch.joined = None
        self._newcomer = True
        if not self._resubscribed:
            self._watch.forget()
            self._state = S.UNSUBSCRIBED
            return None
        self._rebalance.want("subscribed")
        self._state = S.PREPARING
        return self.next_step(now)

    @property
    def _beats(self) -> bool:
        identity = self._identity
        may = self._state in BEATING and identity.taken and not identity.waits_in_line
        return may and not identity.asks(HEARTBEAT)

    @property
    def _may_join(self) -> bool:
        ready = self._state is S.PREPARING and self._prepared and not self._holdings.busy
        return ready and not self._identity.departs and not self._identity.waits_in_line

    # --- time

    def next_wakeup(self, now: float) -> float | None:
        """Latest loop time to call `next_step` again; None: only after the next input."""
        times: list[float] = []
        if self._session_counts and self._coordinator.known:
            times.append(self._session.expires_at)
        if self._polls_count and self._polls.expires_at is not None:
            times.append(self._polls.expires_at)
        if self._coordinator.known:
            if self._beats:
                times.append(self._session.heartbeat_at)
            if self._may_join:
                times.append(self._rebalance.retry_at)
        elif self._state in ACTIVE and not self._coordinator.searching:
            times.append(self._coordinator.next_at)
        return min(times, default=None)

    @property
    def _session_counts(self) -> bool:
        return self._identity.taken and not self._identity.waits_in_line

    @property
    def _polls_count(self) -> bool:
        return self._state in ACTIVE and not self._identity.waits_in_line

    def _look_at_clocks(self, now: float) -> None:
        silent = self._session_counts and now >= self._session.expires_at
        if silent and self._coordinator.known:
            log.warning(
                "%s: the coordinator of group %s answered no heartbeat for %g s "
                "(session_timeout_ms); looking up the coordinator again. The partitions stay "
                "assigned until a coordinator rejects the member",
                self.options.client_id,
                self.options.group_id,
                self.options.session_timeout,
                extra=self.options.log_fields,
            )
            self._coordinator.on_lost(now)
        if self._polls_count and self._polls.expired(now):
            reason = f"no poll for {self.options.max_poll_interval:g} s (max_poll_interval_ms)"
            log.warning(
                "%s: leaving group %s until the next poll: %s",
                self.options.client_id,
                self.options.group_id,
                reason,
                extra=self.options.log_fields,
            )
            # A static member sends no LeaveGroup: its session times out instead.
            self._give_up(reason, leave=not self._identity.static)
            self._state = S.IDLE

    # --- inputs from the application

    def on_subscription(
        self,
        topics: Collection[str],
        now: float,
        *,
        pattern: str | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        """The application subscribes to topics.

        Raises:
            KafkaConfigurationError: The classic protocol does not support broker-side patterns.
            IllegalStateError: The member is closing or closed.
        """
        if pattern is not None:
            raise KafkaConfigurationError(
                "broker-side patterns require the consumer protocol (KIP-848)"
            )
        if self._closing:
            raise IllegalStateError("the membership is closed or closing")
        self._watch.on_subscription(topics, matches)
        if self._state is S.UNSUBSCRIBED:
            self._rebalance.want("subscribed")
            self._state = S.PREPARING
        elif self._state is S.LEAVING:
            self._resubscribed = True
        self._look_for_changes()

    def on_poll(self, now: float, *, waiting: bool = False) -> None:
        """The application polls for records."""
        self._polls.on_poll(now, waiting=waiting)
        if self._state is S.IDLE:
            self._rebalance.want("the application polls again")
            self._state = S.PREPARING

    def on_revoked(self, now: float) -> None:
        """The listener of a `Revoke` has completed."""
        self._holdings.on_revoked()
        if self._state is S.REVOKING:
            self._state = S.ASSIGNING

    def on_lost(self, now: float) -> None:
        """The listener of a `Lost` has completed."""
        self._holdings.on_lost()

    def on_assigned(self, now: float) -> None:
        """The listener of an `Assign` has completed."""
        self._holdings.on_assigned()
        self._reported = False
        if self._state is S.ASSIGNING:
            self._state = S.STABLE

    def on_elected(
        self, assignments: Mapping[str, bytes], now: float, topics: Collection[str] = ()
    ) -> None:
        """The assignment was computed."""
        if self._take_election():
            self._shares = dict(assignments)
            self._watch.on_elected(topics)
            self._state = S.SYNCING

    def on_election_failed(self, error: KafkaError, now: float) -> None:
        """The assignment could not be computed."""
        if self._take_election():
            self._on_join_error("Election", error, now)

    def _take_election(self) -> bool:
        """True if the result of an `Elect` is still needed."""
        if self._electing is None:
            raise IllegalStateError("no Elect is in progress")
        elected, self._electing = self._electing, None
        return elected is self._elect and self._state is S.ELECTING

    def request_rejoin(self, reason: str, now: float) -> None:
        """Rebalance."""
        if self._state in ACTIVE:
            self._rebalance.want(reason)

    def retry(self, now: float) -> None:
        """Continue after a `Fail`; a fenced member cannot."""
        self._reported = False
        if self._state is S.FAILED:
            self._failure = None
            self._state = S.PREPARING

    def leave(self, reason: str, now: float) -> None:
        """Revoke all partitions and leave; static members leave without a LeaveGroup."""
        if self._state in (S.UNSUBSCRIBED, S.LEAVING, S.FENCED, S.CLOSED):
            self._resubscribed = False
            return
        self._begin_to_leave(reason, stay=self._identity.static)

    def close(self, now: float, stay: bool | None = None) -> None:
        """Revoke all partitions and end."""
        if self._closing:
            return
        self._closing = True
        stay = self._identity.static if stay is None else stay
        if self._state is not S.LEAVING:
            self._begin_to_leave("the consumer is being closed", stay=stay)
        elif not self._departed:
            self._stay = stay

    def _begin_to_leave(self, reason: str, *, stay: bool) -> None:
        self._leave_reason = reason
        self._stay = stay
        self._departed = False
        self._resubscribed = False
        self._rebalance.wanted = None
        self._failure = None
        self._reported = False
        self._state = S.LEAVING
