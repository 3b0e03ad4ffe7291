"""Measures the cost of OpenTelemetry per sent record: none, API only, unsampled, and sampled.

    .venv/bin/python -m benchmarks.otel_cost [--records 20000] [--rounds 5]

The cost is the CPU of the sending thread in microseconds per record. The embedded broker runs in
another thread. Each round runs the rows in rotated order. The figures are the minima of the rounds.
"""

import argparse
import asyncio
import time

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import NoOpTracerProvider

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.otel import instrument
from aiokafka_lite.testing import FakeCluster

ROWS = {
    "not instrumented": None,
    "API without SDK": (NoOpTracerProvider, NoOpMeterProvider),
    "unsampled, no metrics": (lambda: TracerProvider(ALWAYS_OFF), NoOpMeterProvider),
    "unsampled, metrics": (lambda: TracerProvider(ALWAYS_OFF), MeterProvider),
    "sampled, metrics": (lambda: TracerProvider(ALWAYS_ON), MeterProvider),
}


async def measure(row: str, servers: str, records: int) -> float:
    """Return the CPU microseconds per record."""
    producer = AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5)
    providers = ROWS[row]
    if providers is not None:
        tracers, meters = providers
        instrument(producer, tracer_provider=tracers(), meter_provider=meters())
    value = b"x" * 100
    async with producer:
        await producer.send_and_wait("orders", value)
        began = time.thread_time()
        for _ in range(records):
            await producer.send("orders", value)
        await producer.flush()
        return 1e6 * (time.thread_time() - began) / records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {row: [] for row in ROWS}
    with FakeCluster(topics={"orders": 1}) as cluster:
        for turn in range(arguments.rounds):
            rows = list(ROWS)
            for row in rows[turn % len(rows) :] + rows[: turn % len(rows)]:
                cost = asyncio.run(measure(row, cluster.bootstrap_servers, arguments.records))
                found[row].append(cost)
    for row, costs in found.items():
        print(f"{row:24} {min(costs):6.2f} us")


if __name__ == "__main__":
    main()
