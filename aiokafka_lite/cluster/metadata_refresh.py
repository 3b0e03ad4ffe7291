"""When to ask for metadata again, and for what: the arithmetic of the refresh, without a clock.

The time to the next refresh is::

    max(0 if one is needed else time to expiry, time to the end of the backoff)

A refresh asks either for everything tracked or, when only a few topics are new or unsettled, for
those alone, so that one new topic among ten thousand costs one topic.

Refreshes are numbered as they leave. An answer satisfies whoever asked before it left; who asks
while one is under way is told its number, and waits for the one after it. That is what makes "at
most one under way, whoever asks" safe: nobody is given an answer older than the question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

from aiokafka_lite._backoff import Backoff


class RefreshSchedule:
    """Decides; `cluster.Cluster` acts.

    Args:
        max_age: Seconds after which good metadata is refreshed without being asked for.
        backoff: The pause after a refresh; grows while they fail or leave topics unsettled.
    """

    def __init__(self, max_age: float, backoff: Backoff) -> None:
        self.number = 0  # of the refresh that left last; 0 before the first
        self.under_way = False
        self._max_age = max_age
        self._backoff = backoff
        self._need_all = True
        self._pending: set[str] = set()  # names to ask for, if not everything is
        self._urgent = False  # a topic is new: it does not wait for the backoff
        self._failed = False  # whether the last refresh did
        self._attempts = 0  # refreshes in a row that failed or left something unsettled
        self._refreshed_all_at = -math.inf
        self._allowed_at = -math.inf  # the end of the backoff
        self._sent: frozenset[str] = frozenset()  # the names the one under way asks for
        self._sent_all = False  # whether these were all that were tracked

    def begin_anew(self) -> None:
        """Nothing is known any more, and nothing is under way; numbers go on counting."""
        self.under_way = False
        self._need_all = True
        self._pending = set()
        self._urgent = False
        self._failed = False
        self._attempts = 0
        self._refreshed_all_at = -math.inf
        self._allowed_at = -math.inf

    def request_all(self) -> int:
        """Everything tracked has to be asked for again.

        Returns:
            The number to wait beyond: an answer with a greater one left after this call.
        """
        self._need_all = True
        return self.number

    def request_new(self, names: Iterable[str]) -> int:
        """These topics are not known yet: they are asked for, unless they are being asked for.

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
        """Whether a refresh was asked for, other than by age."""
        return self._need_all or bool(self._pending)

    def age(self, now: float) -> float:
        """Seconds since everything tracked was learned; infinite before the first time."""
        return now - self._refreshed_all_at

    def time_to_next(self, now: float) -> float:
        """Seconds until the next refresh should leave; infinite while one is under way."""
        if self.under_way:
            return math.inf
        to_expiry = 0.0 if self.needed else max(self._refreshed_all_at + self._max_age - now, 0.0)
        # A new topic is asked for at once, unless nobody answers anyway.
        to_allowed = 0.0 if self._urgent and not self._failed else self._allowed_at - now
        return max(to_expiry, to_allowed)

    def take_names(self, tracked: frozenset[str]) -> frozenset[str] | None:
        """The refresh leaves now: what it asks for.

        The needs noted so far are taken with it; those noted from now on are the next one's.

        Args:
            tracked: All names the client keeps metadata of.

        Returns:
            A few of those names, or None for everything.
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
        """The refresh under way was answered.

        Args:
            unsettled: Tracked topics that the answer told too little of (unknown so far, or
                without a leader): they are asked for again after the backoff.
        """
        if self._sent_all:
            self._refreshed_all_at = now
        self._pending.update(unsettled)
        self._failed = False
        self._attempts = self._attempts + 1 if unsettled else 0
        self._end(now)

    def on_failure(self, now: float) -> None:
        """The refresh under way failed: what it asked for is still needed."""
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
