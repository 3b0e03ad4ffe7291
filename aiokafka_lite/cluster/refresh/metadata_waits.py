"""The callers that wait for metadata, and the result of the last refresh.

A waiting caller waits for the end of a refresh and then checks its own condition. Cancelling one
caller does not affect another. Every wait ends: with a response, a lasting error, its deadline or
the close.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping

from aiokafka_lite.cluster.metadata import Metadata, Partition
from aiokafka_lite.errors import (
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    UnknownTopicTimeoutError,
)


class MetadataWaits:
    """Waits for the metadata of one cluster.

    Args:
        current: Returns the current metadata.
        check_open: Raises IllegalStateError if the cluster is closed or not started.

    Attributes:
        last_error: Of the last refresh; None if it succeeded.
    """

    def __init__(self, current: Callable[[], Metadata], check_open: Callable[[], None]) -> None:
        self.last_error: KafkaError | None = None
        self._current = current
        self._check_open = check_open
        self._ended = asyncio.Event()  # set, and replaced, at the end of each refresh

    def record(self, error: KafkaError | None) -> None:
        """Record the error of a refresh; None if it succeeded."""
        self.last_error = error

    def wake(self) -> None:
        """Wake all waiting callers after a refresh; each checks its own condition."""
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()

    async def for_start(self, deadline: float | None) -> None:
        """Wait for the first metadata.

        Args:
            deadline: Ignore retriable errors until this loop time; None: raise the first error.

        Raises:
            TimeoutError: None arrived in time.
            KafkaError: The error of a refresh.
            IllegalStateError: The cluster is closed or not started.
        """
        async with asyncio.timeout_at(deadline):
            while self._current().version == 0:
                await self._ended.wait()
                self._check_open()
                error = self.last_error
                if error is not None and (deadline is None or not error.retriable):
                    raise copy.copy(error)

    async def for_version(self, newer_than: int, deadline: float) -> Metadata:
        """Wait for the first metadata newer than a version; see `Cluster.wait_for_version`."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(deadline):
                self._check_open()
                while (metadata := self._current()).version <= newer_than:
                    await self._ended.wait()
                    self._check_open()
                    if self.last_error is not None and not self.last_error.retriable:
                        # A copy: a shared error would collect the tracebacks of all callers.
                        raise copy.copy(self.last_error)
                return metadata
        except TimeoutError:
            passed = asyncio.get_running_loop().time() - began
            why = f": {self.last_error}" if self.last_error else ""
            raise KafkaTimeoutError(
                f"No newer metadata arrived within {passed:.3g} s{why}"
            ) from self.last_error

    async def for_partitions(
        self, topic: str, requested: int, deadline: float, request: Callable[[str], int]
    ) -> Mapping[int, Partition]:
        """Wait until a topic is known; see `Cluster.partitions_of`.

        Args:
            topic: Its metadata was requested.
            requested: The version to wait beyond.
            deadline: In loop time.
            request: Marks the topic as used, and requests it if it is not known; returns the
                version to wait beyond.
        """
        began, known = asyncio.get_running_loop().time(), self._current().topics.get(topic)
        try:
            while True:
                metadata = await self.for_version(requested, deadline)
                known = metadata.topics.get(topic)
                if known is not None:
                    if known.refused and known.error is not None:
                        raise known.error(topic)
                    if known.error is None and known.partitions:
                        return known.partitions
                # Also because an unused topic expires, and is then no longer requested.
                requested = max(request(topic), metadata.version)
        except KafkaTimeoutError as error:
            cause = error if known is None or known.error is None else known.error(topic)
            passed = asyncio.get_running_loop().time() - began
            missing = isinstance(cause, UnknownTopicOrPartitionError)
            raise (UnknownTopicTimeoutError if missing else KafkaTimeoutError)(
                f"No broker returned metadata of topic {topic!r} within {passed:.3g} s: {cause}"
            ) from cause
