"""Writes records to standard output in a format, and reports those that do not fit it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from aiokafka_lite.cli.failures import complain
from aiokafka_lite.cli.formats.writing import Record, RecordWriter
from aiokafka_lite.cli.streams.stdout import Stdout

__all__ = ["RecordOutput"]

R = TypeVar("R", bound=Record)


class RecordOutput:
    """Where `consume` writes.

    Args:
        write: Writes records; it raises ValueError for one that does not fit.

    Attributes:
        stdout: Standard output.
        failures: How many records could not be written.
    """

    def __init__(self, write: RecordWriter) -> None:
        self._write = write
        self.stdout = Stdout()
        self.failures = 0

    async def write(self, records: Sequence[R]) -> Sequence[R]:
        """Write consecutive records of one partition, and return those that were written.

        Raises:
            ClosedPipe: The reader of stdout is gone.
            OSError: The disk is full, for example.

        Cancellation: as for `Stdout.write`.
        """
        try:
            data, written = self._write(records), records
        except ValueError:
            data, written = self._what_fits(records)
        await self.stdout.write(data)
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
