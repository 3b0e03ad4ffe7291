"""Decides when to refresh metadata and which topics to request. It has no clock.

The time to the next refresh is::

    max(0 if one is needed else time to expiry, time to the end of the backoff)

A refresh requests either all tracked topics or, if only a few topics are new or unsettled, only
those, so that one new topic among ten thousand costs one topic.

Refreshes are numbered as they are sent. A response satisfies the callers that asked before its
request was sent. A caller that asks during a refresh receives its number and waits for the next
one. So at most one refresh is in progress, and no caller receives a response older than its
request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

from aiokafka_lite._backoff import Backoff


class RefreshSchedule:
    """Decides; `refresh_task.RefreshTask` acts.

    Args:
        max_age: Metadata is refreshed at least this often, in seconds.
        backoff: The pause after a refresh; grows while refreshes fail or leave topics unsettled.
    """

    def __init__(self, max_age: float, backoff: Backoff) -> None:
        self.number = 0  # of the last refresh sent; 0 before the first
        self.under_way = False
        self._max_age = max_age
        self._backoff = backoff
        self._need_all = True
        self._pending: set[str] = set()  # names to request, unless everything is requested
        self._urgent = False  # a topic is new: it does not wait for the backoff
        self._failed = False  # True if the last refresh failed
        self._attempts = 0  # refreshes in a row that failed or left something unsettled
        self._refreshed_all_at = -math.inf
        self._allowed_at = -math.inf  # the end of the backoff
        self._sent: frozenset[str] = frozenset()  # the names requested by the refresh in progress
        self._sent_all = False  # True if these were all tracked names

    def begin_anew(self) -> None:
        """Reset to the initial state; numbers keep increasing."""
        self.under_way = False
        self._need_all = True
        self._pending = set()
        self._urgent = False
        self._failed = False
        self._attempts = 0
        self._refreshed_all_at = -math.inf
        self._allowed_at = -math.inf

    def request_all(self) -> int:
        """Request all tracked topics again.

        Returns:
            The number to wait beyond: a refresh with a greater number is sent after this call.
        """
        self._need_all = True
        return self.number

    def request_new(self, names: Iterable[str]) -> int:
        """Request topics that are not known yet, unless the refresh in progress requests them.

        Returns:
            The number to wait beyond.
        """
        names = set(names)
        if self.under_way and names <= self._sent:
            return self.number - 1
        self._pending |= names
        self._urgent = True
        return self.number

    @property
    def needed(self) -> bool:
        """True if a refresh is needed for a reason other than age."""
        return self._need_all or bool(self._pending)

    def age(self, now: float) -> float:
        """Seconds since the last full refresh; infinite before the first."""
        return now - self._refreshed_all_at

    def time_to_next(self, now: float) -> float:
        """Seconds until the next refresh is due; infinite while one is in progress."""
        if self.under_way:
            return math.inf
        to_expiry = 0.0 if self.needed else max(self._refreshed_all_at + self._max_age - now, 0.0)
        # A new topic is requested at once, unless the last refresh failed.
        to_allowed = 0.0 if self._urgent and not self._failed else self._allowed_at - now
        return max(to_expiry, to_allowed)

    def take_names(self, tracked: frozenset[str]) -> frozenset[str] | None:
        """Begin a refresh and return the topics to request.

        It covers all needs recorded so far; later ones belong to the next refresh.

        Args:
            tracked: Names of all topics whose metadata the client keeps.

        Returns:
            Some of those names, or None for all topics.
        """
        self.number += 1
        self.under_way = True
        self._sent_all = self._need_all or not self._pending
        self._sent = tracked if self._sent_all else tracked & self._pending
        self._need_all = False
        self._pending = set()
        self._urgent = False
        return None if self._sent_all else self._sent

    def on_answer(self, now: float, unsettled: Set[str]) -> None:
        """The refresh in progress was answered.

        Args:
            unsettled: Tracked topics that are still unknown or have no leader. They are requested
                again after the backoff.
        """
        if self._sent_all:
            self._refreshed_all_at = now
        self._pending.update(unsettled)
        self._failed = False
        self._attempts = self._attempts + 1 if unsettled else 0
        self._end(now)

    def on_failure(self, now: float) -> None:
        """The refresh in progress failed; its topics are still needed."""
        if self._sent_all:
            self._need_all = True
        else:
            self._pending.update(self._sent)
        self._failed = True
        self._attempts += 1
        self._end(now)

    def _end(self, now: float) -> None:
        self.under_way = False
        self._allowed_at = now + self._backoff.delay(max(self._attempts, 1))
