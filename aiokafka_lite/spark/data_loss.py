"""Reports of possibly lost records, and other errors of a running query.

Each has the name that Spark's own connector gives to the condition, so that searches and alerts
for it keep working.

Source: kafka-error-conditions.json of Spark's connector, for the conditions' names.
"""

from __future__ import annotations

import logging
from typing import Final

from aiokafka_lite.errors import IllegalStateError

__all__ = ["DataLossError", "SourceStateError", "report_data_loss"]

logger = logging.getLogger(__name__)

_WHY: Final = (
    "Some data may have been lost because they are not available in Kafka any more; either the "
    "data was aged out by Kafka or the topic may have been deleted before all the data in the "
    "topic was processed."
)


class SourceStateError(IllegalStateError):
    """A query cannot continue: its options or its checkpoint do not match Kafka's state.

    Args:
        condition: Spark's name of the condition, with which the message begins.
        what: The partitions and offsets concerned.
    """

    def __init__(self, condition: str, what: str) -> None:
        super().__init__(condition, what)
        self.condition: Final = condition
        self.what: Final = what

    def __str__(self) -> str:
        return f"[{self.condition}] {self.what}"


class DataLossError(SourceStateError):
    """Records that the query should have read are gone, and `failOnDataLoss` is true."""

    def __str__(self) -> str:
        return (
            f"[{self.condition}] {_WHY} If you don't want your query to fail on such cases, set "
            f'the source option "failOnDataLoss" to "false". Reason: {self.what}'
        )


def report_data_loss(fail: bool, condition: str, what: str) -> None:
    """Report that records may have been lost: raise an error, or log a warning.

    Args:
        fail: The option `failOnDataLoss`.
        condition: The part of Spark's name after "KAFKA_DATA_LOSS.", such as
            "START_OFFSET_RESET".
        what: The partitions and offsets concerned.

    Raises:
        DataLossError: `fail` is true; otherwise a warning is logged.
    """
    condition = f"KAFKA_DATA_LOSS.{condition}"
    if fail:
        raise DataLossError(condition, what)
    logger.warning(
        "[%s] %s %s If you want your query to fail on such cases, set the source option "
        '"failOnDataLoss" to "true".',
        condition,
        what,
        _WHY,
    )
