"""Looks up topics, partitions and offsets for a command, and never creates a topic."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiokafka_lite.cli.connection.admin import CONNECTION_ARGUMENTS
from aiokafka_lite.cli.failures import CommandError, UsageError
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import KafkaTimeoutError
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient

__all__ = ["Lookup", "open_lookup"]

METADATA_MS: Final = 300_000
"""The default maximum age of the metadata."""
_CLOSE_WITHIN: Final = 1.0
_OF_CONNECTIONS: Final = (
    *CONNECTION_ARGUMENTS,
    "reconnect_backoff_max_ms",
    "reconnect_backoff_ms",
    "socket_connection_setup_timeout_max_ms",
    "socket_connection_setup_timeout_ms",
)


class Lookup:
    """Asks a cluster about topics and offsets.

    Args:
        cluster: Started; it creates no topics.
        timeout: Seconds for each lookup.
    """

    def __init__(self, cluster: Cluster, timeout: float) -> None:
        self.cluster = cluster
        self._timeout = timeout

    def admin(self) -> AIOKafkaAdminClient:
        """Return an admin client over the same connections. It need not be closed."""
        from aiokafka_lite.admin.client import AIOKafkaAdminClient
        from aiokafka_lite.client import AIOKafkaClient

        client = AIOKafkaClient.of(self.cluster, self._timeout, asyncio.get_running_loop())
        return AIOKafkaAdminClient.of(client, default_api_timeout_ms=self._timeout * 1000)

    async def partitions(self, names: Collection[str]) -> dict[str, list[int]]:
        """Return the partition numbers of each topic.

        Raises:
            CommandError: A topic does not exist, or cannot be described.
        """
        self.cluster.set_topics(names)
        deadline = self.deadline()
        while True:
            known = (await self.cluster.refresh(deadline)).topics
            missing = [name for name in names if name not in known or not known[name].partitions]
            if not missing:
                return {name: sorted(known[name].partitions) for name in names}
            topic = known.get(missing[0])
            error = None if topic is None else topic.error
            # A topic that was just created may have no leader yet.
            if error is None or topic is None or topic.refused or "UnknownTopic" in error.__name__:
                reason = "does not exist" if error is None else _reason(error)
                raise CommandError(f"topic {missing[0]!r} {reason}")
            if asyncio.get_running_loop().time() + 0.1 > deadline:
                raise KafkaTimeoutError(f"topic {missing[0]!r} has no leader ({error.__name__})")
            await asyncio.sleep(0.1)

    async def matching(self, patterns: Collection[str]) -> list[str]:
        """Return the topics that one of the regular expressions matches completely, sorted.

        Internal topics match only a pattern that begins with two underscores.

        Raises:
            UsageError: A pattern is not a regular expression.
            CommandError: No topic matches.
        """
        try:
            for pattern in patterns:
                re.compile(pattern)
        except re.error as error:
            raise UsageError(
                f"{' '.join(patterns)!r} is not a regular expression: {error}"
            ) from None
        self.cluster.set_topics(None)
        await self.cluster.refresh(self.deadline())
        found = self.known_matching(patterns)
        if not found:
            raise CommandError(f"no topic matches {' '.join(patterns)!r}")
        return found

    def known_matching(self, patterns: Collection[str]) -> list[str]:
        """Return the matching topics that the cluster had at the last refresh; sends nothing."""
        compiled = [re.compile(pattern) for pattern in patterns]
        internal = any(pattern.lstrip("^").startswith("__") for pattern in patterns)
        return sorted(
            name
            for name, topic in self.cluster.metadata.topics.items()
            if (internal or not topic.is_internal)
            and any(each.fullmatch(name) for each in compiled)
        )

    async def offsets(
        self, times: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the offset of each partition at a time in ms, or at `EARLIEST` or `LATEST`.

        Args:
            times: What to look up.
            committed: `LATEST` is the last stable offset.

        Returns:
            -1 for a partition without a record at or after the time.
        """
        from aiokafka_lite.consumer.consumer_options import IsolationLevel
        from aiokafka_lite.consumer.offsets.queries import offsets_at

        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        search = any(time >= 0 for time in times.values())
        found = await offsets_at(
            self.cluster, times, self.deadline(), isolation=level, search=search
        )
        return {tp: found[tp].offset for tp in times}

    def deadline(self) -> float:
        """Return the deadline of a lookup that begins now."""
        return asyncio.get_running_loop().time() + self._timeout


@asynccontextmanager
async def open_lookup(arguments: Mapping[str, Any], timeout: float) -> AsyncIterator[Lookup]:
    """Connect to a cluster with a client's arguments, and close the connections at the end.

    Raises:
        KafkaConnectionError: No bootstrap address answered.
    """
    given = {name: arguments[name] for name in _OF_CONNECTIONS if name in arguments}
    defaults: dict[str, Any] = {
        "connections_max_idle_ms": 540_000,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": None,
        "sasl_plain_password": None,
        "sasl_oauth_token_provider": None,
        "sasl_kerberos_domain_name": None,
        "sasl_kerberos_service_name": None,
        "ssl_context": None,
    }
    cluster = Cluster(
        arguments["bootstrap_servers"],
        connection_options(
            client_id=arguments["client_id"],
            request_timeout=arguments["request_timeout_ms"] / 1000,
            **(defaults | given),
        ),
        metadata_max_age=arguments.get("metadata_max_age_ms", METADATA_MS) / 1000,
        allow_auto_create_topics=False,
    )
    await cluster.start()
    try:
        yield Lookup(cluster, timeout)
    finally:
        await cluster.close(asyncio.get_running_loop().time() + _CLOSE_WITHIN)


def _reason(error: type[Exception]) -> str:
    if "UnknownTopic" in error.__name__:
        return "does not exist"
    return f"cannot be used: {error.__name__}"
