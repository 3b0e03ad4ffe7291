"""Addresses are tried with a short delay between them; the first that accepts wins."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from aiokafka_lite.net.route import racing as module
from aiokafka_lite.net.route.racing import AddressInfo, Race, interleaved


def address(name: str, family: int = socket.AF_INET) -> AddressInfo:
    return (family, socket.SOCK_STREAM, 6, "", (name, 9092))


A, B, C = (address(name) for name in "abc")


class Network:
    """Addresses that accept, refuse or do nothing, as the test decides."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.sockets: dict[str, socket.socket] = {}
        self._outcomes: dict[str, asyncio.Future[None]] = {}

    def outcome(self, name: str) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        return self._outcomes.setdefault(name, loop.create_future())

    def accept(self, name: str) -> None:
        self.outcome(name).set_result(None)

    def refuse(self, name: str) -> None:
        self.outcome(name).set_exception(ConnectionRefusedError(name))

    async def connect(self, info: AddressInfo) -> socket.socket:
        name = info[4][0]
        self.tried.append(name)
        self.sockets[name] = made = socket.socket()
        try:
            await asyncio.shield(self.outcome(name))
        except BaseException:
            made.close()
            raise
        return made

    @property
    def open(self) -> list[str]:
        return [name for name, each in self.sockets.items() if each.fileno() >= 0]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    monkeypatch.setattr(module, "STAGGER", 0.02)
    network = Network()
    yield network
    for each in network.sockets.values():
        each.close()


async def wait_for(network: Network, *names: str) -> None:
    async with asyncio.timeout(60):
        while network.tried != list(names):
            await asyncio.sleep(0.001)


def test_families_alternate_and_missed_addresses_go_to_the_end() -> None:
    six = [address(name, socket.AF_INET6) for name in ("x", "y", "z")]
    assert interleaved([*six, A]) == [six[0], A, six[1], six[2]]
    assert interleaved([A, B, six[0]]) == [A, six[0], B]
    assert interleaved([A, B, C], skip=1) == [B, C, A]
    assert interleaved([A, B, C], skip=5) == [C, A, B]
    assert interleaved([], skip=3) == []


async def test_single_address_needs_no_race(network: Network) -> None:
    network.accept("a")
    race = Race([A], network.connect)
    winner = await race.winner()
    assert winner is not None
    assert winner[0] == A
    network.refuse("b")
    race = Race([B], network.connect)
    assert await race.winner() is None
    assert [each for each, _ in race.failures] == [("b", 9092)]


async def test_silent_address_does_not_delay_the_next(network: Network) -> None:
    race = Race([A, B, C], network.connect)
    winning = asyncio.create_task(race.winner())
    await wait_for(network, "a", "b", "c")
    network.accept("b")
    winner = await winning
    assert winner is not None
    assert winner[0] == B
    assert network.open == ["b"]
    assert race.failures == []
    # If the connection turns out to be unusable, the others are tried again.
    network.accept("c")
    again = await race.winner()
    assert again is not None
    assert again[0] == C


async def test_refused_address_is_followed_at_once(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STAGGER", 3600)
    network.refuse("a")
    network.accept("b")
    race = Race([A, B, C], network.connect)
    winner = await race.winner()
    assert winner is not None
    assert winner[0] == B
    assert network.tried == ["a", "b"]


async def test_all_failures_are_recorded(network: Network) -> None:
    for name in "cab":
        network.refuse(name)
    race = Race([A, B, C], network.connect)
    assert await race.winner() is None
    assert sorted(each[0] for each, _ in race.failures) == ["a", "b", "c"]


async def test_cancellation_closes_every_socket(network: Network) -> None:
    winning = asyncio.create_task(Race([A, B, C], network.connect).winner())
    await wait_for(network, "a", "b", "c")
    winning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await winning
    assert network.open == []


async def test_two_that_accept_together_leave_one_socket(network: Network) -> None:
    winning = asyncio.create_task(Race([A, B], network.connect).winner())
    await wait_for(network, "a", "b")
    network.accept("a")
    network.accept("b")
    winner = await winning
    assert winner is not None
    assert network.open == [winner[0][4][0]]


async def test_bug_in_connecting_is_raised() -> None:
    async def fail(info: AddressInfo) -> socket.socket:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Race([A, B], fail).winner()


@pytest.mark.parametrize("passes", range(8))
async def test_cancellation_at_any_time_closes_the_winner_too(
    network: Network, passes: int
) -> None:
    race = Race([A, B], network.connect)
    task = asyncio.create_task(race.winner())
    while network.tried != ["a", "b"]:
        await asyncio.sleep(0.001)
    network.accept("b")
    for _ in range(passes):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()[1].close()  # type: ignore[index]
    assert network.open == []
