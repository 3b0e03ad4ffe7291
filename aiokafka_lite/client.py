"""aiokafka's `AIOKafkaClient`: the cluster as such, without a producer or a consumer.

It is a face over `cluster.Cluster`: its own, or that of the producer whose `client` it is.
`ClusterMetadata` is a view: it shows what is known now, however often it is asked.
"""

import asyncio
import random
import ssl
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import Self

from aiokafka_lite import _arguments
from aiokafka_lite._arguments import INT64, milliseconds
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.metadata import (
    EMPTY,
    NO_LEADER,
    Metadata,
    Node,
    metadata_request,
)
from aiokafka_lite.cluster.metadata_merge import merge
from aiokafka_lite.cluster.retry import ANY, call, find_coordinator
from aiokafka_lite.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
)
from aiokafka_lite.group.offsets.store import OffsetStore
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.structs import BrokerMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["AIOKafkaClient", "ClusterMetadata"]


class ClusterMetadata:
    """What is known of a cluster: brokers, topics, partitions and their leaders.

    Args:
        current: Gives the snapshot to look at.
    """

    def __init__(self, current: Callable[[], Metadata]) -> None:
        self._current = current

    def brokers(self) -> set[BrokerMetadata]:
        """Every live broker."""
        return {_described(node) for node in self._current().brokers.values()}

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """One broker; None if it is not alive as far as is known."""
        node = self._current().brokers.get(broker_id)
        return None if node is None else _described(node)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Names of the topics that the client keeps metadata of."""
        return {
            name
            for name, topic in self._current().topics.items()
            if topic.partitions and not (exclude_internal_topics and topic.is_internal)
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Numbers of a topic's partitions; None if it is not known."""
        known = self._current().topics.get(topic)
        return set(known.partitions) if known is not None and known.partitions else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Those of its partitions that have a leader; None if it is not known."""
        known = self._current().topics.get(topic)
        if known is None or not known.partitions:
            return None
        return {number for number, each in known.partitions.items() if each.leader != NO_LEADER}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Node id of a partition's leader; -1 while there is none, None if it is not known."""
        known = self._current().partition(*partition)
        return None if known is None else known.leader

    def partitions_for_broker(self, broker_id: int) -> set[TopicPartition] | None:
        """The partitions that a broker leads; None if there are none."""
        led = {
            TopicPartition(name, number)
            for name, topic in self._current().topics.items()
            for number, each in topic.partitions.items()
            if each.leader == broker_id
        }
        return led or None

    def __str__(self) -> str:
        known = self._current()
        return f"ClusterMetadata(brokers: {len(known.brokers)}, topics: {len(known.topics)})"


class AIOKafkaClient:
    """A connection to a cluster, for its metadata and for single requests.

    Args:
        bootstrap_servers: "host:port", several of them with commas or as a list.
        client_id: Name of this client in the brokers' logs and quotas.
        metadata_max_age_ms: Good metadata is refreshed after this time.
        request_timeout_ms: A request without an answer in this time fails its connection.
        retry_backoff_ms: Pause before something is asked again; doubles up to a second.
        connections_max_idle_ms: Connections without traffic are closed after this; None: never.
        bootstrap_timeout_ms: How long `bootstrap` and `async with` go on trying to reach a first
            broker. By default each address is tried once, and a failure is raised at once. (ours)
        security_protocol, ssl_context, sasl_*: As of `AIOKafkaProducer`.
        loop: Deprecated by aiokafka: the event loop, if this is made outside of one.
        api_version: Deprecated by aiokafka, without effect.

    Raises:
        KafkaConfigurationError: (a ValueError) a value out of its range, or a contradiction.
        TypeError: An argument of a wrong type.
        RuntimeError: There is no running event loop, and no `loop`.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str | tuple[str, int]] = "localhost",
        client_id: str | None = "aiokafka_lite",
        metadata_max_age_ms: float = 300_000,
        request_timeout_ms: float = 40_000,
        retry_backoff_ms: float = 100,
        ssl_context: ssl.SSLContext | None = None,
        security_protocol: str = "PLAINTEXT",
        api_version: object = None,
        connections_max_idle_ms: float | None = 540_000,
        sasl_mechanism: str | None = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        sasl_kerberos_service_name: str | None = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
        bootstrap_timeout_ms: float | None = None,
    ) -> None:
        _arguments.check_loop(loop)
        running = _arguments.running_loop(AIOKafkaClient.__name__) if loop is None else loop
        _arguments.check_api_version(api_version)
        for name, given in (("loop", loop), ("api_version", api_version)):
            if given is not None:
                text = f"The `{name}` argument is deprecated and has no effect"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
        request_timeout = milliseconds("request_timeout_ms", request_timeout_ms, least=1)
        cluster = Cluster(
            bootstrap_servers,
            connection_options(
                client_id=client_id,
                request_timeout=request_timeout,
                connections_max_idle_ms=connections_max_idle_ms,
                security_protocol=security_protocol,
                ssl_context=ssl_context,
                sasl_mechanism=sasl_mechanism,
                sasl_plain_username=sasl_plain_username,
                sasl_plain_password=sasl_plain_password,
                sasl_kerberos_service_name=sasl_kerberos_service_name,
                sasl_kerberos_domain_name=sasl_kerberos_domain_name,
                sasl_oauth_token_provider=sasl_oauth_token_provider,
            ),
            metadata_max_age=milliseconds("metadata_max_age_ms", metadata_max_age_ms, most=INT64),
            retry_backoff=milliseconds("retry_backoff_ms", retry_backoff_ms),
        )
        cluster.set_topics(None)
        if bootstrap_timeout_ms is not None:
            self._bootstrap_timeout = milliseconds(
                "bootstrap_timeout_ms", bootstrap_timeout_ms, most=INT64
            )
        self._adopt(cluster, request_timeout, running)
        self._everything = True

    @classmethod
    def of(cls, cluster: Cluster, request_timeout: float, loop: asyncio.AbstractEventLoop) -> Self:
        """The client of a producer or consumer: its cluster, which it owns and closes.

        Args:
            request_timeout: Seconds.
        """
        self = cls.__new__(cls)
        self._adopt(cluster, request_timeout, loop)
        return self

    _bootstrap_timeout: float | None = None  # seconds

    def _adopt(
        self, cluster: Cluster, request_timeout: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._cluster = cluster
        self._request_timeout = request_timeout
        self._loop = loop
        self.cluster = ClusterMetadata(lambda: cluster.metadata)
        self._everything = False  # whether all topics are kept, for want of names
        self._waits: set[asyncio.Task[bool]] = set()  # for refreshes that somebody asked for

    # Life

    async def bootstrap(self) -> None:
        """Connect to the cluster and learn its brokers and topics.

        After a failure, or a cancellation, it can be called again.

        Raises:
            KafkaConnectionError: No bootstrap address answered; with `bootstrap_timeout_ms`, in
                that time.
            IllegalStateError: It was called before with success, or this is closed.

        Cancellation: closes what was opened.
        """
        wait = self._bootstrap_timeout
        await self._cluster.start(None if wait is None else self._loop.time() + wait)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        if not self._cluster.closed:
            for wait in self._waits:
                wait.cancel()
        await self._cluster.close(self._deadline())

    async def __aenter__(self) -> Self:
        await self.bootstrap()  # which leaves nothing open if it fails
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Metadata

    def force_metadata_update(self) -> asyncio.Future[bool]:
        """Have the metadata refreshed; nobody has to await it.

        Returns:
            A future: True once it was refreshed, False if it could not be.
        """
        return self._follow(self._cluster.request_update())

    def add_topic(self, topic: str) -> asyncio.Future[bool]:
        """Keep metadata of a topic, beside those added before; nobody has to await it.

        The first one ends that all topics are kept, as in aiokafka: brokers create a topic that is
        asked for by its name, and not one that is missing among all.

        Returns:
            A future: True once the topic was asked for, False if it could not be.

        Raises:
            TypeError, InvalidTopicError: No name of a topic.
        """
        if not self._everything:
            return self._follow(self._cluster.add_topic(topic))
        asked = self._cluster.set_topics([topic])
        self._everything = False
        return self._follow(asked)

    def set_topics(self, topics: Iterable[str]) -> asyncio.Future[bool]:
        """Keep metadata of exactly these topics, of all if there are none; see `add_topic`."""
        if isinstance(topics, str):
            raise TypeError("`topics` should be several names, not a str")
        names = list(topics) or None
        asked = self._cluster.set_topics(names)
        self._everything = names is None
        return self._follow(asked)

    async def fetch_all_metadata(self) -> ClusterMetadata:
        """Metadata of all topics, asked for now; what is kept does not change.

        Raises:
            KafkaError: No broker told.
        """
        spoken = 0

        def build(version: int) -> MetadataRequest:
            nonlocal spoken
            spoken = version
            return metadata_request(None, version, auto_create=False)

        request = PerVersion(MetadataRequest, build)
        response = await call(self._cluster, request, ANY, self._deadline())
        everything = merge(
            EMPTY,
            response,
            version=1,
            api_version=spoken,
            asked=None,
            keep=lambda _: True,
        )
        return ClusterMetadata(lambda: everything)

    async def coordinator_lookup(self, coordinator_type: int, coordinator_key: str) -> int:
        """Node id of the coordinator of a group (0) or of a transactional id (1).

        Raises:
            ValueError: There is no such type.
            KafkaError: It could not be found within `request_timeout_ms`.
        """
        kind = CoordinatorKind(coordinator_type)
        node = await find_coordinator(self._cluster, coordinator_key, kind, self._deadline())
        self._cluster.learn_node(node)
        return node.node_id

    async def committed_offsets(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = True,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed, with its texts; no member of it has to be there. (ours)

        Args:
            group_id: The group's name.
            partitions: Of which; None for all. Those without a committed offset are missing.
            require_stable: Wait for transactions that are being ended and may change an offset.
                Of all partitions, brokers leave out those whose first offset is such a one.

        Raises:
            GroupAuthorizationFailedError: Not allowed.
            KafkaError: The group's coordinator did not tell within `request_timeout_ms`.

        Cancellation: safe.
        """
        store = OffsetStore(self._cluster, _arguments.wire_string("group_id", group_id))
        found = await store.fetch(
            partitions, require_stable=require_stable, deadline=self._deadline()
        )
        return {
            tp: OffsetAndMetadata(each.offset, each.metadata, each.leader_epoch)
            for tp, each in found.items()
        }

    # Brokers

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """(host, port) of every live broker."""
        return [(node.host, node.port) for node in self._cluster.metadata.brokers.values()]

    def get_random_node(self) -> int | None:
        """Node id of a live broker; None while none is known."""
        brokers = list(self._cluster.metadata.brokers)
        return random.choice(brokers) if brokers else None

    async def ready(self, node_id: int) -> bool:
        """Whether there is a connection to a broker; one is made if need be."""
        try:
            await self._cluster.broker(node_id).connection()
        except (KafkaConnectionError, NodeNotReadyError):
            return False
        return True

    async def send(self, node_id: int, request: RequestOf[ResponseT]) -> ResponseT:
        """Send one request of `aiokafka_lite.protocol` to one broker and await its response.

        The newest version that both sides speak is taken. Nothing is asked twice.

        Raises:
            NodeNotReadyError: The broker is not known, or could not be reached.
            KafkaConnectionError: The connection was lost before the answer.
            UnsupportedVersionError: The broker does not know the request.

        Cancellation: drops the response, not the request.
        """
        if not await self.ready(node_id):
            raise NodeNotReadyError(f"broker {node_id} is not known, or cannot be reached")
        return await self._cluster.broker(node_id).request(request)

    # Inside

    def _follow(self, newer_than: int) -> asyncio.Future[bool]:
        """A future that is resolved with the metadata newer than a version."""
        wait = self._loop.create_task(self._await_version(newer_than), name="await metadata")
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        return asyncio.shield(wait)

    async def _await_version(self, newer_than: int) -> bool:
        try:
            await self._cluster.wait_for_version(newer_than, self._deadline())
        except (KafkaError, IllegalStateError):
            return False  # the refresh itself has told the log why
        return True

    def _deadline(self) -> float:
        return self._loop.time() + self._request_timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.cluster}>"


def _described(node: Node) -> BrokerMetadata:
    return BrokerMetadata(node.node_id, node.host, node.port, node.rack)
