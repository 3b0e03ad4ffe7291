"""Interceptors around `append`: they see each record before it is serialized, and its outcome.

A producer without interceptors does not know this module's `append` at all.
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
    """A chain, in the order given; what one raises is logged and stops neither record nor chain.

    Args:
        chain: The application's.
        append: What takes the record in the end.
    """

    def __init__(
        self, chain: Sequence[ProducerInterceptor], append: Callable[..., Ack | Blocked]
    ) -> None:
        self._chain = tuple(chain)
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
        """What the accumulator's `append` does, with what the chain made of the record."""
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        for interceptor in self._chain:
            try:
                changed = interceptor.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send() should return a ProducerRecord, not {changed!r}")
                record = changed
            except Exception:
                log.exception("on_send() of %r failed; the record is sent unchanged", interceptor)
        try:
            result = self._append(*record)
        except BaseException as error:
            self.tell(None, error)
            raise
        if isinstance(result, Ack):
            self.follow(result)
        return result

    def follow(self, ack: Ack) -> None:
        """Tell the chain what becomes of a record that is in its batch now."""
        ack.add_done_callback(self._on_done)

    def tell(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Tell the chain what became of a record."""
        for interceptor in self._chain:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                log.exception("on_acknowledgement() of %r failed", interceptor)

    def close(self) -> None:
        """The producer is closed."""
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                log.exception("close() of %r failed", interceptor)


class _OnDone:
    """What `Interceptors.follow` adds to an ack."""

    looks_on = True
    """Nobody waits for the record by it: the log reports a lost record all the same."""

    def __init__(self, interceptors: Interceptors) -> None:
        self._interceptors = interceptors

    def __call__(self, ack: Ack) -> None:
        if ack.cancelled():
            return  # the application stopped waiting; nothing is known of the record
        error = ack.exception()
        self._interceptors.tell(ack.result() if error is None else None, error)
