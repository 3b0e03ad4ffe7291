"""Plots throughput and p99 of `send_and_wait` from 1 to 10,000 tasks as an SVG.

    python -m benchmarks tasks-1 tasks-10 tasks-100 tasks-1000 tasks-10000
    python -m benchmarks.plot docs/send-and-wait.svg

Reads benchmarks/results, and draws two panels with logarithmic axes and one line per client,
without a drawing library. Each point is the client's best run of a suite, because on a busy
machine, the wall-clock times of other runs depend more on the machine.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from .__main__ import RESULTS

TASKS = (1, 10, 100, 1000, 10_000)
COLOURS = {
    "aiokafka_lite": "#0b6e4f",
    "aiokafka_lite, uvloop": "#6bbf59",
    "aiokafka": "#b23a48",
    "aiokafka, uvloop": "#e39695",
    "AIOProducer and a poller": "#4059ad",
}
PANELS = (("rate", "records a second", max), ("p99_ms", "p99, milliseconds", min))
WIDTH, HEIGHT, LEFT, TOP = 330, 240, 70, 50  # a panel's plot and its margins, in pixels

Points = Sequence[tuple[int, float]]


def best_runs(figure: str, best: Callable[[Iterable[float]], float]) -> Mapping[str, Points]:
    """Return (tasks, best figure) of each suite with results, by client."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for tasks in TASKS:
        path = RESULTS / f"tasks-{tasks}.json"
        if not path.exists():
            continue
        for label, runs in json.loads(path.read_text()).items():
            if runs:
                lines.setdefault(label, []).append((tasks, best(run[figure] for run in runs)))
    return lines


def panel(lines: Mapping[str, Points], title: str, left: int) -> list[str]:
    """Return the SVG elements of one plot: title, axes and lines."""
    values = [value for points in lines.values() for _, value in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(tasks: int) -> float:
        return left + WIDTH * math.log10(tasks) / math.log10(TASKS[-1])

    def y(value: float) -> float:
        return TOP + HEIGHT * (high - math.log10(value)) / (high - low)

    out = [f'<text x="{left}" y="{TOP - 12}" font-weight="bold">{title}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        label = f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
        out.append(f'<path d="M{left} {at:.1f}h{WIDTH}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{label}</text>')
    for tasks in TASKS:
        at = x(tasks)
        out.append(f'<path d="M{at:.1f} {TOP}v{HEIGHT}" stroke="#ddd"/>')
        out.append(
            f'<text x="{at:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{tasks:,}</text>'
        )
    out.append(
        f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">tasks</text>'
    )
    for label, points in lines.items():
        colour = COLOURS[label]
        path = " ".join(f"{x(tasks):.1f},{y(value):.1f}" for tasks, value in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [
            f'<circle cx="{x(tasks):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>'
            for tasks, value in points
        ]
    return out


def draw() -> str:
    """Return the SVG document.

    Raises:
        SystemExit: There are no results of the `tasks-*` suites.
    """
    body: list[str] = []
    for number, (figure, title, best) in enumerate(PANELS):
        lines = best_runs(figure, best)
        if not lines:
            raise SystemExit("run the suites first: python -m benchmarks tasks-1 ... tasks-10000")
        body += panel(lines, title, LEFT + number * (WIDTH + LEFT + 20))
    for number, label in enumerate(best_runs("rate", max)):
        at = LEFT + number * 190
        body.append(
            f'<path d="M{at} {TOP + HEIGHT + 62}h24" stroke="{COLOURS[label]}" stroke-width="3"/>'
        )
        body.append(f'<text x="{at + 30}" y="{TOP + HEIGHT + 66}">{label}</text>')
    width, height = 2 * (WIDTH + LEFT) + 50, TOP + HEIGHT + 84
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            '<text x="70" y="18">send_and_wait, 100 B, acks=all, linger 0, one broker</text>',
            *body,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].endswith(".svg"):
        raise SystemExit("usage: python -m benchmarks.plot FILE.svg")
    Path(sys.argv[1]).write_text(draw())
