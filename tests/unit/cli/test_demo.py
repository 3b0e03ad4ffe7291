"""The demo fails if a record is lost, duplicated or changed."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.cli import main
from aiokafka_lite.cli.commands import demo_command

Send = Callable[..., Awaitable[Any]]


def arguments(**changes: Any) -> argparse.Namespace:
    return argparse.Namespace(
        **{"bootstrap": None, "records": 3000, "tasks": 50, "size": 64, **changes}
    )


def test_demo_reads_every_record_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--records", "3000", "--tasks", "50"]) == 0
    assert "OK: every record came back once" in capsys.readouterr().out


def corrupting(monkeypatch: pytest.MonkeyPatch, how: Callable[[Send], Send]) -> None:
    """Make the demo's producer mishandle the last record of one coroutine."""
    original = AIOKafkaProducer.send

    async def send(self: AIOKafkaProducer, topic: str, value: bytes, key: bytes) -> Any:
        if key == demo_command.Ledger.key(7) and b"#00000059" in value:
            return await how(original)(self, topic, value, key)
        return await original(self, topic, value, key)

    monkeypatch.setattr(AIOKafkaProducer, "send", send)


def twice(send: Send) -> Send:
    async def sent_twice(self: Any, topic: str, value: bytes, key: bytes) -> Any:
        await send(self, topic, value, key)
        return await send(self, topic, value, key)

    return sent_twice


def changed(send: Send) -> Send:
    return lambda self, topic, value, key: send(self, topic, value[:-1] + b"?", key)


def under_another_key(send: Send) -> Send:
    return lambda self, topic, value, key: send(self, topic, value, b"a stranger")


@pytest.mark.parametrize("how", [twice, changed, under_another_key])
def test_unexpected_records_are_reported(
    how: Callable[[Send], Send],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    corrupting(monkeypatch, how)
    assert demo_command.run(arguments()) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out
    assert "unexpected" in out


def test_missing_record_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def done(_: object = None) -> None:
        return None

    def never_sent(_: Send) -> Send:
        async def pretend(*_: object) -> Awaitable[None]:
            return done()

        return pretend

    monkeypatch.setattr(demo_command, "PATIENCE", 1.0)
    corrupting(monkeypatch, never_sent)
    assert demo_command.run(arguments()) == 1
    assert "1 records missing" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [{"records": 0}, {"tasks": 0}, {"size": 8}])
def test_invalid_arguments_exit_with_status_2(
    wrong: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo_command.run(arguments(**wrong)) == 2
    assert "at least" in capsys.readouterr().err
