"""Which epoch a consumer group's member may name, in heartbeats and with its offsets. No I/O."""

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
    """Refuse a member that is not where the group thinks it is.

    Args:
        member: As the group has it.
        epoch: That it names; `JOINING_EPOCH` is always welcome.
        reported: The partitions that it says it owns.

    Raises:
        FencedMemberEpochError: It has to give up everything and join again.
    """
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    # The answer with the newer epoch may have been lost; a member that has nothing beyond that
    # has done no harm.
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
    """Refuse the commit of a member that is ahead, or that does not know epochs.

    Returns:
        Whether `check_assignment_epoch` has to allow each partition, as the epoch is an older.

    Raises:
        StaleMemberEpochError: The epoch is one to come.
        IllegalGenerationError: The same, to a member of the classic protocol.
        UnsupportedVersionError: Before OffsetCommit v9 there were no epochs.
    """
    if not transactional and member.classic is None and version < EPOCHS_SINCE:
        raise UnsupportedVersionError(
            "OffsetCommit version 9 or above must be used by members using the consumer group"
            " protocol"
        )
    if epoch > member.epoch:
        raise _stale(member, f"{epoch} is newer than the member's epoch {member.epoch}")
    return epoch < member.epoch


def check_assignment_epoch(
    member: ConsumerMember, epoch: int, topic_id: UUID | None, partition: int
) -> None:
    """Allow an older epoch to commit what the member has owned ever since (KIP-1251).

    Raises:
        StaleMemberEpochError: It was not the member's in that epoch.
        IllegalGenerationError: The same, to a member of the classic protocol.
    """
    since = None if topic_id is None else member.assignment_epoch(topic_id, partition)
    if since is None or epoch < since:
        raise _stale(member, f"partition {partition} was not the member's in epoch {epoch}")


def check_fetch_epoch(member: ConsumerMember, epoch: int) -> None:
    """Refuse to tell offsets to a member in another epoch.

    Raises:
        StaleMemberEpochError: It names another.
        IllegalGenerationError: The same, to a member of the classic protocol.
    """
    if epoch != member.epoch:
        raise _stale(member, f"{epoch} is not the member's epoch {member.epoch}")


def _stale(member: ConsumerMember, detail: str) -> StaleMemberEpochError | IllegalGenerationError:
    if member.classic is None:
        return StaleMemberEpochError(detail)
    return IllegalGenerationError(detail)
