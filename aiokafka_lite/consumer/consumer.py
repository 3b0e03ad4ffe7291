"""AIOKafkaConsumer, the public class: it checks arguments and documents the API.

The work is done in `core`. Only the application refers to an `AIOKafkaConsumer`. One that is
dropped without `stop()` emits a ResourceWarning, and its finalizer closes the core.
"""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, TypeVar, overload

from aiokafka_lite import _arguments
from aiokafka_lite._arguments import (
    INT32,
    INT64,
    as_partition,
    as_partitions,
    flag,
    is_int,
    known_epoch,
    milliseconds,
    offsets_to_commit,
    topic_names,
    whole,
)
from aiokafka_lite._consumer_record import ConsumerRecord, K, V
from aiokafka_lite._version import __version__
from aiokafka_lite.abc import AbstractTokenProvider, ConsumerInterceptor, ConsumerRebalanceListener
from aiokafka_lite.as_aiokafka.private_names import (
    CoordinatorNames,
    SubscriptionNames,
    private_name,
)
from aiokafka_lite.cluster.bootstrap import parse_bootstrap
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.consumer import consumer_arguments as arguments
from aiokafka_lite.consumer.consumer_arguments import (
    DEFAULT_HEARTBEAT_MS,
    DEFAULT_SESSION_MS,
    DEFAULT_STRATEGY,
)
from aiokafka_lite.consumer.consumer_options import (
    DEFAULT_BUFFER_MEMORY,
    OffsetReset,
)
from aiokafka_lite.consumer.membership.subscription import SubscriptionPattern
from aiokafka_lite.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    KafkaConfigurationError,
)
from aiokafka_lite.group.assignment_lease import ConsumerGroupMetadata
from aiokafka_lite.metrics_push.push_calls import MetricsPushCalls
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.reading.consumer_lifecycle import ConsumerLifecycle
from aiokafka_lite.structs import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

if TYPE_CHECKING:  # imported when they are used: most consumers use none of them
    from aiokafka_lite.client import AIOKafkaClient
    from aiokafka_lite.consumer.buffering.bulk_types import ArrowBatch, ColumnBatch, RecordBatch
    from aiokafka_lite.consumer.consumer_metrics import PartitionLag
    from aiokafka_lite.consumer.core import ConsumerCore
    from aiokafka_lite.consumer.membership.consumer_group import ConsumerGroup
    from aiokafka_lite.consumer.offsets.offset_lookup import Found
    from aiokafka_lite.consumer.partitions.positions import PartitionState
    from aiokafka_lite.consumer.record_batches import Batches
    from aiokafka_lite.metrics_push.metrics_push import MetricsPush
    from aiokafka_lite.net.aws.aws_credentials import AwsCredentials, CredentialSource
    from aiokafka_lite.structs import ConsumerHealth

_T = TypeVar("_T")


class AIOKafkaConsumer(ConsumerLifecycle["ConsumerCore"], MetricsPushCalls, Generic[K, V]):
    """Reads records from a Kafka cluster. Names, defaults and behavior follow aiokafka 0.14.

        async with AIOKafkaConsumer("orders", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                print(record.topic, record.partition, record.offset, record.value)

    Args:
        *topics: Topics to subscribe to. Alternatively, call `subscribe` or `assign` later.
        loop: Deprecated: the event loop, if the consumer is created outside of one.
        bootstrap_servers: "host[:port]", several of them separated by commas, or a list. The first
            broker that answers returns the addresses of the others.
        client_id: Name of this client in the brokers' logs and quotas.
        group_id: Name of the consumer group. Its members share the partitions of their topics, and
            it stores the offsets they commit. None: the consumer reads all partitions of the
            topics and commits nothing.
        group_instance_id: Makes this a static member (KIP-345). If it rejoins within its session
            timeout, it gets the same partitions without a rebalance.
        key_deserializer: Called with each key (bytes or None); its result becomes the record's key.
            Or an `abc.RecordDeserializer`, which also receives the topic and the headers.
            If it raises, the read raises that exception, with the record's partition and offset
            in a note and in `UndeserializedRecord.of(error)`. The position does not move; `seek`
            past the record to skip it.
        value_deserializer: Likewise for values.
        fetch_max_wait_ms: How long a broker may wait for `fetch_min_bytes` of new records.
        fetch_max_bytes: Maximum bytes of one response. A single larger batch is still delivered
            (KIP-74). Each fetch requests at most 4 MiB, whatever this is, so that buffers are
            reused; `buffer_memory` limits the total.
        fetch_min_bytes: Bytes that end a broker's wait.
        max_partition_fetch_bytes: Maximum bytes of one partition in one response.
        request_timeout_ms: Deadline of each request, and of each call that sends requests.
        retry_backoff_ms: First pause after a failure; later ones grow up to
            `retry_backoff_max_ms`.
        auto_offset_reset: Where to start without a position, or when it is out of range:
            "earliest", "latest", or "none" to raise NoOffsetForPartitionError or
            OffsetOutOfRangeError (LogTruncationError if the log was truncated). Not in aiokafka:
            "by_duration:PT1H" for the first record that is at most an hour old (any ISO-8601
            duration, KIP-1106).
        enable_auto_commit: Commit the offsets of delivered records in the background, before
            partitions are revoked, and on `stop`.
        auto_commit_interval_ms: Time between two such commits.
        check_crcs: Check the CRC of each batch.
        metadata_max_age_ms: How often to refresh the metadata even if nothing seems to have
            changed. A refresh finds new partitions and topics.
        partition_assignment_strategy: Assignor classes, the preferred one first. The group uses
            one that all its members support.
        max_poll_interval_ms: After this long without a read, the consumer leaves the group until
            the next read.
        rebalance_timeout_ms: How long the members may take to give up partitions and to join a
            rebalance; `session_timeout_ms` by default (with the "consumer" protocol:
            `max_poll_interval_ms`).
        session_timeout_ms: The coordinator removes a member without heartbeats for this long.
        heartbeat_interval_ms: Time between two heartbeats. They do not depend on reads.
        consumer_timeout_ms: While some partitions of a broker have buffered records, how long its
            empty partitions wait, at most, before they are fetched again.
        max_poll_records: Maximum records of one `getmany`, or None for no limit.
        proxy_url: A proxy through which all brokers are reached and that resolves their names:
            "socks5://", "http://" or "https://", with "USER:PASSWORD@" before its host if needed.
        proxy_ssl_context: The TLS context for an "https://" proxy; by default one that trusts the
            system's authorities.
        client_dns_lookup: "use_all_dns_ips": try all addresses of a name, a quarter of a second
            apart, and use the first that accepts. "resolve_canonical_bootstrap_servers_only": also
            replace each bootstrap address by its canonical name, for Kerberos (KIP-235).
        metadata_recovery_strategy: "rebootstrap": when no known broker answers, or a broker
            requires it, close all connections and begin at the bootstrap addresses again
            (KIP-899). "none": ask only the known brokers.
        metadata_recovery_rebootstrap_trigger_ms: The client also bootstraps again when it has
            received no metadata for this time (KIP-1102).
        metadata_cluster_check_enable: True to have each broker check that its node id and cluster
            id are those that the client expects (KIP-1242, Kafka 4.4).
        ssl_context: The TLS context for "SSL" and "SASL_SSL". Without it, the client creates one
            from the following options, and recreates it when its files change.
        ssl_cafile, ssl_cadata: The trusted certificates: a path or PEM text; `ssl_cadata` may also
            be DER as bytes. Without both: the system's.
        ssl_certfile, ssl_keyfile, ssl_password: This client's certificate chain and private key:
            paths, or PEM text (KIP-651); and the password of an encrypted key. Without
            `ssl_keyfile`, the key is in `ssl_certfile`.
        ssl_check_hostname: True if the broker's certificate must match its host name.
        ssl_ciphers: OpenSSL's cipher list for TLS 1.2.
        ssl_enabled_protocols: "TLSv1.2", "TLSv1.3" or both.
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
        api_version: Deprecated: the client asks each broker for the versions it supports.
        exclude_internal_topics: Exclude internal topics from a pattern subscription.
        connections_max_idle_ms: Idle connections are closed after this time; None for never.
        isolation_level: "read_uncommitted", or "read_committed" to hide records of transactions
            that are open or were aborted.
        sasl_mechanism: With "SASL_PLAINTEXT" and "SASL_SSL": "PLAIN", "SCRAM-SHA-256",
            "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI" (Kerberos) or "AWS_MSK_IAM".
        sasl_plain_username, sasl_plain_password: For PLAIN and SCRAM.
        sasl_oauth_token_provider: For OAUTHBEARER; called for each connection and
            re-authentication.
        sasl_kerberos_service_name, sasl_kerberos_domain_name: For GSSAPI: the brokers' service, and
            the host in their principals, by default the host that the client connects to.
        sasl_kerberos_principal, sasl_kerberos_keytab, sasl_kerberos_cache: For GSSAPI: the client's
            principal, the file of its keys, and its credential cache; by default those of
            KRB5_CLIENT_KTNAME and KRB5CCNAME. Not in aiokafka.
        sasl_scram_tokenauth: For SCRAM: the user name and the password are the id and the HMAC of a
            delegation token (KIP-48). Not in aiokafka.
        sasl_aws_credentials, sasl_aws_region: For AWS_MSK_IAM: `oauth.AwsCredentials`, or a
            function that returns the current ones, by default those of the environment or of
            botocore; and the region, by default the one in the broker's name. Not in aiokafka.
        client_rack: The rack of this client. Rack-aware brokers let it fetch from a follower in
            the same rack (KIP-392).
        buffer_memory: Maximum bytes of fetch responses that are buffered or in flight, for all
            brokers together. Decoded records that are not delivered yet are extra, at most 256
            per partition. Not in aiokafka (KIP-81).
        interceptors: `aiokafka_lite.abc.ConsumerInterceptor` objects. They see, and may change,
            every record before it is delivered, and are notified of commits. Not in aiokafka
            (KIP-42).
        allow_auto_create_topics: Allow a subscription to create a topic, on brokers that create
            topics automatically. Not in aiokafka.
        default_api_timeout_ms: Deadline of each call that sends requests, wherever the method
            documentation says `request_timeout_ms`, which is the default. Not in aiokafka.
        retry_backoff_max_ms: Upper limit of the pauses between attempts. Not in aiokafka
            (KIP-580).
        reconnect_backoff_ms, reconnect_backoff_max_ms: Likewise between attempts to connect to a
            broker. Not in aiokafka.
        socket_connection_setup_timeout_ms: How long a connection to one address may take, TLS
            handshake included. Not in aiokafka.
        socket_connection_setup_timeout_max_ms: Upper limit of that time, which doubles with each
            failed attempt to connect to a broker (KIP-601). Not in aiokafka.
        send_buffer_bytes, receive_buffer_bytes: Sizes of the socket buffers; -1 for the operating
            system's default. Not in aiokafka.
        bootstrap_timeout_ms: How long `start` and `async with` keep trying to reach a first
            broker, for a service that may start before Kafka does. By default each address is
            tried once, and a failure is raised at once. Not in aiokafka.
        enable_metrics_push: Push metrics to the brokers, if they have a subscription that matches
            this client (KIP-714). Costs nothing with brokers that do not collect metrics. Not in
            aiokafka.
        group_protocol: "classic", or "consumer" for the protocol of Kafka 4, where the broker
            assigns partitions. Not in aiokafka (KIP-848).
        group_remote_assignor: With "consumer": the name of the broker-side assignor; the group's
            default if omitted. Not in aiokafka.

    Raises:
        TypeError: An argument is unknown (the message suggests the nearest name) or has the wrong
            type.
        ValueError: A value is invalid or not supported yet.
    """

    _NAME = "AIOKafkaConsumer"
    _KIND = "consumer"

    def __init__(
        self,
        *topics: str,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Sequence[str] = "localhost",
        client_id: str = f"aiokafka-lite-{__version__}",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        key_deserializer: Callable[[Any], K] | None = None,
        value_deserializer: Callable[[Any], V] | None = None,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52428800,
        fetch_min_bytes: int = 1,
        max_partition_fetch_bytes: int = 1024 * 1024,
        request_timeout_ms: int = 40000,
        retry_backoff_ms: int = 100,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5000,
        check_crcs: bool = True,
        metadata_max_age_ms: int = 300000,
        partition_assignment_strategy: Sequence[type[AbstractPartitionAssignor]] = DEFAULT_STRATEGY,
        max_poll_interval_ms: int = 300000,
        rebalance_timeout_ms: int | None = None,
        session_timeout_ms: int = DEFAULT_SESSION_MS,
        heartbeat_interval_ms: int = DEFAULT_HEARTBEAT_MS,
        consumer_timeout_ms: int = 200,
        max_poll_records: int | None = None,
        ssl_context: ssl.SSLContext | None = None,
        security_protocol: str = "PLAINTEXT",
        api_version: str | None = None,
        exclude_internal_topics: bool = True,
        connections_max_idle_ms: int | None = 540000,
        isolation_level: str = "read_uncommitted",
        sasl_mechanism: str | None = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_kerberos_principal: str | None = None,
        sasl_kerberos_keytab: str | PathLike[str] | None = None,
        sasl_kerberos_cache: str | None = None,
        sasl_scram_tokenauth: bool = False,
        sasl_aws_credentials: AwsCredentials | CredentialSource | None = None,
        sasl_aws_region: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
        client_rack: str | None = None,
        buffer_memory: int = DEFAULT_BUFFER_MEMORY,
        interceptors: Sequence[ConsumerInterceptor] = (),
        allow_auto_create_topics: bool = True,
        group_protocol: str = "classic",
        group_remote_assignor: str | None = None,
        default_api_timeout_ms: int | None = None,
        retry_backoff_max_ms: int = 1000,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1000,
        socket_connection_setup_timeout_ms: int = 10000,
        socket_connection_setup_timeout_max_ms: int = 30000,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
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
        enable_metrics_push: bool = True,
        **unknown: Never,
    ) -> None:
        self._closed = True  # nothing to warn about until construction is complete
        _arguments.refuse_unknown(
            unknown, signature(AIOKafkaConsumer).parameters, AIOKafkaConsumer.__name__
        )
        _arguments.check_loop(loop)
        _arguments.check_api_version(api_version)
        if loop is None:
            loop = _arguments.running_loop(AIOKafkaConsumer.__name__)
        else:
            _deprecated("The `loop` argument is deprecated: create the consumer in its event loop")
        if api_version is not None:
            _deprecated("The `api_version` argument is deprecated: the client negotiates versions")
        for topic in topics:
            if not isinstance(topic, str):
                raise TypeError(
                    "AIOKafkaConsumer takes each topic as a separate argument, "
                    f'AIOKafkaConsumer("a", "b") or AIOKafkaConsumer(*topics), not {topic!r}'
                )
        consumer_options = arguments.consumer_options(
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            fetch_min_bytes=fetch_min_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            auto_offset_reset=auto_offset_reset,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            check_crcs=check_crcs,
            consumer_timeout_ms=consumer_timeout_ms,
            max_poll_records=max_poll_records,
            exclude_internal_topics=exclude_internal_topics,
            isolation_level=isolation_level,
            client_rack=client_rack,
            buffer_memory=buffer_memory,
            interceptors=interceptors,
            default_api_timeout_ms=default_api_timeout_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            client_id=client_id,
            group_id=group_id,
        )
        group_options = arguments.group_options(
            consumer_options,
            group_id=group_id,
            group_instance_id=group_instance_id,
            group_protocol=group_protocol,
            group_remote_assignor=group_remote_assignor,
            partition_assignment_strategy=partition_assignment_strategy,
            max_poll_interval_ms=max_poll_interval_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
        )
        max_age = milliseconds("metadata_max_age_ms", metadata_max_age_ms, most=INT64)
        options = connection_options(
            client_id=client_id,
            request_timeout=consumer_options.request_timeout,
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
            max_response_bytes=min(max(256 * 1024 * 1024, 2 * fetch_max_bytes), INT32),
            reconnect_backoff_ms=reconnect_backoff_ms,
            reconnect_backoff_max_ms=reconnect_backoff_max_ms,
            socket_connection_setup_timeout_ms=socket_connection_setup_timeout_ms,
            socket_connection_setup_timeout_max_ms=socket_connection_setup_timeout_max_ms,
            send_buffer_bytes=send_buffer_bytes,
            receive_buffer_bytes=receive_buffer_bytes,
        )
        auto_create = flag("allow_auto_create_topics", allow_auto_create_topics)
        bootstrap_timeout = (
            None
            if bootstrap_timeout_ms is None
            else milliseconds("bootstrap_timeout_ms", bootstrap_timeout_ms, most=INT64)
        )
        addresses = parse_bootstrap(bootstrap_servers)
        # Imported here to make importing a client fast (tests/unit/test_import_cost.py).
        from aiokafka_lite.cluster.cluster import Cluster
        from aiokafka_lite.consumer.core import ConsumerCore
        from aiokafka_lite.metrics_push.application_metrics import ApplicationMetrics
        from aiokafka_lite.metrics_push.metrics_push import MetricsPush

        pushes, application = flag("enable_metrics_push", enable_metrics_push), ApplicationMetrics()

        def make_core() -> ConsumerCore:
            cluster = Cluster(
                addresses,
                options,
                metadata_max_age=max_age,
                retry_backoff=consumer_options.retry_backoff,
                retry_backoff_max=consumer_options.retry_backoff_max,
                allow_auto_create_topics=auto_create,
            )
            return ConsumerCore(
                cluster,
                consumer_options,
                group_options,
                MetricsPush(cluster, application, loop, enabled=pushes),
                metadata_max_age=max_age,
                loop=loop,
            )

        core = make_core()
        if topics:
            core.subscription.subscribe(topic_names(topics), None, None)
        self._make_core = make_core
        super().__init__(core, bootstrap_timeout)

    def _core_after(self, failed: ConsumerCore) -> ConsumerCore:
        core = self._make_core()
        core.take_over(failed)
        return core

    # --- lifecycle

    async def start(self) -> None:
        """Connect to the cluster, wait until the topics exist, and begin to fetch.

        With a group and a subscription, `start` waits until the group has assigned partitions and
        the listener has been called, which takes as long as the other members need. (With
        cooperative rebalances, a member without any partition waits six seconds for one.) When
        `start` returns, the position of every partition whose leader answered is known: no record
        sent later is missed, even with "latest".

        Raises:
            KafkaConnectionError: No bootstrap address answered (within `bootstrap_timeout_ms`, if
                set).
            TopicAuthorizationFailedError: The consumer is not authorized to read a topic.
            GroupAuthorizationFailedError: The coordinator rejected this member; so do
                `InvalidSessionTimeoutError`, `FencedInstanceIdError` and others.
            KafkaTimeoutError: No group coordinator was available within `request_timeout_ms`.
            UnknownTopicOrPartitionError: A topic did not exist within `request_timeout_ms`.
            IllegalStateError: The consumer was already started or stopped, or belongs to another
                event loop.
            ConsumerStoppedError: `stop` was called meanwhile.

        After a failure `start` can be called again. The subscription, assignment, seeks and pauses
        made before are kept.

        Cancellation: closes what was opened; `start` can be called again.
        """
        await self._start()

    async def stop(self, *, leave_group: bool | None = None) -> None:
        """Stop reading, leave the group, and close all connections. Idempotent; works after a
        failed `start`.

        With auto-commit, the offsets of delivered records are committed. The listener's
        `on_partitions_revoked` receives all partitions (as in Java). Pending `getone` calls raise
        ConsumerStoppedError, pending `getmany` calls return {}, and `async for` ends. Returns
        within about five seconds, even if brokers do not answer.

        Args:
            leave_group: False: remain a member until the session expires, so that the group does
                not rebalance before. True: leave even as a static member, whose partitions the
                others get at once. None: static members remain, others leave. Not in aiokafka
                (KIP-1092).

        Raises:
            TypeError: `leave_group` is not a bool or None; nothing was stopped.
            IllegalStateError: Called in another event loop than the consumer's; nothing was
                stopped.

        Cancellation: the connections are still closed. The group may learn of it only when the
            session expires: until then, no other member reads the partitions of this member.
        """
        if leave_group is not None:
            flag("leave_group", leave_group)
        if self._core.refusal is not None:
            return  # a forked child has nothing to stop
        if not self._core.closed:
            self._core.check_home()
        self._closed = True
        await self._core.stop(leave_group)

    @property
    def client(self) -> AIOKafkaClient:
        """A client that shares the consumer's connections and metadata. Not in aiokafka.

        After a failed `start`, get it again.
        """
        from aiokafka_lite.client import AIOKafkaClient

        core = self._core
        return AIOKafkaClient.of(core.cluster, core.options.request_timeout, core.loop)

    # Private names of aiokafka, listed in `as_aiokafka.private_names`

    @private_name
    def _client(self) -> AIOKafkaClient:
        return self.client

    @private_name
    def _group_id(self) -> str | None:
        group = self._core.group
        return None if group is None else group.options.group_id

    @private_name
    def _enable_auto_commit(self) -> bool:
        return self._core.options.enable_auto_commit

    @private_name
    def _coordinator(self) -> CoordinatorNames:
        group = self._core.group
        if group is None:
            return CoordinatorNames("", None)
        return CoordinatorNames(
            group.driver.membership.member_id,
            self._core.cluster.coordinators.get(CoordinatorKind.GROUP, group.options.group_id),
        )

    @private_name
    def _subscription(self) -> SubscriptionNames:
        return SubscriptionNames(self.subscription())

    # --- subscription and assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others.

        A partition that was already assigned keeps its position. A new one starts where
        `auto_offset_reset` or `seek` sets it.

        Raises:
            IllegalStateError: The consumer is subscribed to topics or a pattern.
            TypeError: An element is not a TopicPartition.
            ValueError: A partition number is below 0 or above 2**31 - 1.
            InvalidTopicError: A request cannot carry a topic name. The broker checks whether the
                name is legal.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._check_not_stopping()
        self._core.subscribing.assign(self._core.subscription.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """Return a new set of the assigned partitions.

        Raises:
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        self._check_home()
        return self._core.assignment.partitions

    def subscribe(
        self,
        topics: Sequence[str] | set[str] = (),
        pattern: str | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, replacing the previous subscription, whose records are no longer
        returned.

        In a group, the members share the partitions, and this consumer joins the next rebalance.
        Without a group, the consumer reads all partitions. A metadata refresh
        (`metadata_max_age_ms`) finds partitions, and with a pattern topics, that are added later.
        Where the group has no committed offset, reading starts at `auto_offset_reset`.

        Args:
            topics: Topic names.
            pattern: A regular expression that is matched from the beginning of each topic name
                (`re.match`), or a `SubscriptionPattern`, which the broker resolves. Pass either
                this or `topics`.
            listener: Called when the group assigns and revokes partitions; never called without
                a group. The rebalance waits for its methods; if one raises, the exception is
                logged and the rebalance continues. A new listener also receives the partitions
                that are already assigned: in a rebalance that this call starts, or, with
                `group_protocol="consumer"`, at the next change.

        Raises:
            TypeError: Neither or both of `topics` and `pattern` are given, or one has the wrong
                type.
            ValueError: The pattern is not a regular expression; or it is a `SubscriptionPattern`
                without `group_protocol="consumer"`.
            InvalidTopicError: A request cannot carry a topic name. Reads raise it later for a
                name that the broker rejects.
            IllegalStateError: Partitions are assigned manually, or the consumer is subscribed in
                the other way.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._check_not_stopping()
        self._core.subscription.subscribe(topics, pattern, listener)
        self._core.subscribing.subscribe()

    def subscription(self) -> frozenset[str]:
        """Return the topics that are subscribed to, matched by the pattern, or those of the
        assigned partitions (also with a pattern that the broker resolves). Safe in any thread."""
        return self._core.subscription.topics

    def unsubscribe(self) -> None:
        """Stop reading and discard all positions. `subscribe` or `assign` may follow.

        The consumer leaves its group in the background: with auto-commit it commits the offsets of
        delivered records, the listener's `on_partitions_revoked` receives all partitions, and the
        group assigns them to the other members.
        """
        self._core.check_home()
        self._core.subscribing.unsubscribe()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions, buffered ones included, until `resume`.

        Raises:
            TypeError: An argument is not a TopicPartition.
            IllegalStateError: A partition is not assigned.
        """
        self._core.check_home()
        for state in self._states(partitions):
            self._core.assignment.pause(state)

    def paused(self) -> set[TopicPartition]:
        """Return a new set of the paused partitions.

        Raises:
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        self._check_home()
        return self._core.assignment.paused

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions. Reading continues after the last delivered record.

        Raises:
            TypeError: An argument is not a TopicPartition.
            IllegalStateError: A partition is not assigned.
        """
        self._core.check_home()
        for state in self._states(partitions):
            self._core.assignment.resume(state)

    # --- reading

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[K, V]:
        """Return the next record, waiting for it if necessary.

        Args:
            *partitions: Read only from these; from any assigned partition by default.

        Raises:
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.
            IllegalStateError: The consumer is not started; or the call comes from a rebalance
                listener, or from another event loop than the consumer's.
            OffsetOutOfRangeError, NoOffsetForPartitionError: With `auto_offset_reset="none"`;
                again on every read until the application seeks.
            TopicAuthorizationFailedError: The consumer is not authorized to read a topic.
            CorruptRecordException: A batch is corrupt. The error names its partition and offset;
                `seek` past it to continue.

        Cancellation: safe; no record is lost.
        """
        if not partitions:
            record = self._core.buffer.delivery.take()
            if record is not None:
                return record
            return await self._core.reader.next_record()
        return await self._core.reader.next_record([as_partition(each) for each in partitions])

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return records by partition: those that are buffered, or the first to arrive.

        Args:
            *partitions: Read only from these; from any assigned partition by default.
            timeout_ms: How long to wait if nothing is buffered.
            max_records: Maximum records in total; `max_poll_records` by default.

        Returns:
            For each partition, at most the records of one fetch response; {} if none arrived in
            time, or if the consumer was stopped meanwhile.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.
            ValueError: `max_records` is not a positive integer.
            IllegalStateError: Called in another event loop than the consumer's.
            KafkaError: As for `getone`.

        Cancellation: safe; no record is lost.
        """
        wanted = [as_partition(each) for each in partitions]
        if self._closed:
            raise ConsumerStoppedError()
        timeout = milliseconds("timeout_ms", timeout_ms, least=-INT64, most=INT64)
        if max_records is not None and not (is_int(max_records) and max_records >= 1):
            raise ValueError("`max_records` must be a positive Integer")
        limit = max_records or self._core.options.max_poll_records
        return await self._core.reader.next_lists(wanted, limit, timeout)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate over all future records; the iteration ends when the consumer is stopped.

        Several tasks may iterate at once: each record goes to one of them. If a subclass overrides
        `getone`, or a tracer patched it before the iteration, each record comes through it.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        if self._closed:
            raise ConsumerStoppedError()
        self._core.check_home()
        self._core.reader.check_begun()
        if self._has_own_getone() and type(self).__anext__ is _ANEXT:
            from aiokafka_lite.consumer.partitions.delivery import RecordStream

            return RecordStream(self._core.buffer.delivery, self._core.reader.next_or_end, self)
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        if not self._has_own_getone():
            try:
                return await self.getone()
            except ConsumerStoppedError:
                raise StopAsyncIteration from None
        record = self._core.buffer.delivery.take()
        return await self._core.reader.next_or_end() if record is None else record

    def _has_own_getone(self) -> bool:
        """True if `getone` is neither overridden nor patched."""
        return type(self).getone is _GETONE and "getone" not in vars(self)

    @overload
    def batches(
        self, *, max_records: int | None = None, columns: Literal[False] = False
    ) -> Batches[RecordBatch[K, V]]: ...

    @overload
    def batches(
        self, *, max_records: int | None = None, columns: Literal[True]
    ) -> Batches[ColumnBatch]: ...

    @overload
    def batches(
        self, *, max_records: int | None = None, columns: Literal["arrow"]
    ) -> Batches[ArrowBatch]: ...

    def batches(
        self, *, max_records: int | None = None, columns: bool | Literal["arrow"] = False
    ) -> Batches[RecordBatch[K, V]] | Batches[ColumnBatch] | Batches[ArrowBatch]:
        """Read in bulk: lists of one partition's records, without an await per record. Not in
        aiokafka.

            async with consumer.batches() as batches:
                async for batch in batches:
                    store(batch.records)
                    await consumer.commit(batch.offsets)

        A batch whose processing raises (within the block) is given back: its partition is read
        again from that batch, and no commit skips it. Blocks in several tasks share the work:
        while one processes a batch, no other receives records of that partition.

        Args:
            max_records: Maximum records of one batch; `max_poll_records` or 2,048 by default.
            columns: True returns columns (numbers and ranges of bytes) instead of records; "arrow"
                returns them as `pyarrow.RecordBatch`, without copying keys and values. Requires a
                consumer without deserializers and interceptors.

        Raises:
            ValueError: `max_records` is not a positive integer.
            KafkaConfigurationError: `columns` is set, but the consumer has deserializers or
                interceptors.
            ImportError: `columns="arrow"` requires pyarrow, which is not installed.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        from aiokafka_lite.consumer.record_batches import BULK, Batches

        self._check_running()
        core = self._core
        if max_records is not None and not (is_int(max_records) and max_records >= 1):
            raise ValueError("`max_records` must be a positive Integer")
        limit = max_records or core.options.max_poll_records or BULK
        as_arrow = isinstance(columns, str) and columns == "arrow"
        if not as_arrow and not flag("columns", columns):
            return Batches(core, core.buffer.take_batch, limit, self)
        if core.options.deserializes:
            raise KafkaConfigurationError(
                f"`columns={columns!r}` returns undecoded bytes: it cannot be combined with "
                "deserializers or interceptors"
            )
        if not as_arrow:
            return Batches(core, core.buffer.take_columns, limit, self)
        from aiokafka_lite.consumer.buffering.arrow_columns import take_arrow

        def give_back(batch: ColumnBatch) -> None:
            state = core.positions.state(batch.topic_partition)
            core.positioning.give_back(state, state.generation, batch.start, batch.start_epoch)

        return Batches(core, take_arrow(core.buffer.take_columns, give_back), limit, self)

    # --- positions

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to deliver, waiting until it is known. After
        `unsubscribe`, the listener may still call this for the revoked partitions.

        Raises:
            IllegalStateError: The partition is not assigned.
            NoOffsetForPartitionError: No position exists, and `auto_offset_reset="none"`.
            KafkaTimeoutError: No broker returned it within `request_timeout_ms`.
        """
        tp = as_partition(partition)
        self._check_running()
        group = self._core.group
        if group is not None and tp in group.parting and tp not in self._core.positions:
            return group.parting[tp].offset
        return await self._core.positioning.position(tp)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the offset after the newest record of an assigned partition, as the last fetch
        reported it; None before the first fetch.

        Raises:
            IllegalStateError: The partition is not assigned, or the call comes from another event
                loop or thread than the consumer's.
        """
        self._check_home()
        return self._core.positions.state(as_partition(partition)).source.highwater

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset, below which every transaction is completed, as the last
        fetch reported it.

        Returns:
            -1 with "read_uncommitted"; None before the first fetch and with brokers before 0.11.

        Raises:
            IllegalStateError: The partition is not assigned, or the call comes from another event
                loop or thread than the consumer's.
        """
        self._check_home()
        return self._core.positions.state(as_partition(partition)).source.last_stable_offset

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return when the last fetch of the partition was answered (with or without records), in
        milliseconds since the epoch; None before the first fetch.

        Raises:
            IllegalStateError: The partition is not assigned, or the call comes from another event
                loop or thread than the consumer's.
        """
        self._check_home()
        return self._core.fetcher.polled_at(self._core.positions.state(as_partition(partition)))

    # --- seeking

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue reading at `offset`. Takes effect before this returns: buffered records are
        discarded.

        Args:
            offset: An OffsetAndMetadata may carry the leader epoch of the record before the
                offset. If the log was truncated since, reading resumes where the logs diverge, or
                raises LogTruncationError, as for committed offsets (KIP-320). Not in aiokafka.

        Raises:
            ValueError: The offset is not an integer, is negative, or is above 2**63 - 1; or its
                leader epoch is below -1 or above 2**31 - 1.
            TypeError: The leader epoch is not an integer.
            IllegalStateError: The partition is not assigned.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        epoch = None
        if isinstance(offset, OffsetAndMetadata):
            epoch = known_epoch(partition, offset.leader_epoch)
            offset = offset.offset
        if not is_int(offset) or offset < 0:
            raise ValueError("Offset must be a positive integer")
        if offset > INT64:
            raise ValueError(f"Offset must be at most {INT64}, not {offset}")
        self._check_running()
        state = self._core.positions.state(as_partition(partition))
        self._core.positioning.seek(state, offset, epoch)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Continue reading at the oldest record; returns when the positions are known.

        Args:
            *partitions: All assigned partitions by default.

        Returns:
            True.

        Raises:
            TypeError: An argument is not a TopicPartition.
            IllegalStateError: A partition is not assigned, or no partition is.
            KafkaTimeoutError: A position was not known within `request_timeout_ms`; the lookup
                continues.

        Cancellation: stops the wait; the seek still takes place.
        """
        await self._core.positioning.reset(self._states_or_all(partitions), OffsetReset.EARLIEST)
        return True

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Continue reading after the newest record (with "read_committed": at the last stable
        offset); returns when the positions are known. Otherwise like `seek_to_beginning`."""
        await self._core.positioning.reset(self._states_or_all(partitions), OffsetReset.LATEST)
        return True

    # --- committed offsets

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata] | None = None,
    ) -> None:
        """Commit offsets to the group, which resumes reading there.

        Retriable errors (the coordinator moves, a topic is not known yet) are retried for
        `request_timeout_ms`. Commits of one consumer take effect in the order of the calls.

        If a partition was revoked from this consumer and assigned to it again, its offsets are
        refused until the next read by any task. From then on every offset is accepted, even one of
        a record read before the rebalance (as in aiokafka and Java). A task that commits while
        another one reads must drop the offsets of revoked partitions, in a rebalance listener.

        Args:
            offsets: The offset of the next record to read, by partition. (offset, metadata) adds
                any text; an OffsetAndMetadata may carry a leader epoch. By default, the offsets
                of the delivered records of all assigned partitions. After `unsubscribe`, the
                listener may still commit the revoked partitions.

        Raises:
            IllegalOperation: The consumer has no `group_id`.
            IllegalStateError: The consumer has no subscription, or a partition was never assigned.
            ValueError: `offsets` is not such a dict, or is empty; an offset is negative.
            TypeError: A key is not a TopicPartition, or metadata is not a str.
            CommitFailedError: The group has rebalanced or is rebalancing, and may have assigned
                the partitions to another member; the cause is the broker's error.
            PartitionsRevokedError: A CommitFailedError: a rebalance took a partition in `offsets`
                from this consumer; without `offsets`, all of its partitions, and it is no member.
            FencedInstanceIdError: Another process uses the same `group_instance_id`.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Not authorized.
            OffsetMetadataTooLargeError: Metadata exceeds the broker's
                `offset.metadata.max.bytes`.
            KafkaTimeoutError: Not completed within `request_timeout_ms`; the cause is the last
                error.
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.

        Cancellation: stops the wait; the commit may still take place.
        """
        group = self._group()
        core, commits, parting = self._core, group.commits, group.parting
        if not (core.subscription.manual or core.subscription.shared or parting):
            raise IllegalStateError("Not subscribed to any topics")
        if not (len(core.positions) or commits.member or parting):
            # If the group removed this member, the application made no mistake either.
            group.check_commit(
                group.leases.ever_given_up if offsets is None else offsets_to_commit(offsets)
            )
            raise IllegalStateError("No partitions assigned")
        if offsets is None:
            wanted = {**parting, **commits.given()}
        else:
            wanted = offsets_to_commit(offsets)
            assigned = [tp for tp in wanted if tp not in parting]
            group.check_commit(assigned)  # first: a rebalance is not the caller's error
            for tp in assigned:
                core.positions.state(tp)
        await self._unless_stopped(commits.commit(wanted, core.deadline()))

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the group's committed offset of a partition, assigned or not.

        Returns:
            The offset of the next record to read; None if nothing was committed, or if the
            partition does not exist.

        Raises:
            IllegalOperation: The consumer has no `group_id`.
            TypeError: The argument is not a TopicPartition.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Not authorized.
            KafkaTimeoutError: No answer within `request_timeout_ms`; also if an open transaction
                that may change the offset is not completed in time.
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.

        Cancellation: safe.
        """
        commits = self._group().commits
        tp = as_partition(partition)
        found = await self._unless_stopped(commits.committed([tp], self._core.deadline()))
        return found[tp].offset if tp in found else None

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Continue reading at the group's committed offsets, where they exist.

        The offsets of records read before can no longer be sent to a transaction, because those
        records are read again. Abort the transaction first. If another task reads meanwhile, the
        committed offsets are fetched again, because it may have committed them.

        Args:
            *partitions: All assigned partitions by default.

        Returns:
            The committed offset of each partition; None if there is none, and its position does
            not change.

        Raises:
            IllegalStateError: A partition is not assigned, or no partition is.
            IllegalOperation, TypeError, KafkaError, ConsumerStoppedError: As for `committed`.

        Cancellation: safe; no position has changed.
        """
        states = self._states_or_all(partitions)
        wanted = [state.tp for state in states]
        core = self._core
        deadline = core.deadline()
        while True:
            # Before the request is sent: it may overtake offsets that are in flight.
            core.leases.on_reread(wanted)
            before = [state.position for state in states]
            found = await self._unless_stopped(self._group().commits.committed(wanted, deadline))
            current = [core.positions.get(state.tp) is state for state in states]
            if all(
                state.position == position or not is_current
                for state, position, is_current in zip(states, before, current, strict=True)
            ):
                break
            # Another task has read, and perhaps committed, records since the request was sent.
        for state, is_current in zip(states, current, strict=True):
            commit = found.get(state.tp)
            if commit is not None and is_current:
                core.positioning.seek(state, commit.offset, commit.leader_epoch)
        return {tp: found[tp].offset if tp in found else None for tp in (s.tp for s in states)}

    # --- queries

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not. No position changes.

        Raises:
            KafkaTimeoutError: No answer within `request_timeout_ms`; also for a partition that
                does not exist.

        Cancellation: safe.
        """
        from aiokafka_lite.consumer.offsets.offset_lookup import EARLIEST

        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition (with "read_committed": the
        last stable offset). Otherwise like `beginning_offsets`."""
        from aiokafka_lite.consumer.offsets.offset_lookup import LATEST

        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record of each partition whose timestamp is at or after a given time.

        Args:
            timestamps: Milliseconds since the epoch by partition, assigned or not.

        Returns:
            The record's offset and timestamp; None if there is no such record.

        Raises:
            TypeError: `timestamps` is not a dict, or a time is not an integer.
            ValueError: A time is negative, or above 2**63 - 1.
            UnsupportedVersionError: Brokers before 0.10.1 do not support this search.
            KafkaTimeoutError: As for `beginning_offsets`.

        Cancellation: safe.
        """
        times: dict[TopicPartition, int] = {}
        if not isinstance(timestamps, Mapping):
            raise TypeError(
                f"`timestamps` should be a dict of times by TopicPartition, not {timestamps!r}"
            )
        for partition, timestamp in timestamps.items():
            tp = as_partition(partition)
            times[tp] = whole(f"timestamps[{tp}]", timestamp, least=-INT64)
            if times[tp] < 0:
                raise ValueError(
                    f"The target time for partition {tp} is {timestamp}."
                    " The target time cannot be negative."
                )
        self._check_running()
        found = await self._unless_stopped(self._offsets(times, search=True))
        return {tp: _offset_and_timestamp(found[tp]) for tp in times}

    async def topics(self) -> set[str]:
        """Return the names of all topics this client may describe, except internal ones.

        Raises:
            KafkaTimeoutError: No broker answered within `request_timeout_ms`.
        """
        from aiokafka_lite.consumer.offsets import queries

        self._check_running()
        return await self._unless_stopped(
            queries.topic_names(self._core.cluster, self._core.deadline())
        )

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return a new set of the partitions of a topic; None if the metadata lacks the topic.
        Safe in any thread."""
        known = self._core.cluster.metadata.topics.get(topic)
        if known is None or not known.partitions:
            return None
        return set(known.partitions)

    # --- the group

    def enforce_rebalance(self, reason: str = "") -> None:
        """Request a rebalance of the group in the background. Not in aiokafka (KIP-568).

        With `group_protocol="consumer"` the broker decides whether to rebalance; this sends a
        heartbeat at once.

        Args:
            reason: For the coordinator's log.

        Raises:
            IllegalOperation: There is no group.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._group().enforce_rebalance(reason or "the application requested it")

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member's group metadata as of its last read, for a transaction that commits
        the offsets of those records. Not in aiokafka (KIP-447).

        The coordinator rejects it after a rebalance. In addition, the object records which
        partitions were revoked from this consumer after the read: a producer in this process
        raises CommitFailedError for their offsets, even if the consumer was assigned them again in
        the same generation. Pass this object itself: only the coordinator checks one that was
        pickled or created by the application.

        Returns:
            The group id, the generation (-1 outside the group), the member id ("" outside the
            group) and the `group_instance_id`.

        Raises:
            IllegalOperation: There is no group.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        return self._group().metadata

    # --- health and metrics

    def health(self) -> ConsumerHealth:
        """Return whether the consumer can work now, and whether it can recover if not. Not in
        aiokafka.

        It sends nothing: the result is what the client already knows. `client.ping()` asks a
        broker. docs/observability.md has a table of situations.

        Raises:
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        self._check_home()
        from aiokafka_lite.consumer.consumer_health import consumer_health

        return consumer_health(self._core, self._health_clock, stopped=self._closed)

    def metrics(self) -> dict[str, float | None]:
        """Return the consumer's metrics under Kafka's names; see docs/consumer.md. Not in aiokafka.

        Averages and rates cover the last 30 to 60 seconds; times are milliseconds. An average, a
        maximum or a minimum is None if nothing was measured (Java returns NaN), so the dict is
        valid JSON. Group metrics are present only with a group.

        Raises:
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        self._check_home()
        return self._core.metrics.values()

    def node_metrics(self) -> dict[int, dict[str, float | None]]:
        """Return the metrics of each broker by its node id, under the names of Kafka's node
        metrics. Not in aiokafka.

        Requests of all kinds count. Latencies cover the last 30 to 60 seconds.

        Raises:
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        self._check_home()
        return self._core.cluster.node_metrics(self._core.loop.time())

    def partition_metrics(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, dict[str, float | None]]:
        """Return `records-lag` and `records-lead` of each assigned partition. Not in aiokafka.

        The lag counts to the end of the readable records, the lead from the first record, both as
        the last fetch reported them. They are None if no fetch was answered within the last 30
        seconds, and while the broker is unreachable, rather than outdated. The end of a partition
        that is not being fetched (it is paused, or its buffered records are not read) is looked
        up in the background, every two seconds while this or `metrics` is called.

        Args:
            *partitions: Only these, without those that are not assigned; all by default.

        Raises:
            TypeError: An argument is not a TopicPartition.
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        self._check_home()
        core = self._core
        states: Iterable[PartitionState] = core.positions
        if partitions:
            found = (core.positions.get(as_partition(tp)) for tp in partitions)
            states = [state for state in found if state is not None]
        return core.metrics.of_partitions(states)

    def _observe(
        self, slice_size: int
    ) -> Generator[None, None, tuple[dict[str, float | None], list[PartitionLag]]]:
        """Read `metrics` and the lag of each partition, in slices of `slice_size` partitions."""
        self._check_home()
        return self._core.metrics.observe(slice_size)

    def _metrics_push(self) -> MetricsPush:
        self._check_home()
        return self._core.push

    def _identity(self) -> tuple[asyncio.AbstractEventLoop, str, str | None]:
        """The event loop, the client id and the group, for the packages that observe clients."""
        core = self._core
        group = None if core.group is None else core.group.options.group_id
        return core.loop, core.cluster.client_id, group

    # --- checks and lookups

    def _check_not_stopping(self) -> None:
        """Reject changes once `stop` has started. A listener may still commit then."""
        if self._core.stopping:
            raise self._core.ended()
        self._core.check_home()

    def _group(self) -> ConsumerGroup:
        """Return the group.

        Raises:
            IllegalOperation: The consumer has no group.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        if self._core.group is None:
            raise IllegalOperation("Requires group_id")
        self._check_running()
        return self._core.group

    def _check_home(self) -> None:
        """Raise outside the consumer's event loop. A stopped consumer no longer changes, and may be
        inspected from anywhere, also when its loop is closed."""
        if not self._core.closed:
            self._core.check_home()

    def _check_running(self) -> None:
        if self._core.closed:
            raise self._core.ended()
        self._core.check_home()

    async def _unless_stopped(self, call: Awaitable[_T]) -> _T:
        """Await a cluster call; raise ConsumerStoppedError if the consumer is stopped meanwhile."""
        try:
            return await call
        except IllegalStateError:
            if self._core.closed:
                raise ConsumerStoppedError() from None
            raise

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        wanted = as_partitions(partitions)
        return [self._core.positions.state(tp) for tp in wanted]

    def _states_or_all(self, partitions: Collection[TopicPartition]) -> list[PartitionState]:
        self._check_running()
        states = self._states(partitions) if partitions else list(self._core.positions)
        if not states:
            raise IllegalStateError("No partitions are currently assigned")
        return states

    async def _offsets(
        self, times: Mapping[TopicPartition, int], *, search: bool = False
    ) -> dict[TopicPartition, Found]:
        from aiokafka_lite.consumer.offsets import queries

        core = self._core
        isolation = core.options.isolation_level
        return await queries.offsets_at(
            core.cluster, times, core.deadline(), isolation=isolation, search=search
        )

    async def _ends(
        self, partitions: Iterable[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        wanted = as_partitions(partitions)
        self._check_running()
        found = await self._unless_stopped(self._offsets(dict.fromkeys(wanted, which)))
        return {tp: max(found[tp].offset, 0) for tp in wanted}


_GETONE, _ANEXT = AIOKafkaConsumer.getone, AIOKafkaConsumer.__anext__


def _offset_and_timestamp(found: Found) -> OffsetAndTimestamp | None:
    if found.offset < 0:
        return None
    epoch = None if found.leader_epoch < 0 else found.leader_epoch
    return OffsetAndTimestamp(found.offset, found.timestamp, epoch)


def _deprecated(message: str) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)
