"""A FastStream application whose aiokafka is aiokafka_lite; prints what it did as JSON.

    python -m tests.foreign.faststream_application BOOTSTRAP_SERVERS

`import aiokafka.x` imports `aiokafka_lite.x` in this process, as if an application had replaced the
package.
"""

import asyncio
import importlib
import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Sequence
from types import ModuleType


class Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports aiokafka_lite's modules under aiokafka's names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != "aiokafka":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module(spec.name.replace("aiokafka", "aiokafka_lite", 1))

    def exec_module(self, module: ModuleType) -> None:
        """It has already been imported."""


async def application(servers: str) -> dict[str, object]:
    from aiokafka.admin import NewTopic
    from faststream.kafka import KafkaBroker

    broker = KafkaBroker(servers, client_id="faststream")
    received: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber("orders", group_id="kitchen", auto_offset_reset="earliest")
    async def cook(order: str) -> None:
        received.put_nowait(order)

    await broker.connect()
    admin = broker.config.admin_client
    created = await admin.create_topics([NewTopic("orders", 2, 1)])
    again = await admin.create_topics([NewTopic("orders", 2, 1)])
    await broker.start()
    await broker.publish("one tea", "orders")
    async with asyncio.timeout(60):
        order = await received.get()
        ping = await broker.ping(timeout=30)
    cluster = await admin.describe_cluster()
    await broker.stop()
    return {
        "admin": type(admin).__module__,
        "created": [code for _, code, *_ in created.topic_errors],
        "again": [code for _, code, *_ in again.topic_errors],
        "received": order,
        "ping": ping,
        "brokers": [each["node_id"] for each in cluster["brokers"]],
    }


def main() -> None:
    sys.meta_path.insert(0, Instead())
    print(json.dumps(asyncio.run(application(sys.argv[1]))))


if __name__ == "__main__":
    main()
