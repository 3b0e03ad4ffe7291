"""Sends the requests of the admin client, each to the right brokers.

| route | method |
|---|---|
| any broker, the controller, a named broker, one coordinator | `ask`: one result |
| the same, for a request about several items | `settle`: one result per item |
| a separate route for each item, such as the broker that it names | `settle_by_route`: likewise |
| every broker, or some named ones | `every_broker`: one result per broker |
| the leaders of partitions | `settle_on_leaders`: one result per partition |
| the coordinators of groups or transactional ids | `settle_on_coordinators`: one per key |

All of them retry retriable errors with backoff (KIP-580) until the call's deadline, and send only
the failed items again. `outcomes.Outcomes` tracks the items; this module does the I/O and the
waiting.

Non-obvious:
- If a leader or coordinator moved, only its own items are looked up and sent again, while the
  requests to other brokers continue.
- A request that got no response may have been carried out, and is repeated, as in Java. Calls whose
  second attempt can get a misleading error check `Outcomes.was_interrupted`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from aiokafka_lite._arguments import milliseconds
from aiokafka_lite.admin.core.controller_cluster import ControllerCluster
from aiokafka_lite.admin.core.exchange import Exchange
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.core.retried_errors import FinalError, raise_to_retry
from aiokafka_lite.admin.core.scatter import scatter
from aiokafka_lite.admin.core.too_old import too_old
from aiokafka_lite.admin.core.whereabouts import find_coordinators, find_leaders
from aiokafka_lite.cluster.broker import PerVersion, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import (
    ANY,
    CONTROLLER,
    CoordinatorOf,
    Route,
    ToNode,
    call,
    raise_error_code,
)
from aiokafka_lite.errors import (
    BrokerResponseError,
    IllegalStateError,
    KafkaError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.message import Request, RequestOf, ResponseT
from aiokafka_lite.protocol.registry import listeners
from aiokafka_lite.structs import TopicPartition

__all__ = ["Dispatcher"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEYS_AT_ONCE = 250
"""Keys in a request to a coordinator. A description of 250 groups takes 5 ms to decode, while the
broker prepares the next response."""


class Dispatcher:
    """Routes and retries for one admin client.

    Args:
        cluster: The brokers.
        loop: The client's event loop.
        request_timeout: Seconds that a broker has for one response.
        call_timeout: Seconds that a call without its own `timeout_ms` has.
    """

    def __init__(
        self,
        cluster: Cluster,
        loop: asyncio.AbstractEventLoop,
        request_timeout: float,
        call_timeout: float,
    ) -> None:
        self.cluster = cluster
        self.at_controllers = isinstance(cluster, ControllerCluster)
        self._loop = loop
        self._request_timeout = request_timeout
        self._call_timeout = call_timeout
        self._turn = asyncio.Lock()  # to read a response

    # Time

    def deadline(self, timeout_ms: float | None) -> float:
        """The deadline of a call that begins now, in loop time.

        Args:
            timeout_ms: The caller's; None or 0: the client's default.

        Raises:
            TypeError, KafkaConfigurationError: `timeout_ms` is not a number of milliseconds.
            IllegalStateError: The client is not started, or it is closed.
        """
        if not self.cluster.started and not self.cluster.closed:
            raise IllegalStateError(
                "the admin client is not started: await its start(), or use it in `async with`"
            )
        self.cluster.check_open()
        if timeout_ms is None:
            return self._loop.time() + self._call_timeout
        return self._loop.time() + (milliseconds("timeout_ms", timeout_ms) or self._call_timeout)

    def remaining_ms(self, deadline: float) -> float:
        """Milliseconds until a deadline, for a call that consists of several; at least 1."""
        return max(1.0, (deadline - self._loop.time()) * 1000)

    def broker_timeout_ms(self, deadline: float) -> int:
        """How long a broker may work on a request: the remaining time, at most one response's
        time."""
        remaining = min(deadline - self._loop.time(), self._request_timeout)
        return max(1, round(remaining * 1000))

    # Routes

    async def ask(
        self,
        request: RequestOf[ResponseT] | PerVersion[ResponseT],
        route: Route,
        deadline: float,
        *,
        check: Callable[[ResponseT], None] = raise_error_code,
        oldest: int = 0,
        latest: int | None = None,
        feature: str | None = None,
        purpose: Purpose = Purpose.GENERAL,
    ) -> ResponseT:
        """Send one request and return its response; see `cluster.retry.call`.

        Args:
            oldest: Oldest version that can express the request.
            feature: The feature that needs that version, for the error of an older broker.

        Raises:
            UnsupportedVersionError: The broker is too old; names the feature and the release.
            KafkaTimeoutError: The deadline passed.
            KafkaError: The error is not retriable.
        """
        kind = _request_class(
            request.request_class if isinstance(request, PerVersion) else type(request)
        )
        self._check_listener(kind)
        if self.at_controllers and route is ANY:
            route = CONTROLLER  # only the active controller answers for the others
        built = False

        def build(version: int) -> RequestOf[ResponseT]:
            nonlocal built
            built = True
            return request.build(version) if isinstance(request, PerVersion) else request

        try:
            return await call(
                self.cluster,
                PerVersion(kind, build),
                route,
                deadline,
                check=check,
                oldest=oldest,
                latest=latest,
                purpose=purpose,
            )
        except UnsupportedVersionError as error:
            if built:
                raise
            raise too_old(kind, oldest, feature, error) from error

    async def settle(
        self,
        outcomes: Outcomes[K, V],
        request_class: type[Request],
        build: Callable[[int, list[K]], RequestOf[ResponseT]],
        read: Callable[[ResponseT, Outcomes[K, V]], None],
        route: Route,
        deadline: float,
        *,
        oldest: int = 0,
        latest: int | None = None,
        feature: str | None = None,
        purpose: Purpose = Purpose.GENERAL,
    ) -> Results[K, V]:
        """Send one request about all items, and again about those with a retriable error.

        Args:
            build: Builds the request for a version and the items that are pending.
            read: Reports each item of a response with `outcomes.on_value` and `on_code`. Raises
                the KafkaError of the whole response, if it has one (`raise_error_code`); the
                policy of `outcomes` decides if it is retried.

        Raises:
            KafkaError: No broker reported the outcome of any item: the reason. Otherwise, each item
                has its own error.
        """
        exchange = Exchange(request_class, build, read, oldest, latest, feature, purpose)
        await self._settle_part(outcomes, outcomes.pending, exchange, read, route, deadline)
        return outcomes.results()

    async def settle_by_route(
        self,
        outcomes: Outcomes[K, V],
        route_of: Callable[[K], Route],
        request_class: type[Request],
        build: Callable[[int, list[K]], RequestOf[ResponseT]],
        read: Callable[[ResponseT, Outcomes[K, V]], None],
        deadline: float,
        *,
        oldest: int = 0,
        latest: int | None = None,
        feature: str | None = None,
    ) -> Results[K, V]:
        """Send one request for each route that an item names, all at once; see `settle`.

        Args:
            route_of: The route of an item, such as `ToNode(3)` for the configurations of broker 3.
        """
        exchange = Exchange(request_class, build, read, oldest, latest, feature)
        parts: dict[Route, list[K]] = {}
        for item in outcomes.pending:
            parts.setdefault(route_of(item), []).append(item)
        async with asyncio.TaskGroup() as tasks:
            for route, items in parts.items():
                part = self._settle_part(outcomes, items, exchange, read, route, deadline)
                tasks.create_task(part, name=f"{request_class.name} to {route}")
        return outcomes.results()

    async def every_broker(
        self,
        request: RequestOf[ResponseT] | PerVersion[ResponseT],
        read: Callable[[ResponseT], V],
        deadline: float,
        *,
        node_ids: Iterable[int] | None = None,
        oldest: int = 0,
        feature: str | None = None,
    ) -> Results[int, V]:
        """Send a request to several brokers at once.

        Args:
            read: Returns a broker's value; its KafkaErrors are that broker's, and retried if
                retriable.
            node_ids: The brokers; None: every live one.

        Returns:
            A value or an error by node id.

        Raises:
            KafkaError: No broker answered, or the brokers are too old.
        """
        if node_ids is None:
            node_ids = (await self.cluster.refresh(deadline)).brokers
        outcomes: Outcomes[int, V] = Outcomes(node_ids, lambda node_id: f"broker {node_id}")

        async def ask_one(node_id: int) -> None:
            def check(response: ResponseT) -> None:
                outcomes.on_value(node_id, read(response))

            try:
                await self.ask(
                    request, ToNode(node_id), deadline, check=check, oldest=oldest, feature=feature
                )
            except KafkaError as error:
                outcomes.fail_pending(error, [node_id])

        async with asyncio.TaskGroup() as tasks:
            for node_id in outcomes.pending:
                tasks.create_task(ask_one(node_id), name=f"ask broker {node_id}")
        return outcomes.results()

    async def settle_on_leaders(
        self,
        outcomes: Outcomes[TopicPartition, V],
        request_class: type[Request],
        build: Callable[[int, list[TopicPartition]], RequestOf[ResponseT]],
        read: Callable[[ResponseT, Outcomes[TopicPartition, V]], None],
        deadline: float,
        *,
        oldest: int = 0,
        latest: int | None = None,
        feature: str | None = None,
    ) -> Results[TopicPartition, V]:
        """Send one request to each broker that leads some of the partitions; see `settle`.

        A partition whose topic does not exist is looked up again until the deadline, as in Java:
        it may be new.
        """

        async def place(partitions: list[TopicPartition]) -> Mapping[int, list[TopicPartition]]:
            return await find_leaders(self.cluster, partitions, outcomes, deadline)

        async def send(node_id: int, partitions: list[TopicPartition]) -> None:
            await self.send_once(node_id, partitions, outcomes, exchange)

        exchange = Exchange(request_class, build, read, oldest, latest, feature)
        self._check_listener(request_class)
        return await scatter(self.cluster, outcomes, place, send, deadline, request_class.name)

    async def settle_on_coordinators(
        self,
        kind: CoordinatorKind,
        outcomes: Outcomes[str, V],
        request_class: type[Request],
        build: Callable[[int, list[str]], RequestOf[ResponseT]],
        read: Callable[[ResponseT, Outcomes[str, V]], None],
        deadline: float,
        *,
        at_most: int = KEYS_AT_ONCE,
        oldest: int = 0,
        latest: int | None = None,
        feature: str | None = None,
        purpose: Purpose = Purpose.GENERAL,
    ) -> Results[str, V]:
        """Send one request to each broker that coordinates some of the keys; see `settle`.

        The coordinators are looked up in one request where brokers can do that (KIP-699).

        Args:
            at_most: How many keys a request can have. Requests to one broker follow one another
                without waiting for responses.
        """

        async def send(node_id: int, keys: list[str]) -> None:
            await self.send_once(node_id, keys, outcomes, exchange)

        exchange = Exchange(request_class, build, read, oldest, latest, feature, purpose)
        return await self.scatter_to_coordinators(
            kind, outcomes, request_class, send, deadline, at_most=at_most
        )

    async def scatter_to_coordinators(
        self,
        kind: CoordinatorKind,
        outcomes: Outcomes[str, V],
        request_class: type[Request],
        send: Callable[[int, list[str]], Awaitable[None]],
        deadline: float,
        *,
        at_most: int = KEYS_AT_ONCE,
    ) -> Results[str, V]:
        """Let `send` settle the keys of each coordinator, such as by one request after another.

        Args:
            request_class: The first request, which names the call in errors.
            send: Sends requests for some keys to a broker (`send_once`). Keys that stay pending are
                looked up and sent again.
            at_most: As for `settle_on_coordinators`.
        """

        async def place(keys: list[str]) -> Mapping[int, list[str]]:
            return await find_coordinators(self.cluster, kind, keys, outcomes, deadline)

        def on_retry(key: str, error: KafkaError) -> None:
            CoordinatorOf(key, kind).is_stale(self.cluster, error)  # drops a wrong coordinator

        self._check_listener(request_class)
        return await scatter(
            self.cluster,
            outcomes,
            place,
            send,
            deadline,
            request_class.name,
            at_most=at_most,
            on_retry=on_retry,
        )

    async def send_once(
        self,
        node_id: int,
        items: list[K],
        outcomes: Outcomes[K, V],
        exchange: Exchange[K, V, ResponseT],
    ) -> None:
        """Send one request to a broker and report its response; see `Exchange.send`."""
        await exchange.send(self.cluster.broker(node_id), items, outcomes, self._turn)

    # Internals

    def _check_listener(self, kind: type[Request]) -> None:
        """Refuse a request that controllers do not accept, if the client has only controllers."""
        if self.at_controllers and "controller" not in listeners(kind.api_key):
            raise UnsupportedVersionError(
                f"KRaft controllers do not take {kind.name} requests: create an admin client with "
                "bootstrap_servers in place of bootstrap_controllers"
            )

    async def _settle_part(
        self,
        outcomes: Outcomes[K, V],
        items: list[K],
        exchange: Exchange[K, V, ResponseT],
        read: Callable[[ResponseT, Outcomes[K, V]], None],
        route: Route,
        deadline: float,
    ) -> None:
        """Settle some of the items by one request, repeated for those that stay pending."""
        asked: list[K] = []

        def build_pending(version: int) -> RequestOf[ResponseT]:
            nonlocal asked
            asked = outcomes.begin(items)
            return exchange.build(version, asked)

        def check(response: ResponseT) -> None:
            try:
                read(response, outcomes)
            except KafkaError as error:
                outcomes.on_refused(asked)
                if isinstance(error, BrokerResponseError):
                    raise_to_retry(error, again=outcomes.retries_refusal(error))
                raise
            if (pending := outcomes.end(asked)) is not None:
                raise_to_retry(pending, again=True)

        if not items:
            return
        try:
            await self.ask(
                PerVersion(exchange.request_class, build_pending),
                route,
                deadline,
                check=check,
                oldest=exchange.oldest,
                latest=exchange.latest,
                feature=exchange.feature,
                purpose=exchange.purpose,
            )
        except FinalError as final:
            outcomes.fail_pending(final.error, items)
        except KafkaError as error:
            outcomes.fail_pending(error, items)


def _request_class(kind: type[object]) -> type[Request]:
    if not issubclass(kind, Request):
        raise TypeError(f"{kind.__name__} is not a request")
    return kind
