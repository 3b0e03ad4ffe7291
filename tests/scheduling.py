"""Decides which tests of a parallel run share a process: those of a file, and those on three
nodes."""

import functools
import re
from pathlib import Path
from typing import Any

_THREE_NODES = re.compile(r"\b(kafka3|topic3|compare3)\b")


@functools.cache
def on_three_nodes(path: str) -> bool:
    """True if the file uses the cluster of three nodes that a process shares."""
    return _THREE_NODES.search(Path(path).read_text()) is not None


def by_cluster(config: Any, log: Any) -> Any:
    """A `--dist loadfile` that runs all files on three nodes in the same process.

    Each process has its own clusters, and three idle brokers take a tenth of a core.

    Args:
        config: pytest's configuration.
        log: What pytest-xdist logs to.
    """
    from xdist.scheduler import LoadFileScheduling

    class ByCluster(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "three nodes" if on_three_nodes(str(config.rootpath / file)) else file

    return ByCluster(config, log)
