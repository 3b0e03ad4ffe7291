"""Checks of a consumer group member's epoch, in heartbeats and offset requests. No I/O."""

from typing import Final
from uuid import UUID

from aiokafka_lite.errors import (
    FencedMemberEpochError,
    IllegalGenerationError,
    StaleMemberEpochError,
    UnsupportedVersionError,
)
from aiokafka_lite.testing.groups.assignors import Partitions
from aiokafka_lite.testing.groups.consumer_member import ConsumerMember

__all__ = [
    "JOINING_EPOCH",
    "check_assignment_epoch",
    "check_commit_epoch",
    "check_fetch_epoch",
    "check_heartbeat_epoch",
]

JOINING_EPOCH: Final = 0
EPOCHS_SINCE: Final = 9  # OffsetCommit


def check_heartbeat_epoch(member: ConsumerMember, epoch: int, reported: Partitions | None) -> None:
    """Check the epoch of a member's heartbeat.

    Args:
        member: The member's state in the group.
        epoch: The epoch it sent; `JOINING_EPOCH` is always valid.
        reported: The partitions that it reports to own.

    Raises:
        FencedMemberEpochError: It must release all partitions and rejoin.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    # The response with the newer epoch may have been lost; a member that owns nothing beyond its
    # assignment is still valid.
    if epoch == member.previous_epoch < member.epoch and _is_within(reported, member):
        return
    relation = "greater" if epoch > member.epoch else "smaller"
    raise FencedMemberEpochError(
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by"
        f" the group coordinator ({member.epoch}). The member must abandon all its partitions and"
        " rejoin."
    )


def _is_within(reported: Partitions | None, member: ConsumerMember) -> bool:
    return reported is not None and all(
        topic_id in member.assigned and partitions <= member.assigned[topic_id].keys()
        for topic_id, partitions in reported.items()
    )


def check_commit_epoch(
    member: ConsumerMember, epoch: int, version: int, *, transactional: bool
) -> bool:
    """Check the epoch of a commit.

    Returns:
        True if the epoch is older, so `check_assignment_epoch` must check each partition.

    Raises:
        StaleMemberEpochError: The epoch is newer than the member's.
        IllegalGenerationError: The same, to a member of the classic protocol.
        UnsupportedVersionError: The request is older than OffsetCommit v9, which added epochs.
    """
    if not transactional and member.classic is None and version < EPOCHS_SINCE:
        raise UnsupportedVersionError(
            "OffsetCommit version 9 or above must be used by members using the consumer group"
            " protocol"
        )
    if epoch > member.epoch:
        raise _stale(member, f"epoch {epoch} is newer than the member's epoch {member.epoch}")
    return epoch < member.epoch


def check_assignment_epoch(
    member: ConsumerMember, epoch: int, topic_id: UUID | None, partition: int
) -> None:
    """Allow an older epoch to commit a partition owned continuously since (KIP-1251).

    Raises:
        StaleMemberEpochError: The member did not own the partition in that epoch.
        IllegalGenerationError: The same, to a member of the classic protocol.
    """
    since = None if topic_id is None else member.assignment_epoch(topic_id, partition)
    if since is None or epoch < since:
        raise _stale(member, f"the member did not own partition {partition} in epoch {epoch}")


def check_fetch_epoch(member: ConsumerMember, epoch: int) -> None:
    """Check the epoch of an offset fetch.

    Raises:
        StaleMemberEpochError: The epoch differs.
        IllegalGenerationError: The same, to a member of the classic protocol.
    """
    if epoch != member.epoch:
        raise _stale(member, f"epoch {epoch} is not the member's epoch {member.epoch}")


def _stale(member: ConsumerMember, detail: str) -> StaleMemberEpochError | IllegalGenerationError:
    if member.classic is None:
        return StaleMemberEpochError(detail)
    return IllegalGenerationError(detail)
