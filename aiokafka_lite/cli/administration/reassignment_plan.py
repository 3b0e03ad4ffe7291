"""Plans which brokers get the replicas of partitions. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from aiokafka_lite.structs import TopicPartition

__all__ = ["plan_reassignment"]


def plan_reassignment(
    replicas: Mapping[TopicPartition, Sequence[int]],
    brokers: Collection[int],
    racks: Mapping[int, str | None],
    count: int | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the new replicas of each partition, the preferred leader first.

    A replica on one of `brokers` stays where it is. A missing one goes to a rack that the partition
    does not have yet, if there is one, then to the broker with the fewest replicas. The current
    preferred leader stays first unless it leaves or leads more partitions than others could.

    Args:
        replicas: The present replicas, the preferred leader first.
        brokers: The brokers to use; not empty.
        racks: The rack of each broker; None without one.
        count: Replicas of each partition; None: as many as it has, at most `len(brokers)`.
    """
    targets = sorted(set(brokers))
    kept = {
        tp: [node for node in now if node in targets][: _size(now, targets, count)]
        for tp, now in replicas.items()
    }
    load = dict.fromkeys(targets, 0)
    for nodes in kept.values():
        for node in nodes:
            load[node] += 1
    for tp, nodes in kept.items():
        while len(nodes) < _size(replicas[tp], targets, count):
            used = {racks.get(node) for node in nodes}
            free = [node for node in targets if node not in nodes]
            node = min(free, key=lambda each: (racks.get(each) in used, load[each], each))
            nodes.append(node)
            load[node] += 1
    leads = dict.fromkeys(targets, 0)
    fair = -(-len(kept) // len(targets))
    planned: dict[TopicPartition, tuple[int, ...]] = {}
    for tp, nodes in kept.items():
        first = nodes[0]
        if first != replicas[tp][0] or leads[first] >= fair:
            first = min(nodes, key=lambda each: (leads[each], nodes.index(each)))
        leads[first] += 1
        planned[tp] = (first, *(node for node in nodes if node != first))
    return planned


def _size(now: Sequence[int], targets: Sequence[int], count: int | None) -> int:
    return min(len(now) if count is None else count, len(targets))
