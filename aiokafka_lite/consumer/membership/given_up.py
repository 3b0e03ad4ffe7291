"""Refuses offsets of partitions that a rebalance took away since they were read."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiokafka_lite.consumer.commits.committer import named
from aiokafka_lite.errors import CommitFailedError, RebalanceInProgressError
from aiokafka_lite.structs import TopicPartition


def check_given_up(
    partitions: Iterable[TopicPartition], given_up: Collection[TopicPartition], group_id: str
) -> None:
    """Reject offsets of partitions that were revoked and assigned again since the last read.

    With the current metadata the coordinator would accept them, although another member may have
    read further meanwhile. In Java a rebalance happens only within a poll, so none can complete
    between a read and its commit.

    A read by any task ends this: its call does not know which read the offsets of a later commit
    came from. Java's client accepts them then, too. They cannot be compared with what was delivered
    since: a listener may commit partitions that came back before they are read, and an application
    may commit an offset of its choice. Offsets in a transaction carry the lease of their read
    instead.

    Args:
        partitions: Those whose offsets are to be committed.
        given_up: Those revoked since the last read.
        group_id: The group.

    Raises:
        CommitFailedError: With RebalanceInProgressError as its cause.
    """
    if given_up and (gone := [tp for tp in partitions if tp in given_up]):
        error = CommitFailedError(
            "Commit cannot be completed since the group has rebalanced: it revoked "
            f"{named(gone)} from this consumer after the last read, and another member may "
            "have read further. Read again before committing"
        )
        raise error from RebalanceInProgressError(group_id)
