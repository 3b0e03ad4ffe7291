"""One workload of an endurance piece, in its own process; `endurance` starts it.

    python -m tests.faults.endurance_lane LANE BOOTSTRAP VERSION FOLDER

LANE is "producer", "group", "exactly-once", "share", "recreated", "spark" or "steady". The first
four are the workloads of the chaos runs, with the same ledgers; the environment variables of those
(CHAOS_SEED, CHAOS_MINUTES, CHAOS_RECORDS, ...) configure them. Their processes are killed, stopped
and restarted here; the brokers' faults happen elsewhere, and are read from FOLDER/../faults.jsonl
at the end.
"recreated" deletes and creates its topic under all kinds of clients (see `recreated_topic`).
"spark" is a stream that copies a topic exactly once, and whose driver is killed (see `spark_lane`).
"steady" is a service without faults: its memory, descriptors and tasks must not grow. The exit
status is 1 if there was a problem; the output describes it.
"""

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aiokafka_lite import AIOKafkaAdminClient
from aiokafka_lite.admin import NewTopic
from aiokafka_lite.errors import TopicAlreadyExistsError
from tests.faults.endurance_steady import serve
from tests.faults.recreated_topic import play_recreations
from tests.faults.schedule import Happenings
from tests.faults.stages import Real
from tools.kafka.releases import release

__all__ = ["LANES", "FarStage"]

LANES = ("producer", "group", "exactly-once", "share", "recreated", "spark", "steady")
COUNTS = "faults.json"
"""The file with the faults by kind that a lane caused itself."""
FAULTS = "faults.jsonl"
"""The file with the faults that ended: `{"node": 1, "begin": ns, "end": ns}` a line."""
CREATE = 60.0  # seconds that creating a topic may take


class FarStage(Real):
    """The brokers of another process, which injects the faults; a fault here is only a pause."""

    def __init__(self, bootstrap: str, version: str, folder: Path) -> None:
        self._folder = folder
        kafka: Any = SimpleNamespace(
            bootstrap_servers=bootstrap,
            node_ids=[0, 1, 2],
            release=release(version),
            create_topic=lambda *spec: asyncio.run(_create(bootstrap, *spec)),
        )
        super().__init__(kafka, [], 0)

    def __getattribute__(self, name: str) -> Any:
        if name in _FAULTS:
            return _pause
        return super().__getattribute__(name)

    def report_faults(self) -> None:
        """Report all faults so far to the watches."""
        path = self._folder / FAULTS
        for line in path.read_text().splitlines() if path.exists() else ():
            fault = json.loads(line)
            for tell in self.watches:
                tell(fault["node"], fault["begin"], fault["end"])


_FAULTS = frozenset(
    {"kill", "kill_for_long", "outage", "freeze", "freeze_all", "restart", "lead_elsewhere"}
    | {"move_coordinator", "move_coordinators", "grow", "cut", "delay", "stall"}
    | {"isolate", "reassign", "fill_disk", "jump_broker", "jump_clients"}
)


class LaneHappenings(Happenings):
    """The events of a lane, without the faults of brokers, which happen elsewhere."""

    def tell(self, what: str) -> None:
        """Print what happened in this process."""
        if what.split()[0] not in _FAULTS:
            super().tell(what)


async def _pause(node: int, seconds: float) -> None:
    await asyncio.sleep(seconds)


async def _create(
    bootstrap: str,
    topic: str,
    partitions: int = 1,
    replication_factor: int | None = None,
    config: dict[str, Any] | None = None,
) -> None:
    """Create a topic, while brokers may have faults."""
    configs = {name: str(value) for name, value in (config or {}).items()}
    new = NewTopic(topic, partitions, replication_factor or 3, topic_configs=configs)
    async with AIOKafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        # An attempt that got no answer may have created it.
        with contextlib.suppress(TopicAlreadyExistsError):
            (await admin.create_topics([new], timeout_ms=int(CREATE * 1000))).raise_for_errors()


async def _play(lane: str, bootstrap: str, version: str, folder: Path) -> list[str]:
    stage, happenings = FarStage(bootstrap, version, folder.parent), LaneHappenings()
    if lane == "producer":
        from tests.faults.test_chaos_producer import produce_and_judge

        return await produce_and_judge(stage, happenings)
    if lane == "group":
        from tests.faults.test_chaos_consumer import MODES, judge, play_group

        fleet, ends = await play_group(stage, MODES[0], 0, folder, happenings)
        return judge(fleet, ends, MODES[0], happenings)
    if lane == "exactly-once":
        from tests.faults.test_exactly_once_judged import process_all

        return await process_all(stage, folder, happenings)
    if lane == "share":
        from tests.faults.test_chaos_share import play_share_group

        return await play_share_group(stage, folder, happenings, stage.report_faults)
    if lane == "recreated":
        modern = stage.kafka.release.number >= (4,)
        seconds = float(os.environ["CHAOS_MINUTES"]) * 60
        seed = int(os.environ["CHAOS_SEED"])
        wrong = await play_recreations(
            bootstrap, seed, seconds, happenings, share=modern, modern=modern
        )
        (folder / COUNTS).write_text(json.dumps({"recreate": happenings.count["recreate"]}))
        return wrong
    if lane == "spark":
        from tests.faults.spark_lane import play_spark

        wrong = await play_spark(stage, folder, int(os.environ["CHAOS_SEED"]), happenings)
        (folder / COUNTS).write_text(json.dumps({"kill_driver": happenings.count["kill_driver"]}))
        return wrong
    return await serve(bootstrap, stage.kafka.release.number >= (4,), happenings)


def main() -> int:
    """Run the lane; see the module docstring."""
    lane, bootstrap, version, folder = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    began = time.monotonic()
    wrong = asyncio.run(_play(lane, bootstrap, version, Path(folder)))
    for each in wrong[:60]:
        print(f"WRONG: {each}")
    print(f"{lane}: {len(wrong)} wrong, {time.monotonic() - began:.0f} s", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
