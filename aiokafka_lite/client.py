"""aiokafka's `AIOKafkaClient`: access to a cluster without a producer or a consumer.

It wraps a `cluster.Cluster`: its own, or that of the producer or consumer whose `client` it is.
`ClusterMetadata` is a live view: each call reads the current snapshot.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import warnings
from collections.abc import Callable, Collection, Iterable
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Self

from aiokafka_lite import _arguments
from aiokafka_lite._arguments import INT64, milliseconds
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.as_aiokafka.private_names import private_name
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
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.structs import BrokerMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.net.aws.aws_credentials import AwsCredentials, CredentialSource

__all__ = ["AIOKafkaClient", "ClusterMetadata"]


class ClusterMetadata:
    """A view of a cluster's metadata: brokers, topics, partitions and their leaders.

    Args:
        current: Returns the snapshot to read.
    """

    def __init__(self, current: Callable[[], Metadata]) -> None:
        self._current = current

    def brokers(self) -> set[BrokerMetadata]:
        """Every live broker."""
        return {_described(node) for node in self._current().brokers.values()}

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """One broker; None if the metadata does not list it as live."""
        node = self._current().brokers.get(broker_id)
        return None if node is None else _described(node)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Names of the topics whose metadata the client keeps."""
        return {
            name
            for name, topic in self._current().topics.items()
            if topic.partitions and not (exclude_internal_topics and topic.is_internal)
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Partition numbers of a topic; None if the topic is unknown."""
        known = self._current().topics.get(topic)
        return set(known.partitions) if known is not None and known.partitions else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Numbers of a topic's partitions that have a leader; None if the topic is unknown."""
        known = self._current().topics.get(topic)
        if known is None or not known.partitions:
            return None
        return {number for number, each in known.partitions.items() if each.leader != NO_LEADER}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Node id of a partition's leader; -1 if it has none, None if the partition is unknown."""
        known = self._current().partition(*partition)
        return None if known is None else known.leader

    def partitions_for_broker(self, broker_id: int) -> set[TopicPartition] | None:
        """The partitions that a broker leads; None if it leads none."""
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
    """A client of a Kafka cluster, for metadata and single requests.

    Args:
        bootstrap_servers: "host:port"; separate several with commas or pass a list.
        client_id: Name of this client in the brokers' logs and quotas.
        metadata_max_age_ms: Metadata is refreshed at least this often.
        request_timeout_ms: A request without a response in this time fails its connection.
        retry_backoff_ms: Pause before a retry; doubles up to one second.
        connections_max_idle_ms: Idle connections are closed after this time; None: never.
        bootstrap_timeout_ms: How long `bootstrap` and `async with` try to reach a first broker.
            By default they try each address once and raise a failure at once. Not in aiokafka.
        security_protocol, ssl_*, sasl_*: As in `AIOKafkaProducer`.
        proxy_url, proxy_ssl_context, client_dns_lookup, metadata_recovery_strategy,
            metadata_recovery_rebootstrap_trigger_ms, metadata_cluster_check_enable: As in
            `AIOKafkaProducer`.
        loop: Deprecated by aiokafka: the event loop, if the client is created outside of one.
        api_version: Deprecated by aiokafka; has no effect.

    Raises:
        KafkaConfigurationError: A value is out of range, or two options contradict each other. A
            subclass of ValueError.
        TypeError: An argument has the wrong type.
        RuntimeError: There is no running event loop and no `loop`.
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
        sasl_kerberos_principal: str | None = None,
        sasl_kerberos_keytab: str | PathLike[str] | None = None,
        sasl_kerberos_cache: str | None = None,
        sasl_scram_tokenauth: bool = False,
        sasl_aws_credentials: AwsCredentials | CredentialSource | None = None,
        sasl_aws_region: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
        bootstrap_timeout_ms: float | None = None,
        ssl_cafile: str | PathLike[str] | None = None,
        ssl_cadata: str | bytes | None = None,
        ssl_certfile: str | PathLike[str] | None = None,
        ssl_keyfile: str | PathLike[str] | None = None,
        ssl_password: str | bytes | None = None,
        ssl_check_hostname: bool = True,
        ssl_ciphers: str | None = None,
        ssl_enabled_protocols: str | Iterable[str] = ("TLSv1.2", "TLSv1.3"),
        proxy_url: str | None = None,
        proxy_ssl_context: ssl.SSLContext | None = None,
        client_dns_lookup: str = "use_all_dns_ips",
        metadata_recovery_strategy: str = "rebootstrap",
        metadata_recovery_rebootstrap_trigger_ms: float = 300_000,
        metadata_cluster_check_enable: bool = True,
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
                ssl_cafile=ssl_cafile,
                ssl_cadata=ssl_cadata,
                ssl_certfile=ssl_certfile,
                ssl_keyfile=ssl_keyfile,
                ssl_password=ssl_password,
                ssl_check_hostname=ssl_check_hostname,
                ssl_ciphers=ssl_ciphers,
                ssl_enabled_protocols=ssl_enabled_protocols,
                proxy_url=proxy_url,
                proxy_ssl_context=proxy_ssl_context,
                client_dns_lookup=client_dns_lookup,
                metadata_recovery_strategy=metadata_recovery_strategy,
                metadata_recovery_rebootstrap_trigger_ms=metadata_recovery_rebootstrap_trigger_ms,
                metadata_cluster_check_enable=metadata_cluster_check_enable,
                sasl_mechanism=sasl_mechanism,
                sasl_plain_username=sasl_plain_username,
                sasl_plain_password=sasl_plain_password,
                sasl_kerberos_service_name=sasl_kerberos_service_name,
                sasl_kerberos_domain_name=sasl_kerberos_domain_name,
                sasl_kerberos_principal=sasl_kerberos_principal,
                sasl_kerberos_keytab=sasl_kerberos_keytab,
                sasl_kerberos_cache=sasl_kerberos_cache,
                sasl_scram_tokenauth=sasl_scram_tokenauth,
                sasl_aws_credentials=sasl_aws_credentials,
                sasl_aws_region=sasl_aws_region,
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
        """The client of a producer or consumer, which owns and closes the cluster.

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
        self._everything = False  # True if all topics are kept because none was named
        self._waits: set[asyncio.Task[bool]] = set()  # for refreshes that a caller requested

    # Private names of aiokafka, listed in `as_aiokafka.private_names`

    @private_name
    def _bootstrap_servers(self) -> str:
        return ",".join(self._cluster.bootstrap_servers)

    @private_name
    def _client_id(self) -> str:
        return self._cluster.client_id

    async def _wait_on_metadata(self, topic: str) -> set[int]:
        """Return a topic's partitions; `partitions_for` of a producer is the public name."""
        return set(await self._cluster.partitions_of(topic, self._deadline()))

    # Lifecycle

    async def bootstrap(self) -> None:
        """Connect to the cluster and load its brokers and topics.

        It can be called again after a failure or a cancellation.

        Raises:
            KafkaConnectionError: No bootstrap address answered; with `bootstrap_timeout_ms`, none
                answered in that time.
            IllegalStateError: The client is already bootstrapped, or it is closed.

        Cancellation: closes all connections opened so far.
        """
        wait = self._bootstrap_timeout
        await self._cluster.start(None if wait is None else self._loop.time() + wait)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        waits = () if self._cluster.closed else tuple(self._waits)
        await self._cluster.close(self._deadline())
        if waits:
            # The close ends them with False. Cancelled ones would cancel the tasks that await them.
            await asyncio.wait(waits)

    async def __aenter__(self) -> Self:
        await self.bootstrap()  # leaves nothing open if it fails
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ping(self, timeout: float = 5.0) -> float:
        """Ask any broker for its metadata, to prove that the cluster answers. Not in aiokafka.

        Args:
            timeout: Seconds. Until then, a failed attempt is repeated with the next broker.

        Returns:
            The seconds that the answer took, including the time to connect.

        Raises:
            KafkaTimeoutError: No broker answered in this time; the cause is the last error.
            KafkaError: The brokers refuse this client, such as its credentials.
            TypeError, ValueError: `timeout` is not a valid number.
            IllegalStateError: The client is not started, or it is closed.

        Cancellation: safe.
        """
        limit = _arguments.seconds("timeout", timeout)
        if not 0 < limit < inf:
            raise ValueError(f"`timeout` should be positive and finite, not {timeout!r}")
        self._cluster.check_open()
        began = self._loop.time()

        def build(version: int) -> MetadataRequest:
            return metadata_request((), version, auto_create=False)

        # A frozen broker gets half of the time, and another one the rest.
        request = PerVersion(MetadataRequest, build)
        await call(self._cluster, request, ANY, began + limit, patience=limit / 2)
        return self._loop.time() - began

    # Metadata

    def force_metadata_update(self) -> asyncio.Future[bool]:
        """Request a metadata refresh. Awaiting the result is optional.

        Returns:
            A future: True once the metadata is refreshed, False if the refresh fails.
        """
        return self._follow(self._cluster.request_update())

    def add_topic(self, topic: str) -> asyncio.Future[bool]:
        """Keep metadata of a topic, in addition to those added before. Awaiting is optional.

        As in aiokafka, the client keeps metadata of all topics until the first call. Brokers create
        a missing topic only for a request that names it, not for a request for all topics.

        Returns:
            A future: True once the topic's metadata was requested, False if the request failed.

        Raises:
            TypeError, InvalidTopicError: `topic` is not a valid topic name.
        """
        if not self._everything:
            return self._follow(self._cluster.add_topic(topic))
        asked = self._cluster.set_topics([topic])
        self._everything = False
        return self._follow(asked)

    def set_topics(self, topics: Iterable[str]) -> asyncio.Future[bool]:
        """Keep metadata of exactly these topics, or of all if there are none; see `add_topic`."""
        if isinstance(topics, str):
            raise TypeError("`topics` should be a collection of topic names, not a str")
        names = list(topics) or None
        asked = self._cluster.set_topics(names)
        self._everything = names is None
        return self._follow(asked)

    async def fetch_all_metadata(self) -> ClusterMetadata:
        """Fetch metadata of all topics, without changing the metadata that the client keeps.

        Raises:
            KafkaError: No broker returned metadata.
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
        """Look up the node id of the coordinator of a group (0) or a transactional id (1).

        Raises:
            ValueError: The coordinator type is unknown.
            KafkaError: The coordinator was not found within `request_timeout_ms`.
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
        """Committed offsets of a group, with their metadata. Not in aiokafka.

        The group needs no active members.

        Args:
            group_id: The group's name.
            partitions: Partitions to look up; None for all. The result omits partitions without a
                committed offset.
            require_stable: Wait for transactions that are completing and may change an offset.
                With `partitions=None`, brokers omit partitions whose first offset is pending.

        Raises:
            GroupAuthorizationFailedError: The client may not describe the group.
            KafkaError: The coordinator did not return the offsets within `request_timeout_ms`.

        Cancellation: safe.
        """
        from aiokafka_lite.group.offsets.store import OffsetStore  # rarely needed

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
        """Connect to a broker if needed; True if the connection is open."""
        try:
            await self._cluster.broker(node_id).connection()
        except (KafkaConnectionError, NodeNotReadyError):
            return False
        return True

    async def send(self, node_id: int, request: RequestOf[ResponseT]) -> ResponseT:
        """Send one request from `aiokafka_lite.protocol` to one broker and await its response.

        It uses the newest version that both sides support and never retries.

        Raises:
            NodeNotReadyError: The broker is unknown or unreachable.
            KafkaConnectionError: The connection was lost before the response arrived.
            UnsupportedVersionError: The broker does not support the request.

        Cancellation: discards the response; the request may still be carried out.
        """
        if not await self.ready(node_id):
            raise NodeNotReadyError(
                f"broker {node_id} is unknown or unreachable: await force_metadata_update(), and "
                "try again"
            )
        return await self._cluster.broker(node_id).request(request)

    # Inside

    def _follow(self, newer_than: int) -> asyncio.Future[bool]:
        """A future that resolves once the metadata is newer than a version."""
        wait = self._loop.create_task(self._await_version(newer_than), name="await metadata")
        self._waits.add(wait)
        wait.add_done_callback(self._waits.discard)
        return asyncio.shield(wait)

    async def _await_version(self, newer_than: int) -> bool:
        try:
            await self._cluster.wait_for_version(newer_than, self._deadline())
        except (KafkaError, IllegalStateError):
            return False  # the refresh has logged the reason
        return True

    def _deadline(self) -> float:
        return self._loop.time() + self._request_timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.cluster}>"


def _described(node: Node) -> BrokerMetadata:
    return BrokerMetadata(node.node_id, node.host, node.port, node.rack)
