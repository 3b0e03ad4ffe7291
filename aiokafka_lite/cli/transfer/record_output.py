"""Writes records to standard output in a format, and reports those that cannot be written in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from aiokafka_lite.cli.failures import complain
from aiokafka_lite.cli.formats.writing import Record, RecordWriter
from aiokafka_lite.cli.streams.stdout import Stdout

__all__ = ["RecordOutput"]

PIECE: Final = 60_000
"""Approximate bytes of one piece. The C library returns the memory of larger pieces to the
system each time, and allocating it again costs a page fault for each page: together, this costs
more than decoding the records."""
MOST: Final = 2048
"""Records of one piece."""

R = TypeVar("R", bound=Record)


class RecordOutput:
    """The output of `consume`.

    Args:
        write: Writes records; it raises ValueError for one that it cannot write.

    Attributes:
        stdout: Standard output.
        failures: Number of records that could not be written.
    """

    def __init__(self, write: RecordWriter) -> None:
        self._write = write
        self._at_once = 64  # records of one piece
        self.stdout = Stdout()
        self.failures = 0

    async def write(self, records: Sequence[R]) -> Sequence[R]:
        """Write consecutive records of one partition, and return those that were written.

        Raises:
            ClosedPipe: The reader of stdout closed the pipe.
            OSError: The disk is full, for example.

        Cancellation: as for `Stdout.write`.
        """
        written: list[R] = []
        at = 0
        while at < len(records):
            some = records[at : at + self._at_once]
            at += len(some)
            try:
                data = self._write(some)
                written += some
            except ValueError:
                data, fitting = self._what_fits(some)
                written += fitting
            await self.stdout.write(data)
            self._at_once = max(1, min(len(some) * PIECE // max(1, len(data)), MOST))
        return written

    def _what_fits(self, records: Sequence[R]) -> tuple[bytes, Sequence[R]]:
        out, written = [], []
        for record in records:
            try:
                out.append(self._write([record]))
            except ValueError as error:
                self.failures += 1
                complain("consume", error)
            else:
                written.append(record)
        return b"".join(out), written
