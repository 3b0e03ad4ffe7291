"""One step of a member towards its target assignment (Kafka's `CurrentAssignmentBuilder`). No I/O.

A partition moves in two steps: its owner revokes it and reports that, then the new owner gets it.
So two members never own it at the same time.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from aiokafka_lite.testing.groups.assignors import Partitions
from aiokafka_lite.testing.groups.consumer_member import (
    ConsumerMember,
    MemberState,
    OwnedPartitions,
)

__all__ = ["reconcile"]

IsOwned: TypeAlias = Callable[[UUID, int], bool]


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    *,
    subscribed_ids: Set[UUID],
    reported: Partitions | None,
    is_owned: IsOwned,
    subscription_changed: bool = False,
) -> ConsumerMember:
    """Return the member, moved towards its target as far as possible.

    Args:
        member: The current state.
        target_epoch: Epoch of the target assignment.
        target: The target assignment.
        subscribed_ids: Its subscribed, existing topics; it gets partitions of no others.
        reported: The partitions that it reports to own; None if it does not report them.
        is_owned: (topic id, partition) -> True if a member of the group owns it now.
        subscription_changed: True to revoke partitions of unsubscribed topics immediately.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        if subscription_changed:
            return _without_unsubscribed(member, subscribed_ids, reported)
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_has(reported, member.revoking):
        if subscription_changed:
            return _without_unsubscribed(member, subscribed_ids, reported)
        return member
    return _next(member, target_epoch, target, subscribed_ids, reported, is_owned)


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    subscribed_ids: Set[UUID],
    reported: Partitions | None,
    is_owned: IsOwned,
) -> ConsumerMember:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    for topic_id, owned in member.assigned.items():
        wanted = target.get(topic_id, frozenset()) if topic_id in subscribed_ids else frozenset()
        for partition, epoch in owned.items():
            side = kept if partition in wanted else revoking
            side.setdefault(topic_id, {})[partition] = epoch
    if revoking and _still_has(reported, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )
    unreleased = False
    for topic_id, partitions in target.items():
        if topic_id not in subscribed_ids:
            continue
        for partition in sorted(partitions - kept.get(topic_id, {}).keys()):
            # Partitions that it has just released itself are free.
            own = partition in member.revoking.get(topic_id, {})
            if is_owned(topic_id, partition) and not own:
                unreleased = True
            else:
                kept.setdefault(topic_id, {})[partition] = target_epoch
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return replace(member.in_epoch(target_epoch), state=state, assigned=kept, revoking={})


def _without_unsubscribed(
    member: ConsumerMember, subscribed_ids: Set[UUID], reported: Partitions | None
) -> ConsumerMember:
    """Revoke, within the epoch, what a new target assignment will revoke anyway."""
    kept = {one: owned for one, owned in member.assigned.items() if one in subscribed_ids}
    if len(kept) == len(member.assigned):
        return member
    revoking: dict[UUID, Mapping[int, int]] = dict(member.revoking)
    for topic_id in member.assigned.keys() - kept.keys():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **member.assigned[topic_id]}
    changed = replace(member, previous_epoch=member.epoch, assigned=kept)
    if _still_has(reported, revoking):
        return replace(changed, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return changed


def _still_has(reported: Partitions | None, revoking: OwnedPartitions) -> bool:
    """Return True if the member still owns any of these partitions, or does not report them."""
    if reported is None:
        return True
    return any(
        not partitions.isdisjoint(revoking.get(topic_id, {}))
        for topic_id, partitions in reported.items()
    )
