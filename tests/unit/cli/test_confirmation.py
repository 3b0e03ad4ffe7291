"""The prompt of destructive actions."""

import argparse
import asyncio
import os
from collections.abc import Callable, Iterator

import pytest

from aiokafka_lite.cli.administration.confirmation import confirmed

pytestmark = pytest.mark.timeout(20)

PLAN = ["delete topic orders"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Makes stdin and stderr a terminal, and returns the user's side of it."""
    user, command = os.openpty()
    with os.fdopen(command) as stdin, os.fdopen(os.dup(command), "w") as stderr:

        def replace() -> int:  # by the test, because pytest sets both again before it
            monkeypatch.setattr("sys.stdin", stdin)
            monkeypatch.setattr("sys.stderr", stderr)
            return user

        yield replace
    os.close(user)


async def asked(user: int) -> asyncio.Task[bool]:
    """Ask for confirmation, and read the prompt."""
    args = argparse.Namespace(yes=False, dry_run=False)
    answer = asyncio.create_task(confirmed(args, PLAN))
    await asyncio.sleep(0.01)  # returns only if the event loop is not blocked
    assert os.read(user, 4096) == b"delete topic orders\r\nProceed? [y/N] "
    return answer


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (b"y\n", True),
        (b"YES\n", True),
        (b" yes \n", True),
        (b"\n", False),
        (b"n\n", False),
        (b"yesterday\n", False),
        (b"\x04", False),  # Ctrl-D: the end of the input
        (b"y\x04\x04", True),  # the first one only sends the line as it is
    ],
)
async def test_only_yes_confirms(terminal: Callable[[], int], typed: bytes, expected: bool) -> None:
    user = terminal()
    answer = await asked(user)
    for each in typed:
        os.write(user, bytes([each]))
        await asyncio.sleep(0.01)
    assert await answer is expected


async def test_unfinished_line_is_no_answer(terminal: Callable[[], int]) -> None:
    user = terminal()
    answer = await asked(user)
    os.write(user, b"y")
    await asyncio.sleep(0.05)
    assert not answer.done()
    os.write(user, b"\n")
    assert await answer


async def test_prompt_can_be_cancelled(terminal: Callable[[], int]) -> None:
    user = terminal()
    answer = await asked(user)
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    again = await asked(user)
    os.write(user, b"y\n")
    assert await again
