"""Formats the KRaft storage of new nodes, with Kafka's own tool or from a copy of its output.

The tool starts a JVM for each node, which takes half of the time until a small cluster responds.
Its output depends on the release and a few settings; one file contains the ids.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.kafka import config, jars, jvm
from tools.kafka.broker import BrokerFailed
from tools.kafka.config import Node
from tools.kafka.process import Child
from tools.kafka.releases import Release

_TIMEOUT = 120.0  # seconds
_LAYOUT = "1"  # change it whenever the content of a copy changes
_NEEDS_TOOL = ("process.", "controller.", "metadata.", "unstable.", "inter.broker.", "log.dir")


def format_nodes(
    release: Release,
    nodes: Sequence[Node],
    settings: Mapping[str, object],
    arguments: Sequence[str],
) -> None:
    """Format the storage of every node of a new cluster.

    Args:
        release: The Kafka release.
        nodes: The nodes; their server.properties must already exist.
        settings: Broker settings that differ from the harness's.
        arguments: Further arguments of the tool, such as SCRAM users.

    Raises:
        BrokerFailed: The tool fails; the message contains its output.
    """
    cluster_id = _random_id()
    _format(release, nodes, settings, arguments, cluster_id)
    for node in nodes:
        for folder in node.more_data:
            shutil.copy(node.folder / "data" / "meta.properties", folder)
            _write_ids(folder, node, cluster_id)


def _format(
    release: Release,
    nodes: Sequence[Node],
    settings: Mapping[str, object],
    arguments: Sequence[str],
    cluster_id: str,
) -> None:
    plain = not arguments and not any(name.startswith(_NEEDS_TOOL) for name in settings)
    if not plain:
        _run_tool(release, nodes, cluster_id, arguments)
        return
    kept = _kept(release)
    with jars.lock(f"format-{release.version}"):
        if not kept.is_dir():
            _run_tool(release, nodes[:1], cluster_id, ())
            _keep(nodes[0], kept)
            nodes = nodes[1:]
    for node in nodes:
        _copy(kept, node, cluster_id)


def _run_tool(
    release: Release, nodes: Sequence[Node], cluster_id: str, arguments: Sequence[str]
) -> None:
    """Format all nodes at the same time."""
    options = [*jvm.options(release.version), "-Xmx128m"]
    class_path = jars.class_path(release.version)
    tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, *arguments]
    formatting: list[tuple[Node, Child]] = []
    for node in nodes:
        logging = config.logging_option(release, node.folder)
        command = [jars.java(), *options, logging, "-cp", class_path, *tool]
        formatting.append((node, Child([*command, "-c", str(node.properties)], node.log)))
    for node, child in formatting:
        if child.wait(_TIMEOUT) != 0:
            raise BrokerFailed(f"formatting node {node.node_id} failed:\n{child.tail()}")


def _kept(release: Release) -> Path:
    """The path of the copy of a release's formatted storage."""
    named = f"{_LAYOUT} {jars.class_path(release.version)}"
    digest = hashlib.sha256(named.encode()).hexdigest()[:10]
    return jars.cache_dir() / "formatted" / f"{release.version}-{digest}"


def _keep(node: Node, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        shutil.copytree(node.folder / "data", Path(scratch) / "data")
        (Path(scratch) / "data").rename(kept)


def _copy(kept: Path, node: Node, cluster_id: str) -> None:
    """Copy the storage, and write the ids of this node into it."""
    data = node.folder / "data"
    shutil.copytree(kept, data)
    _write_ids(data, node, cluster_id)


def _write_ids(folder: Path, node: Node, cluster_id: str) -> None:
    """Write the ids of a node, and a new one of the folder, into its meta.properties."""
    path = folder / "meta.properties"
    ids = {"cluster.id": cluster_id, "node.id": node.node_id, "directory.id": _random_id()}
    names = [line.partition("=")[0] for line in path.read_text().splitlines()]
    config.write_properties(
        path, {"version": 1, **{name: value for name, value in ids.items() if name in names}}
    )


def _random_id() -> str:
    """A UUID as Kafka writes it; the tool would parse one that begins with '-' as an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
        if not made.startswith("-"):
            return made
