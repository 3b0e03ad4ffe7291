"""Calls the interceptors with each record before it is serialized, and with its outcome.

A producer without interceptors never calls this module's `append`.
"""

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.outage import RepeatedFailures
from aiokafka_lite.producer.batching.accumulator import Ack, Blocked
from aiokafka_lite.structs import ProducerRecord, RecordMetadata

__all__ = ["Interceptors"]

log: Final = logging.getLogger(__name__)


class Interceptors:
    """A chain of interceptors. An exception in one stops neither the record nor the chain. The
    first of each kind is logged, then a count once a minute.

    Args:
        chain: The application's interceptors, in the order of their calls.
        append: Takes the record at the end of the chain.
        name: The producer's name, for log lines.
    """

    def __init__(
        self,
        chain: Sequence[ProducerInterceptor],
        append: Callable[..., Ack | Blocked],
        name: str,
    ) -> None:
        self._chain = tuple(chain)
        self._name = name
        self._append = append
        self._failures = RepeatedFailures()

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any,
    ) -> Ack | Blocked:
        """Pass the record through the chain, then call the accumulator's `append` with it."""
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        records: list[ProducerRecord] = []  # what each interceptor returned
        for interceptor in self._chain:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send() should return a ProducerRecord, not {changed!r}")
                record = changed
            except Exception as error:
                times = self._failures.on_failure(interceptor, "on_send", error, monotonic())
                if times is not None:
                    log.exception(
                        "%s: on_send() of %r failed; its record to topic %r is sent unchanged%s",
                        self._name,
                        interceptor,
                        record.topic,
                        times,
                        extra={**log_extra(self._name), "kafka_topic": record.topic},
                    )
            records.append(record)
        try:
            result = self._append(*record)
        except BaseException as error:
            self._report(records, None, error)
            raise
        if isinstance(result, Ack):
            result.add_done_callback(_OnDone(self, records))
        else:
            result.intercepted = records
        return result

    def follow(self, blocked: Blocked, ack: Ack) -> None:
        """Report the outcome of a record that was blocked, once it is known."""
        ack.add_done_callback(_OnDone(self, blocked.intercepted))

    def fail(self, blocked: Blocked, error: BaseException) -> None:
        """Report that a blocked record could not be appended."""
        self._report(blocked.intercepted, None, error)

    def _report(
        self,
        records: Sequence[ProducerRecord],
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        """Report a record's outcome to each interceptor, with the record that it returned."""
        for interceptor, record in zip(self._chain, records, strict=True):
            try:
                interceptor.on_completion(record, metadata, error)
            except Exception as failure:
                self._log_failure(interceptor, "on_acknowledgement", failure)

    def _let_go(self, records: Sequence[ProducerRecord]) -> None:
        """Tell each interceptor that the record's outcome will not be reported."""
        for interceptor, record in zip(self._chain, records, strict=True):
            try:
                interceptor._on_cancelled(record)
            except Exception as failure:
                self._log_failure(interceptor, "_on_cancelled", failure)

    def _log_failure(
        self, interceptor: ProducerInterceptor, method: str, failure: Exception
    ) -> None:
        """Log an exception of an interceptor: the first of its kind, then a count once a minute."""
        times = self._failures.on_failure(interceptor, method, failure, monotonic())
        if times is not None:
            log.error(
                "%s: %s() of %r failed%s",
                self._name,
                method,
                interceptor,
                times,
                exc_info=failure,
                extra=log_extra(self._name),
            )

    def close(self) -> None:
        """Close each interceptor; the producer is closed."""
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                log.exception(
                    "%s: close() of %r failed", self._name, interceptor, extra=log_extra(self._name)
                )


class _OnDone:
    """The callback that is added to the ack of a record."""

    looks_on = True
    """It does not count as waiting for the record, so a lost record is still logged."""

    __slots__ = ("_interceptors", "_records")

    def __init__(self, interceptors: Interceptors, records: Sequence[ProducerRecord]) -> None:
        self._interceptors = interceptors
        self._records = records

    def __call__(self, ack: Ack) -> None:
        if ack.cancelled():  # the application stopped waiting; the outcome is unknown
            self._interceptors._let_go(self._records)
            return
        error = ack.exception()
        metadata = ack.result() if error is None else None
        self._interceptors._report(self._records, metadata, error)
