"""Makes `cluster.retry.call` retry errors, or not, in deviation from Kafka's table of errors.

Java's admin client decides for each request which errors are worth a retry.
"""

from __future__ import annotations

from typing import Never

from aiokafka_lite.errors import KafkaError

__all__ = ["FinalError", "raise_to_retry"]


class _AgainError(KafkaError):
    """An error that a call retries, although it is not retriable in Kafka's table."""

    retriable = True


class FinalError(KafkaError):
    """An error that a call does not retry, although it is retriable in Kafka's table.

    Args:
        error: The error.
    """

    def __init__(self, error: KafkaError) -> None:
        super().__init__(*error.args)
        self.error = error


def raise_to_retry(error: KafkaError, *, again: bool) -> Never:
    """Raise an error so that `cluster.retry.call` retries it, or does not."""
    if error.retriable == again:
        raise error
    raise (_AgainError(*error.args) if again else FinalError(error)) from error
