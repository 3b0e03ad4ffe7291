"""Writing to a pipe that nothing reads."""

import asyncio
import gc
import os
import sys
from typing import Any

import pytest

from aiokafka_lite.cli.streams import stdout
from aiokafka_lite.cli.streams.stdout import Stdout


async def test_write_that_was_given_up_leaves_no_exception_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    monkeypatch.setattr(stdout, "LAST_WORD", 0.01)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        task = asyncio.create_task(Stdout().write(b"x" * 1_000_000))  # larger than a pipe
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        os.close(reading)  # the thread's write fails only now
        await stdout._threads.run(loop, int)  # there is one thread: the write has ended
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert reported == []
