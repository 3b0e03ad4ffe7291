"""Applies responses and failures to the acknowledgements of one leader link: results, moved
partitions, refused requests, lost connections."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping
from typing import Final
from uuid import UUID

from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    KafkaError,
    NotLeaderForPartitionError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    UnknownError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.share.leaders.link_owner import LinkOptions, LinkOwner
from aiokafka_lite.share.leaders.link_pace import Pace
from aiokafka_lite.share.pending_acknowledgements import Part, PendingAcknowledgements
from aiokafka_lite.share.share_session import PartitionId, ShareSession
from aiokafka_lite.structs import TopicPartition

__all__ = ["LinkResults", "Parts"]

log: Final = logging.getLogger(__name__)

DEFAULT_LOCK: Final = 30.0
LONGEST_LOCK: Final = 86_400.0

_MOVED: Final = (
    NotLeaderForPartitionError,
    FencedLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    InconsistentTopicIdError,
)
_SESSION_GONE: Final = (
    ShareSessionNotFoundError,
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
)

Parts = dict[PartitionId, Part]
"""The acknowledgements in one request."""


class LinkResults:
    """Applies results to the session, the pending acknowledgements and the pace of one link.

    Args:
        node_id: The leader.
        session: The link's.
        pending: The link's.
        pace: The link's.
        owner: The consumer.
        options: The consumer's.
        time: Returns the loop time.

    Attributes:
        lock: Seconds for which the broker locks records, as it last reported.
    """

    def __init__(
        self,
        node_id: int,
        session: ShareSession,
        pending: PendingAcknowledgements,
        pace: Pace,
        owner: LinkOwner,
        options: LinkOptions,
        time: Callable[[], float],
    ) -> None:
        self._node_id = node_id
        self._session = session
        self._pending = pending
        self._pace = pace
        self._owner = owner
        self._options = options
        self._time = time
        self._names: dict[PartitionId, TopicPartition] = {}
        self.lock = DEFAULT_LOCK

    # names

    def set_names(
        self, names: Mapping[PartitionId, TopicPartition], keep: Container[PartitionId]
    ) -> None:
        """Store the names of partitions, and drop all others except those of `keep`."""
        self._names = {key: tp for key, tp in self._names.items() if key in keep} | dict(names)

    def name_of(self, key: PartitionId) -> TopicPartition | None:
        """The name of a partition of this link."""
        return self._names.get(key)

    def topics(self) -> dict[UUID, str]:
        """The names of the topics by id."""
        return {key.topic_id: tp.topic for key, tp in self._names.items()}

    def _name(self, key: PartitionId) -> str:
        tp = self._names.get(key)
        return f"{key.topic_id}-{key.partition}" if tp is None else f"{tp.topic}-{tp.partition}"

    def _error(self, code: int, message: str | None, key: PartitionId) -> KafkaError:
        text = f": {message}" if message else ""
        return for_code(code)(f"{self._name(key)}{text}")

    # of partitions

    def on_result(self, key: PartitionId, part: Part, code: int, message: str | None) -> None:
        """The result of the terminal acknowledgements of a partition."""
        count = len(part)
        if code == 0:
            self._pending.on_acknowledged(part)
            self._owner.on_acknowledged(count, failed=False)
            return
        error = self._error(code, message, key)
        if isinstance(error, _MOVED):
            self._pending.on_failed(part, error)
            self._owner.on_acknowledged(count, failed=True)
            self._on_moved(key, error)
        elif error.retriable and not isinstance(error, InvalidRecordStateError):
            self._pending.put_back(key, part)
            self._pace.pause(self._time())
        else:
            self._pending.on_rejected(key, part, error)
            self._owner.on_acknowledged(count, failed=True)
        if self._pending.waiting:
            self._pace.send_now(self._time())

    def on_renewal_result(
        self, key: PartitionId, part: Part, code: int, message: str | None, sent_at: float
    ) -> None:
        """The result of the renewals of a partition; `sent_at` is the loop time of the request."""
        if code == 0:
            self._pending.on_renewed(part, sent_at + self.lock, self._time() + self.lock)
            return
        error = self._error(code, message, key)
        if isinstance(error, _MOVED):
            self._pending.on_renewal_failed(part, error, gone=True)
            self._on_moved(key, error)
        elif error.retriable:
            self._pending.put_renewals_back(key, part)
            self._pace.pause(self._time())
        else:
            self._pending.on_renewal_rejected(key, part, error)
        if self._pending.waiting:
            self._pace.send_now(self._time())

    def on_omitted(self, parts: Parts, *, renews: bool = False) -> None:
        """The response lacks the results of some partitions: their locks count as lost."""
        for key, part in parts.items():
            error = self._error(
                InvalidRecordStateError.errno, "the broker's response omits the partition", key
            )
            if renews:
                self._pending.on_renewal_failed(part, error, gone=True)
            else:
                self._pending.on_failed(part, error)
            self._owner.on_acknowledged(len(part), failed=True)

    def on_partition_error(self, key: PartitionId, code: int, message: str | None) -> None:
        """A partition cannot be fetched."""
        error = self._error(code, message, key)
        if isinstance(error, _MOVED):
            self._on_moved(key, error)
        elif error.retriable:
            log.debug("%s: %s", self._options.log_name, error)
            if error.invalid_metadata:
                self._owner.on_stale_metadata()
        elif isinstance(error, UnknownError):
            self._warn(error)
        elif key in self._session.wanted:
            self._owner.on_failure(error)

    def _on_moved(self, key: PartitionId, error: KafkaError) -> None:
        """The leader no longer leads a partition; the new one does not have its locks."""
        lost = InvalidRecordStateError(
            f"{self._name(key)}: its leader changed, which ended the locks of its records; the "
            "group delivers them again"
        )
        lost.__cause__ = error
        count = self._pending.lose(lost, key)
        if count:
            self._owner.on_lost(self._names.get(key), count, "the leader changed")
        self._owner.on_stale_metadata()

    # of requests

    def on_refused(
        self, code: int, message: str | None, parts: Parts, *, renews: bool = False
    ) -> None:
        """The broker refused the whole request, and applied no part of it."""
        error = for_code(code)(message or f"broker {self._node_id} refused a request")
        now = self._time()
        self._session.reset()
        if isinstance(error, _SESSION_GONE) or error.retriable:
            log.debug("%s: broker %d: %r", self._options.log_name, self._node_id, error)
            for key, part in parts.items():
                if renews:
                    self._pending.put_renewals_back(key, part)
                else:
                    self._pending.put_back(key, part)
            self._pace.on_session_gone(now, wait=isinstance(error, ShareSessionLimitReachedError))
            self._pace.due = now
            return
        self.fail(parts, error, renews=renews)
        self._pace.pause(now)
        if isinstance(error, UnknownError):
            self._warn(error)
        else:
            self._owner.on_failure(error)

    def _warn(self, error: UnknownError) -> None:
        """Log a failure inside the broker, after which a fetch is repeated, as Java does."""
        log.warning(
            "%s: broker %d failed to process a request, which is repeated: %s",
            self._options.log_name,
            self._node_id,
            error,
            extra=log_extra(self._options.log_name, broker=self._node_id),
        )

    def on_unanswered(self, parts: Parts, error: KafkaError, *, renews: bool = False) -> None:
        """A request got no response; the broker may have applied it."""
        self._session.reset()
        self.fail(parts, error, renews=renews)
        if isinstance(error, UnsupportedVersionError) or not error.retriable:
            self._owner.on_failure(error)
        else:
            log.debug("%s: broker %d: %r", self._options.log_name, self._node_id, error)
            self._owner.on_stale_metadata()
        self._pace.pause(self._time())

    def fail(self, parts: Parts, error: KafkaError, *, renews: bool) -> None:
        """The acknowledgements in a request failed for good."""
        for part in parts.values():
            if renews:
                self._pending.on_renewal_failed(part, error, gone=True)
            else:
                self._pending.on_failed(part, error)
                self._owner.on_acknowledged(len(part), failed=True)

    def on_lock_timeout(self, milliseconds: int) -> None:
        """The broker reported how long it locks records."""
        if 0 < milliseconds <= 1000 * LONGEST_LOCK:
            self.lock = milliseconds / 1000
            self._owner.on_lock_timeout(self.lock)
