"""`cluster info|brokers|health`: describes the cluster."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import Actions, report, run_action
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import FAILED, OK

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite cluster info
  aiokafka-lite cluster brokers -o json
  aiokafka-lite cluster health            status 1 while a partition lacks its leader or a replica
  aiokafka-lite cluster health -w         wait until it is healthy
"""

LOOK_EVERY: Final = 1.0
"""Seconds between two looks of `health -w`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `cluster`."""
    actions = Actions(parser)
    actions.add("info", "print the cluster's id, its controller, and counts", _info)
    actions.add("brokers", "list the brokers", _brokers)
    health = actions.add("health", "list partitions without a leader or out of sync", _health)
    health.add_argument("-w", "--watch", action="store_true", help="wait until there are none")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return run_action("cluster", args)


async def _info(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    cluster = await admin.describe_cluster(typed=True)
    topics = await admin.describe_topics(typed=True)
    row = {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "brokers": len(cluster.brokers),
        "topics": len(topics.valid()),
        "partitions": sum(len(topic.partitions) for topic in topics.valid().values()),
    }
    Output(args).rows(list(row), [row])
    return report("cluster", topics.errors())


async def _brokers(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    cluster = await admin.describe_cluster(typed=True)
    rows: list[dict[str, Any]] = [
        {
            "broker": each.node_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "controller": each.node_id == cluster.controller_id,
        }
        for each in sorted(cluster.brokers.values(), key=lambda broker: broker.node_id)
    ]
    Output(args).rows(["broker", "host", "port", "rack", "controller"], rows)
    return OK


async def _health(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    while True:
        topics = await admin.describe_topics(typed=True)
        rows: list[dict[str, Any]] = []
        for topic in topics.valid().values():
            for each in topic.partitions.values():
                missing = sorted(set(each.replicas) - set(each.isr))
                if each.leader is None or missing:
                    rows.append(
                        {
                            "topic": topic.name,
                            "partition": each.partition,
                            "problem": "no leader" if each.leader is None else "out of sync",
                            "replicas": each.replicas,
                            "missing": missing,
                        }
                    )
        healthy = not rows and not topics.errors()
        if healthy or not args.watch:
            break
        await asyncio.sleep(LOOK_EVERY)
    Output(args).rows(["topic", "partition", "problem", "replicas", "missing"], rows)
    report("cluster", topics.errors())
    return OK if healthy else FAILED
