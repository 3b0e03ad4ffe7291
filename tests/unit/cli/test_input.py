"""How commands read files, pipes and FIFOs."""

import asyncio
import os
from pathlib import Path

import pytest

from aiokafka_lite.cli.failures import CommandError
from aiokafka_lite.cli.streams.input import read_chunks, read_text

pytestmark = pytest.mark.timeout(20)


async def contents(file: Path, until: asyncio.Future[None] | None = None) -> bytes:
    return b"".join([chunk async for chunk in read_chunks([str(file)], until)])


async def test_a_fifo_is_read_once_it_has_a_writer(tmp_path: Path) -> None:
    fifo = tmp_path / "lines"
    os.mkfifo(fifo)
    reading = asyncio.create_task(contents(fifo))
    await asyncio.sleep(0.05)  # returns only if the event loop is not blocked
    assert not reading.done()
    with fifo.open("wb", buffering=0) as writer:
        writer.write(b"one\n")
        await asyncio.sleep(0.05)
        assert not reading.done()
        writer.write(b"two\n")
    assert await reading == b"one\ntwo\n"


async def test_waiting_for_the_writer_of_a_fifo_can_be_ended(tmp_path: Path) -> None:
    fifo = tmp_path / "lines"
    os.mkfifo(fifo)
    until = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(contents(fifo, until))
    await asyncio.sleep(0.05)
    until.set_result(None)
    assert await reading == b""


async def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(bytes(200_000))
    assert await contents(file) == bytes(200_000)


async def test_text_is_read_from_a_fifo_without_blocking_the_event_loop(tmp_path: Path) -> None:
    fifo = tmp_path / "plan"
    os.mkfifo(fifo)
    reading = asyncio.create_task(read_text(str(fifo)))
    await asyncio.sleep(0.05)
    with fifo.open("w", encoding="utf-8") as writer:
        writer.write("größer\n")
    assert await reading == "größer\n"


async def test_text_that_is_not_utf_8_raises(tmp_path: Path) -> None:
    file = tmp_path / "plan"
    file.write_bytes(b"gr\xf6\xdfer")
    with pytest.raises(CommandError, match=r"plan: not UTF-8: .*0xf6"):
        await read_text(str(file))
