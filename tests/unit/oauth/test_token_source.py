"""The cached token: renewals are shared and timely, and a failed one keeps the token."""

import asyncio
import base64
import gc
import json
import logging
import time
import weakref
from typing import Any

import pytest

from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafka_lite.oauth import Token, TokenSource, token_source
from aiokafka_lite.oauth.token_source import jwt_times


class Source(TokenSource):
    """Counts its fetches; `outcomes` are tokens' lifetimes in seconds, or errors."""

    def __init__(self, *outcomes: float | Exception, **options: Any) -> None:
        super().__init__(**options)
        self.outcomes = list(outcomes)
        self.fetched = 0
        self.gate: asyncio.Event | None = None

    async def fetch(self) -> Token:
        self.fetched += 1
        if self.gate is not None:
            await self.gate.wait()
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return Token(f"token {self.fetched}", time.time() + outcome)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Moves the wall clock."""
    moved = [0.0]
    now = time.time

    def move(seconds: float) -> None:
        moved[0] += seconds

    monkeypatch.setattr(time, "time", lambda: now() + moved[0])
    return move


async def test_token_is_fetched_once_and_renewed_in_its_window(later: Any) -> None:
    source = Source(1000, 1000)
    assert [await source.token() for _ in range(3)] == ["token 1"] * 3
    later(690)
    assert await source.token() == "token 1"
    later(15)  # within 300 s of its expiry
    assert await source.token() == "token 2"
    assert source.fetched == 2


async def test_rejected_token_is_replaced_unless_it_is_new(later: Any) -> None:
    source = Source(3600, 3600)
    assert await source.token() == "token 1"
    source.on_rejected("token 1")
    later(9)
    source.on_rejected("token 1")
    assert await source.token() == "token 1"
    later(1)
    source.on_rejected("another")
    assert await source.token() == "token 1"
    source.on_rejected("token 1")
    assert await source.token() == "token 2"
    source.on_rejected("token 1")  # by a slower broker
    assert await source.token() == "token 2"


async def test_rejected_token_is_replaced_after_the_clock_was_set_back(later: Any) -> None:
    """Until the clock shows the same time again, the token would look new."""
    source = Source(3600, 3600)
    assert await source.token() == "token 1"
    later(-86_400)
    source.on_rejected("token 1")
    assert await source.token() == "token 2"


async def test_rejected_token_stays_in_use_while_it_cannot_be_renewed(later: Any) -> None:
    """One broker may be at fault; the others still accept the token."""
    source = Source(3600, KafkaConnectionError("away"), 3600)
    await source.token()
    later(10)
    source.on_rejected("token 1")
    assert [await source.token() for _ in range(3)] == ["token 1"] * 3
    assert source.fetched == 2
    later(10)
    assert await source.token() == "token 3"


async def test_concurrent_calls_share_a_fetch() -> None:
    source = Source(1000)
    source.gate = asyncio.Event()
    calls = [asyncio.create_task(source.token()) for _ in range(10)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(*calls) == ["token 1"] * 10
    assert source.fetched == 1


async def test_cancelled_call_does_not_cancel_the_fetch_of_another() -> None:
    source = Source(1000)
    source.gate = asyncio.Event()
    first, second = (asyncio.create_task(source.token()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    source.gate.set()
    assert await second == "token 1"


async def test_last_cancelled_call_cancels_the_fetch_and_the_next_restarts_it() -> None:
    source = Source(1000)
    source.gate = asyncio.Event()
    before = asyncio.all_tasks()
    call = asyncio.create_task(source.token())
    while not source.fetched:
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    source.gate.set()
    assert await source.token() == "token 2"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_valid_token_stays_in_use_if_its_renewal_fails(
    later: Any, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(1000, KafkaConnectionError("down"), KafkaConnectionError("down"), 1000)
    await source.token()
    later(800)
    with caplog.at_level(logging.WARNING):
        assert [await source.token() for _ in range(3)] == ["token 1"] * 3
    assert source.fetched == 2  # the next attempt is made ten seconds later
    assert "keeps its token, which is valid for another" in caplog.text
    later(11)
    assert await source.token() == "token 1"
    later(11)
    assert await source.token() == "token 4"


async def test_used_token_is_renewed_by_a_timer() -> None:
    source = Source(0.2, 1000)
    assert await source.token() == "token 1"
    async with asyncio.timeout(60):
        while source.fetched < 2:
            await asyncio.sleep(0.01)
    assert await source.token() == "token 2"


async def test_unused_token_is_not_renewed_by_a_timer() -> None:
    source = Source(0.1, 1000)
    await source.token()
    source._used = False
    await asyncio.sleep(0.2)
    assert source.fetched == 1
    assert await source.token() == "token 2"


async def test_timer_tries_again_while_the_token_is_valid(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_source, "RETRY_SECONDS", 0.01)
    source = Source(10, *[KafkaConnectionError("down")] * 3, 1000)
    renewal_in = {10: 0.05, 1000: 800.0}  # for the second token, after the end of the test
    monkeypatch.setattr(
        token_source,
        "refresh_at",
        lambda issued, expires, *_: issued + renewal_in[round(expires - issued)],
    )
    await source.token()
    await source.token()
    async with asyncio.timeout(60):
        while source.fetched < 5:
            await asyncio.sleep(0.01)
    assert await source.token() == "token 5"
    assert caplog.text.count("keeps its token") == 3


async def test_cancelled_call_does_not_end_a_renewal_of_the_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source(10, 1000)
    renewal_in = {10: 0.05, 1000: 800.0}
    monkeypatch.setattr(
        token_source,
        "refresh_at",
        lambda issued, expires, *_: issued + renewal_in[round(expires - issued)],
    )
    await source.token()
    await source.token()
    source.gate = asyncio.Event()
    async with asyncio.timeout(60):
        while source.fetched < 2:
            await asyncio.sleep(0.01)
    call = asyncio.create_task(source.token())
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    source.gate.set()
    await asyncio.sleep(0)
    assert await source.token() == "token 2"


async def test_timer_does_not_keep_a_dropped_source() -> None:
    source = Source(0.1)
    await source.token()
    dropped = weakref.ref(source)
    del source
    gc.collect()
    assert dropped() is None
    await asyncio.sleep(0.15)  # the timer finds nothing


async def test_slow_renewal_does_not_hold_up_a_caller_with_a_valid_token(
    later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_source, "PATIENCE", 0.01)
    source = Source(1000)
    await source.token()
    later(800)
    source.gate = asyncio.Event()
    assert await source.token() == "token 1"


async def test_renewal_slower_than_its_callers_replaces_a_rejected_token(
    later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_source, "PATIENCE", 0.01)
    source = Source(3600, 3600)
    await source.token()
    later(10)
    source.gate = asyncio.Event()
    for _ in range(3):  # brokers reject it repeatedly
        source.on_rejected("token 1")
        assert await source.token() == "token 1"
    assert source.fetched == 2
    source.gate.set()
    async with asyncio.timeout(60):
        while await source.token() != "token 2":
            await asyncio.sleep(0.01)
    assert source.fetched == 2


async def test_slow_renewal_that_fails_is_repeated_after_a_pause(
    later: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_source, "PATIENCE", 0.01)
    source = Source(1000, KafkaConnectionError("down"), 1000)
    await source.token()
    later(800)
    source.gate = asyncio.Event()
    assert [await source.token() for _ in range(3)] == ["token 1"] * 3
    source.gate.set()
    async with asyncio.timeout(60):
        while "keeps its token" not in caplog.text:
            await asyncio.sleep(0.01)
    assert await source.token() == "token 1"
    assert source.fetched == 2
    later(11)
    assert await source.token() == "token 3"


async def test_renewal_that_never_ends_does_not_keep_later_calls_from_a_token(
    later: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_source, "PATIENCE", 0.01)
    monkeypatch.setattr(token_source, "LONGEST_RENEWAL", 0.2)
    source = Source(1000, 1000)
    assert await source.token() == "token 1"
    later(900)
    source.gate = asyncio.Event()  # the server's answer is lost
    assert await source.token() == "token 1"
    later(200)  # it has expired
    with pytest.raises(KafkaConnectionError, match=r"<Source> got no token within 0\.2 s"):
        async with asyncio.timeout(60):
            await source.token()
    source.gate = None
    assert await source.token() == "token 3"


@pytest.mark.parametrize("error", [OSError("the secret's file is away"), asyncio.CancelledError()])
async def test_valid_token_stays_in_use_if_its_renewal_fails_in_any_way(
    later: Any, error: Any
) -> None:
    source = Source(1000, error, 1000)
    await source.token()
    later(800)
    assert [await source.token() for _ in range(2)] == ["token 1"] * 2
    assert source.fetched == 2
    later(11)
    assert await source.token() == "token 3"


@pytest.mark.parametrize("error", [AuthenticationFailedError("no"), KafkaConnectionError("down")])
async def test_error_is_raised_if_no_token_is_valid(later: Any, error: Exception) -> None:
    source = Source(1000, error, 1000)
    await source.token()
    later(1001)
    with pytest.raises(type(error)):
        await source.token()
    assert await source.token() == "token 3"


def test_one_source_serves_clients_in_several_event_loops() -> None:
    source = Source(1000, 1000)
    assert asyncio.run(source.token()) == "token 1"
    assert asyncio.run(source.token()) == "token 1"


async def test_extensions_are_returned() -> None:
    assert Source(extensions={"logicalCluster": "lkc-1"}).extensions() == {
        "logicalCluster": "lkc-1"
    }


def jwt(claims: object) -> str:
    return "e30." + base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=") + "."


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (jwt({"iat": 1, "exp": 2.5}), (1, 2.5)),
        (jwt({"exp": "2"}), (None, None)),
        (jwt({"exp": True}), (None, None)),
        (jwt({"exp": -1}), (None, None)),
        (jwt({"exp": 1e300}), (None, None)),
        (jwt([1]), (None, None)),
        ("opaque", (None, None)),
        ("a.b.c", (None, None)),
        ("e30.\N{SNOWMAN}.", (None, None)),
        ("e30." + base64.urlsafe_b64encode(b"[" * 100_000).decode() + ".", (None, None)),
        ("e30." + base64.urlsafe_b64encode(b'{"exp":' + b"9" * 5_000 + b"}").decode() + ".",
         (None, None)),
    ],
)  # fmt: skip
def test_times_of_a_jwt(token: str, expected: tuple[float | None, float | None]) -> None:
    assert jwt_times(token) == expected
