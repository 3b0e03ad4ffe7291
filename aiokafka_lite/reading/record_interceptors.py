"""The application's interceptors: they see records before delivery, and commits.

A consumer without interceptors never calls this module. If an interceptor raises, the records and
the other interceptors are not affected. The first exception of its kind is logged, then a count
once a minute.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Final

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.abc import ConsumerInterceptor
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.outage import RepeatedFailures
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Interceptors", "checked"]

log: Final = logging.getLogger(__name__)

Record = ConsumerRecord[Any, Any]


class Interceptors:
    """A chain of interceptors, called in the given order.

    Attributes:
        at_delivery: True if one of them must not see records ahead of their delivery.

    Args:
        chain: The application's interceptors.
        log_name: Names the consumer in the log.
    """

    def __init__(self, chain: Sequence[ConsumerInterceptor], log_name: str = "consumer") -> None:
        self._chain = tuple(chain)
        self.at_delivery = any(each.at_delivery for each in chain)
        self._log_name = log_name
        self._closed = False
        self._failures = RepeatedFailures()

    def on_consume(self, records: list[Record]) -> list[Record]:
        """Pass records of one partition through the chain before they are delivered."""
        for interceptor in self._chain:
            try:
                changed = interceptor.on_consume(records)
                if not _are_records(changed):
                    raise TypeError(f"on_consume() should return a list of records, not {changed}")
                records = changed
            except (Exception, CancelledError) as error:
                # A cancellation would end the task of the fetches unnoticed.
                times = self._failures.on_failure(interceptor, "on_consume", error, monotonic())
                if times is not None:
                    log.exception(
                        "%s: on_consume() of %r failed; the records are delivered unchanged%s",
                        self._log_name,
                        interceptor,
                        times,
                        extra=log_extra(self._log_name),
                    )
        return list(records)  # an interceptor may keep its list and change it later

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Pass committed offsets to each interceptor."""
        for interceptor in self._chain:
            try:
                interceptor.on_commit(dict(offsets))
            except (Exception, CancelledError):
                # A cancellation would interrupt a revocation, which commits first.
                log.exception(
                    "%s: on_commit() of %r failed",
                    self._log_name,
                    interceptor,
                    extra=log_extra(self._log_name),
                )

    def close(self) -> None:
        """Close each interceptor. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for interceptor in self._chain:
            try:
                interceptor.close()
            except (Exception, CancelledError):
                log.exception(
                    "%s: close() of %r failed",
                    self._log_name,
                    interceptor,
                    extra=log_extra(self._log_name),
                )


def _are_records(changed: object) -> bool:
    return isinstance(changed, list) and all(isinstance(each, ConsumerRecord) for each in changed)


def checked(interceptors: object, log_name: str = "consumer") -> Interceptors | None:
    """Check the argument `interceptors`; None if it is empty.

    Args:
        interceptors: The argument.
        log_name: Names the consumer in the log.

    Raises:
        TypeError: It is not a list or tuple of `ConsumerInterceptor` objects.
    """
    if not isinstance(interceptors, list | tuple):
        raise TypeError(f"`interceptors` should be a list or tuple, not {interceptors!r}")
    for each in interceptors:
        if not isinstance(each, ConsumerInterceptor):
            raise TypeError(f"`interceptors` should be ConsumerInterceptor objects, not {each!r}")
    return Interceptors(interceptors, log_name) if interceptors else None
