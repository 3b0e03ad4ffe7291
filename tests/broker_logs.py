"""The log output of brokers during a failed test, as sections of its report."""

import re
from collections.abc import Iterator
from typing import Final

from tools.kafka import OwnCluster

LINES: Final = 60
"""Lines of each broker in a report: the last ones."""

WIDTH: Final = 400
"""Characters of a line in a report."""

_TELLING: Final = re.compile(
    r" (?:WARN|ERROR|FATAL) (?!NetworkClient )|ISR|leader epoch|fenced|Kafka Server started"
)


class LogMarks:
    """The ends of the logs of a cluster's brokers at one instant.

    Args:
        cluster: It runs at least as long as the marks are used.
    """

    def __init__(self, cluster: OwnCluster) -> None:
        self._cluster = cluster
        self._ends = {node_id: len(cluster.log(node_id)) for node_id in cluster.node_ids}

    def sections(self) -> Iterator[tuple[str, str]]:
        """Title and text for each broker: warnings, errors and changes of leaders since then."""
        for node_id, end in self._ends.items():
            told = self._cluster.log(node_id)[end:].splitlines()
            telling = [line[:WIDTH] for line in told if _TELLING.search(line)]
            yield f"Broker {node_id}'s log", "\n".join(telling[-LINES:])
