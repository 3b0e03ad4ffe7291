"""Finds batches of a producer that no event would ever send.

A partition queue with waiting batches is in exactly one ready list, that of its outbox, or it waits
for an event that offers it to that outbox: a response, the end of its backoff or its linger time, a
compressed batch, a producer id, its transaction's coordinator, or metadata with its leader.
`stranded` checks the queue and what raises the event: a timer, a task or a listener.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from aiokafka_lite.structs import TopicPartition

__all__ = ["stranded"]

ROUNDING = 0.001  # seconds


def stranded(sender: Any) -> list[str]:
    """Describe every queue and outbox of a sender that no event will move; empty if there is none.

    The state must be that between two steps of the event loop.
    """
    if sender.closed:
        return []
    return [*_of_queues(sender), *_of_outboxes(sender)]


def _of_queues(sender: Any) -> Iterator[str]:
    accumulator, now = sender.accumulator, sender._loop.time()
    every = {queue for topic in accumulator.topics.values() for queue in topic.queues}
    every |= accumulator.active
    for queue in every:
        name = "{}-{}".format(*queue.topic_partition)
        listed_by = [
            outbox.node_id
            for outbox in sender._outboxes.values()
            for each in outbox.ready
            if each is queue
        ]
        expected = [queue.outbox.node_id] if queue.listed else []
        if listed_by != expected:
            yield f"{name} is in the ready lists of brokers {listed_by}, not of {expected}"
        held = bool(queue.waiting or queue.in_flight)
        if held != (queue in accumulator.active):
            yield f"{name} holds batches: {held}; the delivery timeout covers it: {not held}"
        if not queue.waiting or queue.listed:
            continue
        events = list(_events(sender, queue, now))
        if not events:
            sendable = accumulator.sendable(queue, now)
            yield f"{name} (sendable: {sendable}) waits for nothing: {queue.waiting[0]!r}"


def _events(sender: Any, queue: Any, now: float) -> Iterator[str]:
    """Yield the events that a queue waits for, if something will raise them."""
    loop, outcomes, identity = sender._loop, sender._outcomes, sender._identity
    first = queue.waiting[0]
    if queue.muted_until and _armed(loop, outcomes._on_unmuted, queue, queue.muted_until):
        yield "its backoff"
    if queue.outbox is None and _looked_up(sender, queue.topic_partition):
        yield "its leader"
    transactions = getattr(sender, "transactions", None)
    if transactions is not None and not transactions.machine.admitted(queue.topic_partition):
        yield "its transaction's coordinator"
    if sender.accumulator.sendable(queue, now):
        return  # it does not wait for any of the other events
    if queue.in_flight:
        yield "an answer"
    if first.compressing:
        yield "a compressed batch"
    if queue.open is first and not first.due and _lingers(sender, queue, first):
        yield "its linger time"
    if not identity.settled and (transactions is not None or outcomes.ids._task is not None):
        yield "a producer id"


def _looked_up(sender: Any, partition: TopicPartition) -> bool:
    """True if a partition has no known leader, and the cluster is looking for it."""
    cluster = sender._cluster
    refreshes = cluster._refreshing is not None and not cluster._refreshing.done()
    return (
        cluster.metadata.leader(*partition) is None
        and partition.topic in cluster._topics
        and (cluster._refresh.schedule.needed or cluster._refresh.schedule.under_way)
        and refreshes
        and sender._on_metadata in cluster._listeners
    )


def _lingers(sender: Any, queue: Any, batch: Any) -> bool:
    timer, due_at = sender._linger_timer, batch.created + sender._options.linger
    return (
        timer is not None
        and not timer.cancelled()
        and timer.when() <= due_at + ROUNDING
        and any(each is queue and other is batch for each, other in sender.accumulator._lingering)
    )


def _of_outboxes(sender: Any) -> Iterator[str]:
    for outbox in sender._outboxes.values():
        name = f"the outbox of broker {outbox.node_id}"
        until = outbox._paused_until
        if until and not _armed(sender._loop, outbox._on_resumed, until):
            yield f"{name} is throttled, and no timer ends it"
        if outbox.in_flight and not _in_flight(sender._loop, outbox):
            yield f"{name} waits for {outbox.in_flight} responses, and no request is in flight"
        asleep = outbox._waker is not None and not outbox._waker.done()
        if outbox._may_send and not outbox._pass_is_due and asleep:
            yield f"{name} has something to send and sleeps"
    ended = [task for task in sender._running if task.done()]
    if ended:
        yield f"the tasks of {len(ended)} outboxes have ended"


def _in_flight(loop: Any, outbox: Any) -> bool:
    """True if a connection will answer or fail a request, or the loop is about to report it."""
    connection = outbox._connection
    if connection is not None and (
        connection.in_flight
        or connection._leaving  # without a response, and not written to the socket yet
        or connection.held
        or not connection.listens
    ):
        return True
    return any(
        getattr(handle._callback, "__self__", None) is outbox and not handle.cancelled()
        for handle in loop._ready
    )


def _armed(loop: Any, callback: Callable[..., None], *args: object) -> bool:
    """True if the loop will call back with these arguments, now or when a timer fires."""
    handles: list[asyncio.Handle] = [*loop._scheduled, *loop._ready]
    return any(
        handle._callback == callback and handle._args == args and not handle.cancelled()  # type: ignore[attr-defined]
        for handle in handles
    )
