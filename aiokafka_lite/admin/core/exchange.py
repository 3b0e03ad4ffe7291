"""`Exchange`: one kind of request about several items, and how its response is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.too_old import too_old
from aiokafka_lite.cluster.broker import Broker, PerVersion, Purpose
from aiokafka_lite.errors import KafkaError, UnsupportedVersionError
from aiokafka_lite.protocol.message import Request, RequestOf, ResponseT

__all__ = ["Exchange"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Exchange(Generic[K, V, ResponseT]):
    """One kind of request about several items.

    Attributes:
        request_class: The class of the request.
        build: Builds the request for a version and the items that are pending.
        read: Reports each item of a response with `outcomes.on_value` and `on_code`, at once or as
            a coroutine. Raises the KafkaError of the whole response, if it has one.
        oldest: Oldest version that can express the request.
        latest: Newest version that `read` supports; None: the newest of the protocol.
        feature: The feature that needs the oldest version, for the error of an older broker.
        purpose: Which of the broker's connections to use.
    """

    request_class: type[Request]
    build: Callable[[int, list[K]], RequestOf[ResponseT]]
    read: Callable[[ResponseT, Outcomes[K, V]], Awaitable[None] | None]
    oldest: int = 0
    latest: int | None = None
    feature: str | None = None
    purpose: Purpose = Purpose.GENERAL

    async def send(
        self, broker: Broker, items: list[K], outcomes: Outcomes[K, V], turn: asyncio.Lock
    ) -> None:
        """Send one request to a broker, and report its response.

        Args:
            turn: Held while the response is read, and for a pass of the event loop after it:
                responses that arrive together are not read in one pass.

        Raises:
            UnsupportedVersionError: The broker is too old; names the feature and the release.
            KafkaError: There was no response, or the whole response is an error.

        Cancellation: drops the response, not the request.
        """
        asked: list[K] = []
        built = False

        def build(version: int) -> RequestOf[ResponseT]:
            nonlocal asked, built
            asked = outcomes.begin(items)
            built = True
            return self.build(version, asked)

        try:
            response = await broker.request(
                PerVersion(self.request_class, build),
                self.purpose,
                latest=self.latest,
                oldest=self.oldest,
            )
        except UnsupportedVersionError as error:
            if built:
                raise
            raise too_old(self.request_class, self.oldest, self.feature, error) from error
        async with turn:
            try:
                reading = self.read(response, outcomes)
                if reading is not None:
                    await reading
            except KafkaError:
                outcomes.on_refused(asked)
                raise
            outcomes.end(asked)
            await asyncio.sleep(0)
