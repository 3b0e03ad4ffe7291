"""Calls the interceptors with each record before it is serialized, and with its outcome.

A producer without interceptors never calls this module's `append`.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.producer.batching.accumulator import Ack, Blocked
from aiokafka_lite.structs import ProducerRecord, RecordMetadata

__all__ = ["Interceptors"]

log: Final = logging.getLogger(__name__)


class Interceptors:
    """A chain of interceptors; an exception in one is logged and stops neither record nor chain.

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
        self._on_done = _OnDone(self)

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
        for interceptor in self._chain:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send() should return a ProducerRecord, not {changed!r}")
                record = changed
            except Exception:
                log.exception(
                    "%s: on_send() of %r failed; its record to topic %r is sent unchanged",
                    self._name,
                    interceptor,
                    record.topic,
                )
        try:
            result = self._append(*record)
        except BaseException as error:
            self.report(None, error)
            raise
        if isinstance(result, Ack):
            self.follow(result)
        return result

    def follow(self, ack: Ack) -> None:
        """Report the outcome of a batched record to the chain, once it is known."""
        ack.add_done_callback(self._on_done)

    def report(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Report a record's outcome to the chain."""
        for interceptor in self._chain:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                log.exception("%s: on_acknowledgement() of %r failed", self._name, interceptor)

    def close(self) -> None:
        """Close each interceptor; the producer is closed."""
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                log.exception("%s: close() of %r failed", self._name, interceptor)


class _OnDone:
    """The callback that `Interceptors.follow` adds to an ack."""

    looks_on = True
    """It does not count as waiting for the record, so a lost record is still logged."""

    def __init__(self, interceptors: Interceptors) -> None:
        self._interceptors = interceptors

    def __call__(self, ack: Ack) -> None:
        if ack.cancelled():
            return  # the application stopped waiting; the outcome is unknown
        error = ack.exception()
        self._interceptors.report(ack.result() if error is None else None, error)
