"""Tables of a client's reaction to each error code of Kafka 4.4.

A table names the codes by Kafka's names; the reaction to all others is `otherwise`. So a code that
a later Kafka adds is tested as soon as `aiokafka_lite.errors` has it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiokafka_lite.errors import for_code, kafka_errors

__all__ = ["METADATA_IS_OLD", "PASSES", "assert_reactions", "reactions"]

AT_ONCE = 32
"""Concurrent clients of one test: each has its own broker."""

PASSES = """
    CORRUPT_MESSAGE REQUEST_TIMED_OUT COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE
    NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER
    CONCURRENT_TRANSACTIONS FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH
    UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED
    FETCH_SESSION_TOPIC_ID_ERROR SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH
    SHARE_SESSION_LIMIT_REACHED
"""
"""Java's RetriableException, without those below."""

METADATA_IS_OLD = """
    UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REPLICA_NOT_AVAILABLE
    NETWORK_EXCEPTION KAFKA_STORAGE_ERROR LISTENER_NOT_FOUND FENCED_LEADER_EPOCH
    PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED
    UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID
"""
"""Java's InvalidMetadataException, which is retriable, too."""


def reactions(*, otherwise: str, **named: str) -> dict[int, str]:
    """A table: code -> reaction, for every code but NONE.

    Args:
        otherwise: The reaction to codes that are not named.
        **named: Codes by Kafka's names, by their reaction; each may be named once.
    """
    codes = {kind.message: code for code, kind in kafka_errors.items() if code}
    table = dict.fromkeys(sorted(codes.values()), otherwise)
    seen: set[str] = set()
    for reaction, names in named.items():
        for name in names.split():
            if name in seen:
                raise ValueError(f"{name} has two reactions")
            seen.add(name)
            table[codes[name]] = reaction
    return table


async def assert_reactions(
    table: Mapping[int, str], reaction_to: Callable[[int], Awaitable[str]]
) -> None:
    """Try every code of a table, many concurrently, and list all with another reaction.

    Args:
        table: Code -> the expected reaction.
        reaction_to: Tries one code with a new client and returns the reaction. An exception counts
            as the reaction to that code; the other codes are still tried.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def found(code: int) -> str:
        async with slots:
            try:
                return await reaction_to(code)
            except Exception as error:
                error.add_note(f"the code was {code}, {for_code(code).message}")
                raised.append(error)
                return repr(error)

    raised: list[Exception] = []
    reactions = await asyncio.gather(*map(found, table))
    wrong = {
        for_code(code).message: f"{reaction}, not {table[code]}"
        for code, reaction in zip(table, reactions, strict=True)
        if reaction != table[code]
    }
    if raised:
        raise ExceptionGroup(f"{len(wrong)} of {len(table)} codes: {wrong}", raised)
    assert not wrong, f"{len(wrong)} of {len(table)} codes: {wrong}"
