"""`scatter`: sends items to their brokers, and sends them again if they moved to other brokers.

Each broker gets its items in a separate request. Items that stay pending after the response are
placed and sent again, after a backoff, while the requests to the other brokers continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import KafkaError, KafkaTimeoutError

__all__ = ["scatter"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


async def scatter(
    cluster: Cluster,
    outcomes: Outcomes[K, V],
    place: Callable[[list[K]], Awaitable[Mapping[int, list[K]]]],
    send: Callable[[int, list[K]], Awaitable[None]],
    deadline: float,
    name: str,
    *,
    at_most: int | None = None,
    on_retry: Callable[[K, KafkaError], None] = lambda item, error: None,
) -> Results[K, V]:
    """Settle every item of a call by the deadline.

    Args:
        place: Returns the items by node id; omitted items are placed again later.
        send: Sends one request and reports its response to `outcomes`.
        name: The request, for errors and names of tasks.
        at_most: How many items a request can have; None: any number.
        on_retry: Called with an item and its error before it is placed again.

    Raises:
        KafkaError: No broker reported the outcome of any item; otherwise each has its own error.
    """

    async def round_of(items: list[K], failures: int) -> None:
        await asyncio.sleep(cluster.retry_backoff.delay(failures))
        try:
            placed = await place(items)
        except KafkaError as error:
            placed = {}
            outcomes.on_failure(items, error)
        homeless = set(items)
        for node_id, group in placed.items():
            homeless.difference_update(group)
            size = at_most or len(group)
            for start in range(0, len(group), size):
                part = group[start : start + size]
                tasks.create_task(attempt(node_id, part, failures), name=f"{name} to {node_id}")
                if start + size < len(group):
                    await asyncio.sleep(0)  # not all requests are encoded in one pass of the loop
        again_later([item for item in items if item in homeless], failures)

    async def attempt(node_id: int, items: list[K], failures: int) -> None:
        try:
            await send(node_id, items)
        except KafkaError as error:
            outcomes.on_failure(items, error)
        again_later(items, failures)

    def again_later(items: Iterable[K], failures: int) -> None:
        again = [item for item in items if outcomes.is_pending(item)]
        for item in again:
            if (error := outcomes.last_error(item)) is not None:
                on_retry(item, error)
        if again:
            # A separate task: a chain of awaits would grow with every retry.
            tasks.create_task(round_of(again, failures + 1), name=f"{name} again")

    if outcomes.pending:
        try:
            async with asyncio.timeout_at(deadline), asyncio.TaskGroup() as tasks:
                tasks.create_task(round_of(outcomes.pending, 0), name=name)
        except TimeoutError:
            # The time also ended the attempts to find the items' brokers, and with them the reason.
            reason = cluster.last_error
            error = KafkaTimeoutError(f"{name} timed out{'' if reason is None else f': {reason}'}")
            error.__cause__ = reason
            outcomes.fail_pending(error)
    return outcomes.results()
