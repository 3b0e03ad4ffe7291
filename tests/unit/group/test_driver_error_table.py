"""Every error that a broker can return for each request of a driven member, once.

Each code has a member in a separate group. The table says what happens to the member; in each case
it ends properly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Any

import pytest

from aiokafka_lite.errors import for_code
from aiokafka_lite.errors.table import CODES
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.group.crew import CrewMember, until
from tests.unit.group.test_membership_driver import CONFIGS

pytestmark = pytest.mark.unhurried

AT_ONCE = 12
"""Members; more would only wait for each other."""

UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE, TOPIC_AUTHORIZATION = 25, 22, 27, 29
ID_REQUIRED, FENCED_INSTANCE, FENCED_EPOCH, NO_GROUP = 79, 82, 110, 69
LOST = {UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE}
MADE_BY_CLIENTS = {0}


class Fate(Enum):
    """What happens to the member."""

    HEALED = "goes on by itself"
    TOLD = "goes on by itself, and the application is told"
    FAILED = "goes on when the application does"
    ENDED = "can only be closed"


def of_join(code: int) -> Fate:
    if code == FENCED_INSTANCE:
        return Fate.ENDED
    healed = code in LOST or code == ID_REQUIRED or for_code(code).retriable
    return Fate.HEALED if healed else Fate.FAILED


def of_sync(code: int) -> Fate:
    if code == FENCED_INSTANCE:
        return Fate.ENDED
    return Fate.HEALED if code in LOST or for_code(code).retriable else Fate.FAILED


def of_heartbeat(code: int) -> Fate:
    if code == FENCED_INSTANCE:
        return Fate.ENDED
    return Fate.FAILED if for_code(code).fatal_to_consumer else Fate.HEALED


def of_search(code: int) -> Fate:
    return Fate.HEALED if for_code(code).retriable else Fate.FAILED


def of_modern_search(code: int) -> Fate:
    # No broker returns that for a lookup; it would be taken literally.
    return Fate.ENDED if code == FENCED_INSTANCE else of_search(code)


def of_modern(code: int, *, joining: bool) -> Fate:
    if code == TOPIC_AUTHORIZATION:
        return Fate.TOLD
    if code in (UNKNOWN_MEMBER, FENCED_EPOCH) or for_code(code).retriable:
        return Fate.HEALED
    if code == NO_GROUP and not joining:
        return Fate.HEALED
    return Fate.ENDED if code == FENCED_INSTANCE else Fate.FAILED


def of_modern_join(code: int) -> Fate:
    return of_modern(code, joining=True)


def of_modern_later(code: int) -> Fate:
    return of_modern(code, joining=False)


@pytest.fixture
async def embedded() -> AsyncIterator[FakeCluster]:
    configs = {**CONFIGS, "group.initial.rebalance.delay.ms": 0}
    async with FakeCluster(topics={"t": 2}, broker_configs=configs) as embedded:
        yield embedded


async def walk(
    embedded: FakeCluster,
    api: ApiKey,
    *,
    modern: bool,
    fate_of: Callable[[int], Fate],
    settled: bool,
) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(code: int) -> str | None:
        async with places:
            try:
                await meet(embedded, api, code, modern=modern, fate=fate_of(code), settled=settled)
            except AssertionError as error:
                return f"{api.name} {code} {CODES[code][0]}: {fate_of(code).value}: {error}"
        return None

    outcomes = await asyncio.gather(*(one(code) for code in CODES if code not in MADE_BY_CLIENTS))
    assert not [outcome for outcome in outcomes if outcome]


async def meet(
    embedded: FakeCluster, api: ApiKey, code: int, *, modern: bool, fate: Fate, settled: bool
) -> None:
    """Return one error to one member."""
    group_id = f"{api.name}-{code}"

    def is_its_own(request: Any) -> bool:
        keys = getattr(request, "coordinator_keys", None) or [getattr(request, "key", None)]
        return getattr(request, "group_id", None) == group_id or group_id in keys

    member = CrewMember(embedded.bootstrap_servers, group_id, modern=modern, request_timeout=5.0)
    try:
        if not settled:
            fault = embedded.control(api, when=is_its_own, error=code)
        await member.start("t")
        if settled:
            await until(lambda: len(member.held) == 2 and member.stable, lambda: member)
            fault = embedded.control(api, when=is_its_own, error=code)
        await until(lambda: fault.hits == 1, lambda: member)
        if fate is not Fate.HEALED:
            await until(lambda: bool(member.failures), lambda: member)
            assert isinstance(member.failures[0], for_code(code))
        if fate is Fate.FAILED:
            member.driver.retry()
        if fate is not Fate.ENDED:
            await until(lambda: len(member.held) == 2 and member.stable, lambda: member)
            assert len(member.failures) == (fate is not Fate.HEALED)
        await member.stop(within=10.0)
        assert member.machine.closed
        assert not member.held
    finally:
        await member.die()


async def test_join(embedded: FakeCluster) -> None:
    await walk(embedded, ApiKey.JOIN_GROUP, modern=False, fate_of=of_join, settled=False)


async def test_sync(embedded: FakeCluster) -> None:
    await walk(embedded, ApiKey.SYNC_GROUP, modern=False, fate_of=of_sync, settled=False)


async def test_heartbeat(embedded: FakeCluster) -> None:
    await walk(embedded, ApiKey.HEARTBEAT, modern=False, fate_of=of_heartbeat, settled=True)


@pytest.mark.parametrize("modern", [False, True], ids=["classic", "modern"])
async def test_search(embedded: FakeCluster, modern: bool) -> None:
    fate_of = of_modern_search if modern else of_search
    await walk(embedded, ApiKey.FIND_COORDINATOR, modern=modern, fate_of=fate_of, settled=False)


async def test_modern_join(embedded: FakeCluster) -> None:
    api = ApiKey.CONSUMER_GROUP_HEARTBEAT
    await walk(embedded, api, modern=True, fate_of=of_modern_join, settled=False)


async def test_modern_heartbeat(embedded: FakeCluster) -> None:
    api = ApiKey.CONSUMER_GROUP_HEARTBEAT
    await walk(embedded, api, modern=True, fate_of=of_modern_later, settled=True)


@pytest.mark.parametrize("modern", [False, True], ids=["classic", "modern"])
async def test_leaving(embedded: FakeCluster, modern: bool) -> None:
    """Whatever the response to its LeaveGroup is, the member ends soon."""
    api = ApiKey.CONSUMER_GROUP_HEARTBEAT if modern else ApiKey.LEAVE_GROUP
    places = asyncio.Semaphore(AT_ONCE)

    async def one(code: int) -> None:
        async with places:
            group_id = f"{api.name}-{code}"
            member = CrewMember(embedded.bootstrap_servers, group_id, modern=modern)
            try:
                await member.start("t")
                await until(lambda: len(member.held) == 2 and member.stable, lambda: member)
                fault = embedded.control(
                    api,
                    when=lambda request: (
                        request.group_id == group_id and getattr(request, "member_epoch", -1) < 0
                    ),
                    error=code,
                )
                await member.stop(within=10.0)
                assert member.machine.closed, code
                assert fault.hits == 1
            finally:
                await member.die()

    await asyncio.gather(*(one(code) for code in CODES if code not in MADE_BY_CLIENTS))
