"""The demo's display: live progress bars on a terminal with rich, otherwise plain lines."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

REFRESH = 0.1  # seconds between two updates
PLAIN_REFRESH = 1.0  # seconds between two lines without a terminal
RECENT = 20_000  # records whose latencies an update shows


@dataclass(slots=True)
class Progress:
    """The progress of the demo; written by its producer and consumer, read by the display.

    `latencies` are seconds from a record's `send` to its acknowledgement.
    """

    total: int
    acked: int = 0
    read: int = 0
    began: float = field(default_factory=time.perf_counter)
    produced_in: float | None = None  # seconds, once all records are acknowledged
    read_in: float | None = None
    latencies: list[float] = field(default_factory=list)

    def produce_rate(self) -> float:
        return self.acked / max(1e-9, self.produced_in or time.perf_counter() - self.began)

    def read_rate(self) -> float:
        return self.read / max(1e-9, self.read_in or time.perf_counter() - self.began)

    def percentiles(self, *shares: float, newest: int | None = None) -> list[float]:
        """Return the send-to-ack latency in ms at each of `shares` (0..1), over `newest` or all."""
        window = sorted(self.latencies[-newest:] if newest else self.latencies) or [0.0]
        return [window[min(len(window) - 1, int(len(window) * share))] * 1e3 for share in shares]

    def line(self) -> str:
        p50, p99 = self.percentiles(0.5, 0.99, newest=RECENT)
        return (
            f"acknowledged {self.acked:>9,} ({self.produce_rate():>9,.0f}/s)   "
            f"read back {self.read:>9,} ({self.read_rate():>9,.0f}/s)   "
            f"ack p50 {p50:6.2f} ms  p99 {p99:6.2f} ms"
        )


@asynccontextmanager
async def live(progress: Progress) -> AsyncIterator[None]:
    """Show `progress` while the body runs; the last update stays."""
    try:
        import rich  # noqa: F401 - only to learn whether it is there

        fancy = sys.stdout.isatty()
    except ModuleNotFoundError:
        fancy = False
    task = asyncio.create_task(_rich(progress) if fancy else _plain(progress), name="demo display")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _plain(progress: Progress) -> None:
    try:
        while True:
            await asyncio.sleep(PLAIN_REFRESH)
            print(progress.line(), flush=True)
    finally:
        print(progress.line(), flush=True)


async def _rich(progress: Progress) -> None:
    from rich.live import Live

    with Live(_picture(progress), refresh_per_second=1 / REFRESH, auto_refresh=False) as screen:
        try:
            while True:
                await asyncio.sleep(REFRESH)
                screen.update(_picture(progress), refresh=True)
        finally:
            screen.update(_picture(progress), refresh=True)


def _picture(progress: Progress) -> RenderableType:
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", min_width=12)
    table.add_column(width=40)
    table.add_column(justify="right", min_width=9)
    table.add_column(justify="right", min_width=14)
    for name, done, rate in (
        ("acknowledged", progress.acked, progress.produce_rate()),
        ("read back", progress.read, progress.read_rate()),
    ):
        bar = ProgressBar(total=progress.total, completed=done, width=40)
        table.add_row(name, bar, f"{done:,}", f"{rate:,.0f} rec/s")
    p50, p99, worst = progress.percentiles(0.5, 0.99, 1.0, newest=RECENT)
    table.add_row("send to ack", f"p50 {p50:.2f} ms   p99 {p99:.2f} ms   max {worst:.2f} ms")
    return Panel(table, title="aiokafka_lite demo", expand=False)
