"""Rejects commits of partitions that a rebalance revoked after they were read."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiokafka_lite.consumer.commits.committer import named
from aiokafka_lite.errors import PartitionsRevokedError, RebalanceInProgressError
from aiokafka_lite.structs import TopicPartition


def check_given_up(
    partitions: Iterable[TopicPartition], given_up: Collection[TopicPartition], group_id: str
) -> None:
    """Reject offsets of partitions that a rebalance took since they were read.

    If they were assigned again, the coordinator would accept them with the current group metadata,
    although another member may have read further meanwhile. In Java, a rebalance happens only
    within a poll, so none can complete between a read and its commit.

    The next read by any task ends this check, because a later commit does not show from which read
    its offsets came. Java's client accepts them then, too. Comparing them with the records
    delivered since would not help: a listener may commit partitions that were assigned again before
    they are read, and an application may commit any offset. Offsets in a transaction carry the
    lease of their read instead.

    Args:
        partitions: The partitions whose offsets are to be committed.
        given_up: The partitions revoked since the last read, or not assigned again.
        group_id: The group.

    Raises:
        PartitionsRevokedError: With RebalanceInProgressError as its cause.
    """
    if given_up and (gone := [tp for tp in partitions if tp in given_up]):
        error = PartitionsRevokedError(
            "Commit cannot be completed since the group has rebalanced: it revoked "
            f"{named(gone)} from this consumer after these offsets were read, and another member "
            "may have read further. Keep reading, and commit later offsets"
        )
        raise error from RebalanceInProgressError(group_id)
