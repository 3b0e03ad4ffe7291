"""Logs lost locks, and failed acknowledgements that the application does not await."""

from __future__ import annotations

import logging
from typing import Final

from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.share.acknowledgement import Failures
from aiokafka_lite.structs import TopicPartition

__all__ = ["LossLog"]

log: Final = logging.getLogger(__name__)

LOG_EVERY: Final = 10.0
"""Seconds between two lines."""


class LossLog:
    """Writes at most one line every `LOG_EVERY` seconds, and counts the others.

    Args:
        log_name: The consumer's name in the log.
    """

    def __init__(self, log_name: str) -> None:
        self._log_name = log_name
        self._quiet_until = 0.0
        self._unlogged = 0

    def on_unseen_failure(self, tp: TopicPartition, failures: Failures, now: float) -> None:
        """Acknowledgements of a partition failed."""
        first, last, error = failures[0]
        count = sum(each[1] + 1 - each[0] for each in failures)
        self._write(
            now,
            count,
            "acknowledgements failed, first of %s-%d offsets %d to %d: %s",
            *tp,
            first,
            last,
            error,
            tp=tp,
        )

    def on_lost(self, tp: TopicPartition | None, count: int, why: str, now: float) -> None:
        """Locks expired before the application acknowledged the records."""
        where = "" if tp is None else f" of {tp.topic}-{tp.partition}"
        self._write(
            now,
            count,
            "records%s were not acknowledged: %s, and the group delivers them again",
            where,
            why,
            tp=tp,
        )

    def on_buffered_expired(self, count: int, now: float) -> None:
        """Locks expired before a read returned the records."""
        self._write(now, count, "acquired records expired before a read took them")

    def _write(
        self, now: float, count: int, text: str, *args: object, tp: TopicPartition | None = None
    ) -> None:
        if now < self._quiet_until:
            self._unlogged += count
            return
        self._quiet_until = now + LOG_EVERY
        if self._unlogged:
            log.warning(
                "%s: %d more, not logged",
                self._log_name,
                self._unlogged,
                extra=log_extra(self._log_name),
            )
            self._unlogged = 0
        extra = log_extra(self._log_name, tp)
        log.warning("%s: %d " + text, self._log_name, count, *args, extra=extra)
