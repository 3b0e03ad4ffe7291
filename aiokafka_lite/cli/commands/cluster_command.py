"""`cluster info|brokers|health|quorum|features|logdirs|versions`: describes the cluster."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.administration.actions import (
    Actions,
    pairs,
    report,
    run_action,
    run_lookup,
)
from aiokafka_lite.cli.administration.confirmation import add_confirmation_flags, confirmed
from aiokafka_lite.cli.administration.output import Output
from aiokafka_lite.cli.failures import FAILED, OK, CommandError, UsageError

if TYPE_CHECKING:
    from aiokafka_lite.admin.brokers.feature_levels import FeatureMetadata
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.cli.connection.lookup import Lookup

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite cluster info
  aiokafka-lite cluster brokers -o json
  aiokafka-lite cluster health            status 1 while a partition lacks its leader or a replica
  aiokafka-lite cluster health -w         wait until it is healthy
  aiokafka-lite cluster quorum            the controllers, and how far behind they are
  aiokafka-lite cluster features --set metadata.version=30
  aiokafka-lite cluster logdirs -o wide
  aiokafka-lite cluster versions          the API versions of each broker
"""

SAMPLE_EVERY: Final = 1.0
"""Seconds between two samples of `health -w`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `cluster`."""
    actions = Actions(parser)
    actions.add("info", "print the cluster's id, its controller, and counts", _info)
    actions.add("brokers", "list the brokers", _brokers)
    health = actions.add("health", "list partitions without a leader or out of sync", _health)
    health.add_argument("-w", "--watch", action="store_true", help="wait until there are none")
    actions.add("quorum", "describe the controllers and the observers of the metadata", _quorum)
    features = actions.add("features", "list the features, or change their levels", _features)
    features.add_argument(
        "--set",
        metavar="NAME=LEVEL",
        action="append",
        default=[],
        help="finalize a level; 0 removes the feature; may be repeated",
    )
    features.add_argument(
        "--downgrade", action="store_true", help="permit a lower level, if it loses no metadata"
    )
    add_confirmation_flags(features)
    actions.add("logdirs", "list the log directories of brokers, and how full they are", _log_dirs)
    versions = actions.add("versions", "list the API versions that brokers support", None)
    versions.add_argument("--broker", metavar="ID", type=int, help="only this broker")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    if args.action == "versions":
        return run_lookup("cluster", args, _versions)
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
        await asyncio.sleep(SAMPLE_EVERY)
    Output(args).rows(["topic", "partition", "problem", "replicas", "missing"], rows)
    report("cluster", topics.errors())
    return OK if healthy else FAILED


async def _quorum(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    quorum = await admin.describe_metadata_quorum()
    leader = next((v for v in quorum.voters if v.replica_id == quorum.leader_id), None)
    end = None if leader is None else leader.log_end_offset
    rows: list[dict[str, Any]] = []
    for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for each in replicas:
            behind = None
            if end is not None and each.log_end_offset is not None:
                behind = max(0, end - each.log_end_offset)
            endpoints = quorum.endpoints.get(each.replica_id, ())
            rows.append(
                {
                    "node": each.replica_id,
                    "role": "leader" if each.replica_id == quorum.leader_id else role,
                    "log_end": each.log_end_offset,
                    "lag": behind,
                    "epoch": quorum.leader_epoch,
                    "last_caught_up_ms": each.last_caught_up_timestamp,
                    "directory_id": None if each.directory_id is None else str(each.directory_id),
                    "endpoints": [f"{at.name}://{at.host}:{at.port}" for at in endpoints],
                }
            )
    wide = ["epoch", "last_caught_up_ms", "directory_id", "endpoints"]
    Output(args).rows(["node", "role", "log_end", "lag"], rows, wide)
    return OK


async def _features(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    before = await admin.describe_features()
    if args.set:
        return await _set_features(admin, args, before)
    rows: list[dict[str, Any]] = []
    for name in sorted(before.supported.keys() | before.finalized.keys()):
        supported, finalized = before.supported.get(name), before.finalized.get(name)
        rows.append(
            {
                "feature": name,
                "level": None if finalized is None else finalized.max_level,
                "least": None if supported is None else supported.min_level,
                "most": None if supported is None else supported.max_level,
            }
        )
    Output(args).rows(["feature", "level", "least", "most"], rows)
    return OK


async def _set_features(
    admin: AIOKafkaAdminClient, args: argparse.Namespace, before: FeatureMetadata
) -> int:
    from aiokafka_lite.admin import FeatureUpdate, FeatureUpgradeType

    way = FeatureUpgradeType.SAFE_DOWNGRADE if args.downgrade else FeatureUpgradeType.UPGRADE
    updates: dict[str, FeatureUpdate] = {}
    plan = []
    for name, level in pairs("--set", args.set).items():
        if not level.isdecimal() or int(level) > 32767:
            raise UsageError(f"--set {name}={level}: a level is a number from 0 to 32767")
        if level == "0" and not args.downgrade:
            raise UsageError(f"--set {name}=0 removes the feature: add --downgrade")
        updates[name] = FeatureUpdate(int(level), way)
        now = before.finalized.get(name)
        plan.append(f"{name}: {'none' if now is None else now.max_level} -> {level}")
    if not await confirmed(args, plan):
        return OK
    return report("cluster", (await admin.update_features(updates)).errors())


async def _log_dirs(admin: AIOKafkaAdminClient, args: argparse.Namespace) -> int:
    found = await admin.describe_log_dirs()
    rows: list[dict[str, Any]] = [
        {
            "broker": node_id,
            "dir": path,
            "replicas": len(each.replicas),
            "bytes": sum(replica.size for replica in each.replicas.values()),
            "free": each.usable_bytes,
            "total": each.total_bytes,
            "moving_in": sum(replica.is_future for replica in each.replicas.values()),
            "cordoned": each.is_cordoned,
            "error": None if each.error is None else str(each.error),
        }
        for node_id, dirs in sorted(found.valid().items())
        for path, each in sorted(dirs.items())
    ]
    columns = ["broker", "dir", "replicas", "bytes", "free", "error"]
    Output(args).rows(columns, rows, ["total", "moving_in", "cordoned"])
    failed = any(row["error"] is not None for row in rows)
    return report("cluster", found.errors()) or (FAILED if failed else OK)


async def _versions(lookup: Lookup, args: argparse.Namespace) -> int:
    from aiokafka_lite.protocol.registry import ApiKey

    nodes = sorted((await lookup.cluster.refresh(lookup.deadline())).brokers)
    if args.broker is not None and args.broker not in nodes:
        raise CommandError(f"--broker {args.broker}: the cluster has the brokers {nodes}")
    names = {key.value: key.name.lower() for key in ApiKey}
    rows: list[dict[str, Any]] = []
    for node_id in nodes if args.broker is None else [args.broker]:
        async with asyncio.timeout_at(lookup.deadline()):
            connection = await lookup.cluster.broker(node_id).connection()
        versions = connection.versions
        for key in sorted(versions):
            oldest, newest = versions.range_of(key) or (0, 0)
            name = names.get(key, "unknown")
            rows.append(
                {"broker": node_id, "key": key, "api": name, "oldest": oldest, "newest": newest}
            )
    Output(args).rows(["broker", "key", "api", "oldest", "newest"], rows)
    return OK
