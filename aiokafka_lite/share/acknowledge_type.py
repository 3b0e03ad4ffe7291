"""The ways to decide about an acquired record."""

from enum import IntEnum

__all__ = ["AcknowledgeType"]


class AcknowledgeType(IntEnum):
    """How to acknowledge a record; names and values are Kafka's (KIP-932, KIP-1222).

    ACCEPT, RELEASE and REJECT are terminal: they end this consumer's lock on the record.
    """

    ACCEPT = 1
    """The record was processed."""
    RELEASE = 2
    """The record becomes available for another delivery, unless it reached the group's
    `share.delivery.count.limit`."""
    REJECT = 3
    """The record cannot be processed: it is never delivered again (and goes to the group's
    dead-letter topic, if there is one)."""
    RENEW = 4
    """Keep the record, and restart its lock's time."""
