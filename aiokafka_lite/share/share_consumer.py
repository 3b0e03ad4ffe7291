"""AIOKafkaShareConsumer, the public class: it checks arguments and documents the API.

The work is done in `share_core`. Only the application refers to an `AIOKafkaShareConsumer`. One
that is dropped without `stop` warns, and its tasks and connections end.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import signature
from os import PathLike
from typing import Any, Generic, Never, Self, overload

from aiokafka_lite import _arguments
from aiokafka_lite._arguments import (
    INT32,
    INT64,
    as_partition,
    flag,
    is_int,
    milliseconds,
    topic_names,
    whole,
)
from aiokafka_lite._consumer_record import K, V
from aiokafka_lite._version import __version__
from aiokafka_lite.abc import AbstractTokenProvider, ConsumerInterceptor
from aiokafka_lite.client import AIOKafkaClient
from aiokafka_lite.cluster.bootstrap import parse_bootstrap
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import ConsumerStoppedError, IllegalOperation, IllegalStateError
from aiokafka_lite.metrics_push.application_metrics import ApplicationMetrics
from aiokafka_lite.metrics_push.metrics_push import MetricsPush
from aiokafka_lite.metrics_push.push_calls import MetricsPushCalls
from aiokafka_lite.net.aws.aws_credentials import AwsCredentials, CredentialSource
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.reading.consumer_lifecycle import ConsumerLifecycle
from aiokafka_lite.share.acknowledge_type import AcknowledgeType
from aiokafka_lite.share.handling.run_options import TRANSIENT, RunOptions
from aiokafka_lite.share.handling.worker import Worker
from aiokafka_lite.share.records.record_marks import Acknowledgement
from aiokafka_lite.share.share_core import ShareCore, mark
from aiokafka_lite.share.share_health import share_health
from aiokafka_lite.share.share_options import refuse_options, share_options
from aiokafka_lite.share.share_record import ShareRecord, ShareRecords
from aiokafka_lite.structs import ConsumerHealth, TopicPartition

__all__ = ["AIOKafkaShareConsumer"]

Record = ShareRecord[Any, Any]


class AIOKafkaShareConsumer(ConsumerLifecycle[ShareCore], MetricsPushCalls, Generic[K, V]):
    """Reads records as a member of a share group, which uses topics as queues (KIP-932).

        async with AIOKafkaShareConsumer("jobs", group_id="workers") as consumer:
            async for record in consumer:
                await process(record)
                record.accept()

    The group delivers each record to one member at a time, locks it for that member, and delivers
    it again unless the member accepts or rejects it before the lock expires. A record may therefore
    be processed more than once. A group may have more members than partitions. Requires Kafka 4.1
    or newer (generally available from 4.2 on).

    The brokers store the group's settings, such as the lock duration, the delivery limit, and where
    a new group starts: `share.auto.offset.reset` is "latest" by default. Change them with
    `AIOKafkaAdminClient.incremental_alter_configs`.

    Args:
        *topics: Topics to subscribe to. Alternatively, call `subscribe` later.
        bootstrap_servers: "host[:port]", several of them separated by commas, or a list. The first
            broker that answers returns the addresses of the others.
        client_id: Name of this client in the brokers' logs and quotas.
        group_id: Name of the share group. A group of another type cannot have the same name.
        max_poll_records: Records to acquire at once. `getmany` can ask for fewer.
        acquire_mode: "record_limit": a read acquires at most the records that it can take, so that
            locks and deliveries begin when the work can (KIP-1206). "batch_optimized": brokers
            may acquire whole batches, and each leader is asked for `max_poll_records`.
        acknowledgement_mode: "explicit": the application acknowledges each record. "implicit", as
            in Java: each read, and `flush`, accepts all records that were delivered before; `stop`
            releases those of the last read.
        on_undecodable: What happens to a record whose deserializer raises, or whose batch is
            corrupt: "reject" or "release" it with a log line, or "raise" the error from the read.
            Then the application acknowledges the record by topic, partition and offset; see
            `UndeserializedRecord`.
        key_deserializer: Called with each key (bytes or None); its result becomes the record's key.
            Or an `abc.RecordDeserializer`, which also receives the topic and the headers.
        value_deserializer: Likewise for values.
        check_crcs: Check the CRC of each batch.
        interceptors: `aiokafka_lite.abc.ConsumerInterceptor` objects. They see the records of each
            response before a read returns them, may change them, and may omit some; omitted records
            are accepted. They cannot replace a record by another, which would have no lock. Their
            `on_commit` is never called.
        client_rack: The rack of this client, for the broker's assignor.
        fetch_max_wait_ms: How long a broker may wait for `fetch_min_bytes` of new records, at most
            a quarter of the time that it locks records.
        fetch_min_bytes: Bytes that end a broker's wait.
        fetch_max_bytes: Maximum bytes of one response. A single larger batch is still delivered.
        max_poll_interval_ms: After this long without a read, the consumer leaves the group until
            the next read. Its records may still be acknowledged.
        request_timeout_ms: Deadline of each request, and of each call that sends requests.
        default_api_timeout_ms: Deadline of each call that sends requests; `request_timeout_ms` by
            default.
        retry_backoff_ms: First pause after a failure; later ones grow up to
            `retry_backoff_max_ms`.
        retry_backoff_max_ms: Upper limit of the pauses between attempts.
        metadata_max_age_ms: How often to refresh the metadata even if nothing seems to have
            changed.
        allow_auto_create_topics: Allow a subscription to create a topic, on brokers that create
            topics automatically.
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
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
        connections_max_idle_ms: Idle connections are closed after this time; None for never.
        reconnect_backoff_ms, reconnect_backoff_max_ms: Pauses between attempts to connect to a
            broker.
        socket_connection_setup_timeout_ms: How long a connection to one address may take, TLS
            handshake included.
        socket_connection_setup_timeout_max_ms: Upper limit of that time, which doubles with each
            failed attempt to connect to a broker (KIP-601).
        send_buffer_bytes, receive_buffer_bytes: Sizes of the socket buffers; -1 for the operating
            system's default.
        bootstrap_timeout_ms: How long `start` and `async with` keep trying to reach a first
            broker. By default each address is tried once, and a failure is raised at once.
        enable_metrics_push: Push metrics to the brokers, if they have a subscription that matches
            this client (KIP-714). Costs nothing with brokers that do not collect metrics.

    Raises:
        TypeError: An argument is unknown (the message suggests the nearest name) or has the wrong
            type.
        ValueError: A value is invalid, or the option is one that a share group cannot have.
    """

    _NAME = "AIOKafkaShareConsumer"
    _KIND = "share consumer"

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Sequence[str] = "localhost",
        client_id: str = f"aiokafka-lite-{__version__}",
        group_id: str | None = None,
        max_poll_records: int = 500,
        acquire_mode: str = "record_limit",
        acknowledgement_mode: str = "explicit",
        on_undecodable: str = "reject",
        key_deserializer: Callable[[Any], K] | None = None,
        value_deserializer: Callable[[Any], V] | None = None,
        check_crcs: bool = True,
        interceptors: Sequence[ConsumerInterceptor] = (),
        client_rack: str | None = None,
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 52428800,
        max_poll_interval_ms: int = 300000,
        request_timeout_ms: int = 40000,
        default_api_timeout_ms: int | None = None,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000,
        metadata_max_age_ms: int = 300000,
        allow_auto_create_topics: bool = True,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        sasl_mechanism: str | None = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_kerberos_principal: str | None = None,
        sasl_kerberos_keytab: str | PathLike[str] | None = None,
        sasl_kerberos_cache: str | None = None,
        sasl_scram_tokenauth: bool = False,
        sasl_aws_credentials: AwsCredentials | CredentialSource | None = None,
        sasl_aws_region: str | None = None,
        connections_max_idle_ms: int | None = 540000,
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
        face = AIOKafkaShareConsumer.__name__
        refuse_options(unknown, signature(AIOKafkaShareConsumer).parameters, face)
        loop = _arguments.running_loop(face)
        for topic in topics:
            if not isinstance(topic, str):
                raise TypeError(
                    f"{face} takes each topic as a separate argument, "
                    f'{face}("a", "b") or {face}(*topics), not {topic!r}'
                )
        options = share_options(
            client_id=client_id,
            group_id=group_id,
            max_poll_records=max_poll_records,
            acquire_mode=acquire_mode,
            acknowledgement_mode=acknowledgement_mode,
            on_undecodable=on_undecodable,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            check_crcs=check_crcs,
            interceptors=interceptors,
            client_rack=client_rack,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_bytes=fetch_max_bytes,
            max_poll_interval_ms=max_poll_interval_ms,
            request_timeout_ms=request_timeout_ms,
            default_api_timeout_ms=default_api_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
        )
        max_age = milliseconds("metadata_max_age_ms", metadata_max_age_ms, most=INT64)
        connections = connection_options(
            client_id=client_id,
            request_timeout=options.request_timeout,
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
        subscribed = topic_names(topics)
        pushes, application = flag("enable_metrics_push", enable_metrics_push), ApplicationMetrics()

        def make_core(topics: frozenset[str]) -> ShareCore:
            cluster = Cluster(
                addresses,
                connections,
                metadata_max_age=max_age,
                retry_backoff=retry_backoff_ms / 1000,
                retry_backoff_max=retry_backoff_max_ms / 1000,
                allow_auto_create_topics=auto_create,
            )
            push = MetricsPush(cluster, application, loop, enabled=pushes)
            core = ShareCore(cluster, options, push, loop)
            core.topics = topics
            return core

        self._make_core = make_core
        self._workers: list[Worker[Record]] = []
        super().__init__(make_core(subscribed), bootstrap_timeout)

    def _core_after(self, failed: ShareCore) -> ShareCore:
        return self._make_core(failed.topics)

    # --- lifecycle

    async def start(self) -> None:
        """Connect to the cluster, wait until the topics exist, and join the group.

        With a subscription, `start` waits until the coordinator has assigned partitions, for a few
        seconds at most if there is none for this member. If the group is new and begins at
        `latest`, `start` also waits until the brokers have looked up the ends of the partitions,
        for 5 seconds at most, and one record for each leader may be acquired meanwhile. Otherwise
        nothing is acquired before the first read.

        Raises:
            KafkaConnectionError: No bootstrap address answered (within `bootstrap_timeout_ms`, if
                set).
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: The client lacks rights.
            UnsupportedVersionError: The brokers have no share groups.
            KafkaTimeoutError: No group coordinator was available within `request_timeout_ms`.
            UnknownTopicOrPartitionError: A topic did not exist within `request_timeout_ms`.
            IllegalStateError: The consumer was already started or stopped, or belongs to another
                event loop.
            ConsumerStoppedError: `stop` was called meanwhile.

        After a failure `start` can be called again.

        Cancellation: closes what was opened; `start` can be called again.
        """
        await self._start()

    async def stop(self) -> None:
        """Send all acknowledgements, release the other records, leave the group, and close all
        connections. Idempotent; works after a failed `start`. A `run` ends first: its handlers get
        its `drain_timeout_ms`.

        Pending `getone` calls raise ConsumerStoppedError, pending `getmany` calls return no
        records, and `async for` ends. Returns within about five seconds, even if brokers do not
        answer.

        Raises:
            IllegalStateError: Called in another event loop than the consumer's, or by a handler of
                `run`, which would wait for itself; nothing was stopped.

        Cancellation: the connections are still closed. Acknowledgements may not be sent, and
            records may stay locked until their locks expire.
        """
        if self._core.refusal is not None:
            return  # a forked child has nothing to stop
        if not self._core.closed:
            self._core.check_home()
        for worker in self._workers:
            worker.check_caller()
        try:
            for worker in list(self._workers):
                await worker.stop()
        finally:
            self._closed = True
            await self._core.stop()

    @property
    def client(self) -> AIOKafkaClient:
        """A client that shares the consumer's connections and metadata.

        After a failed `start`, get it again.
        """
        core = self._core
        return AIOKafkaClient.of(core.cluster, core.options.request_timeout, core.loop)

    # --- subscription

    def subscribe(self, topics: Sequence[str] | set[str], pattern: object = None) -> None:
        """Subscribe to topics, replacing the previous subscription.

        Records of other topics that no read has returned yet are released; those that were
        delivered may still be acknowledged. Once the consumer is started, the brokers look up in
        the background where a new group at `latest` begins, as they do for `start`.

        Args:
            topics: Topic names.
            pattern: Not supported by share groups.

        Raises:
            TypeError: `topics` is not a sequence or set of names.
            ValueError: `topics` is empty; call `unsubscribe` instead.
            InvalidTopicError: A request cannot carry a topic name. Reads raise it later for a
                name that the broker rejects.
            IllegalOperation: A pattern was passed.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        if pattern is not None:
            raise IllegalOperation("share groups do not subscribe by pattern: pass topic names")
        self._check_open()
        names = topic_names(topics)
        if not names:
            raise ValueError("`topics` should not be empty: call unsubscribe() instead")
        self._core.subscribe(names)

    def subscription(self) -> frozenset[str]:
        """Return the topics that are subscribed to. Safe in any thread."""
        return self._core.topics

    def unsubscribe(self) -> None:
        """Stop reading and leave the group in the background. Records that were delivered may
        still be acknowledged; the others are released. `subscribe` may follow.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._check_open()
        self._core.subscribe(frozenset())

    # --- reading

    async def getone(self) -> ShareRecord[K, V]:
        """Return the next record, waiting for it if necessary.

        If none is buffered, up to `max_poll_records` are acquired at once, for further reads.

        Raises:
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.
            IllegalStateError: The consumer is not started, or belongs to another event loop.
            TopicAuthorizationFailedError, GroupAuthorizationFailedError: The client lacks rights.
            Exception: The next record could not be decoded, with `on_undecodable="raise"`.

        Cancellation: safe; no record is lost.
        """
        core = self._core
        return core.reads.take_next() or await core.reads.next_record()

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> ShareRecords[K, V]:
        """Return records: those that are buffered, or the first to arrive.

        Args:
            timeout_ms: How long to wait if nothing is buffered.
            max_records: Maximum records, and with `acquire_mode="record_limit"` also the maximum
                to acquire, less what is buffered; `max_poll_records` by default.

        Returns:
            A sequence of records whose `accept`, `release`, `reject` and `renew` acknowledge all of
            them; empty if none arrived in time, or if the consumer was stopped meanwhile.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.
            ValueError: `max_records` is not a positive integer.
            KafkaError: As for `getone`.

        Cancellation: safe; no record is lost.
        """
        if self._closed:
            raise ConsumerStoppedError()
        timeout = milliseconds("timeout_ms", timeout_ms, least=-INT64, most=INT64)
        if max_records is not None and not (is_int(max_records) and max_records >= 1):
            raise ValueError("`max_records` must be a positive Integer")
        try:
            deadline = self._core.loop.time() + timeout
            return ShareRecords._of(await self._core.reads.next_records(max_records, deadline))
        except ConsumerStoppedError:
            return ShareRecords()

    async def run(
        self,
        handler: Callable[[ShareRecord[K, V]], Awaitable[object]],
        *,
        concurrency: int = 100,
        retry: tuple[type[Exception], ...] | type[Exception] = TRANSIENT,
        retry_delay_ms: float = 500,
        ordered_by_key: bool = False,
        renew_locks: bool = True,
        drain_timeout_ms: float = 20_000,
    ) -> None:
        """Call a coroutine function for each record, many at a time.

            async def handle(record):
                await charge(record.value)

            await consumer.run(handle, concurrency=50, retry=(TimeoutError,))

        A record is accepted when its handler returns, unless the handler acknowledged it. An
        exception of `retry` releases the record after `retry_delay_ms`, doubled with each delivery
        (at most a minute); any other exception rejects it. Both are logged, at most five lines of a
        kind in ten seconds. At most `concurrency` records are acquired at a time. Locks are renewed
        while records wait or are handled. When a lock is lost, its handler is cancelled.

        Args:
            handler: Called with each record, in tasks of the consumer.
            concurrency: How many records are handled at a time, 1 to 100,000.
            retry: Exceptions after which the record is delivered again, until it reaches the
                group's limit of deliveries.
            retry_delay_ms: How long the record stays locked after its first failure. The protocol
                redelivers a released record at once.
            ordered_by_key: True to handle records of one key and partition one after another, in
                the order of their offsets as far as they are acquired. Other members may handle
                records of the same key at the same time.
            renew_locks: False to let a handler have only the group's lock duration.
            drain_timeout_ms: How long handlers may take to end after `stop`; then they are
                cancelled, and their records released.

        Returns:
            After `stop`, once all handlers have ended.

        Raises:
            TypeError, KafkaConfigurationError: An argument is invalid, or `handler` does not take a
                record.
            IllegalStateError: The consumer is not started, or acknowledges implicitly.
            KafkaError: Records can no longer be acquired, for example because the client may not
                read the topic.

        Cancellation: handlers are cancelled and their records released.
        """
        options = RunOptions.checked(
            handler,
            concurrency=concurrency,
            retry=retry,
            retry_delay_ms=retry_delay_ms,
            ordered_by_key=ordered_by_key,
            renew_locks=renew_locks,
            drain_timeout_ms=drain_timeout_ms,
        )
        self._check_open()
        core = self._core
        core.check_home()
        if core.options.implicit:
            raise IllegalStateError(
                "run() acknowledges each record: create the consumer with"
                ' acknowledgement_mode="explicit"'
            )

        def on_full() -> None:
            # Running handlers must not make the member leave the group after
            # `max_poll_interval_ms`.
            core.group.poll(waiting=True)

        read = getattr(self.getmany, "__func__", None) is AIOKafkaShareConsumer.getmany
        worker = Worker(
            self,
            handler,
            options,
            core.cluster.client_id,
            core.cluster.retry_backoff,
            on_full,
            core.reads if read else None,  # otherwise it is instrumented, or overridden
        )
        self._workers.append(worker)
        core.lock_watchers.append(worker.check_locks)
        try:
            await worker.run()
        finally:
            self._workers.remove(worker)
            core.lock_watchers.remove(worker.check_locks)

    def __aiter__(self) -> Self:
        """Iterate over all future records; the iteration ends when the consumer is stopped.

        Several tasks may iterate at once: each record goes to one of them.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._check_open()
        return self

    async def __anext__(self) -> ShareRecord[K, V]:
        try:
            if "getone" in vars(self):  # instrumented
                return await self.getone()
            core = self._core
            return core.reads.take_next() or await core.reads.next_record()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    # --- acknowledging

    @overload
    def acknowledge(
        self, record: ShareRecord[K, V], type: AcknowledgeType = AcknowledgeType.ACCEPT, /
    ) -> Acknowledgement: ...

    @overload
    def acknowledge(
        self,
        topic: str,
        partition: int,
        offset: int,
        type: AcknowledgeType = AcknowledgeType.ACCEPT,
        /,
    ) -> Acknowledgement: ...

    def acknowledge(self, *arguments: Any) -> Acknowledgement:
        """Acknowledge a record: `acknowledge(record, type)`, or
        `acknowledge(topic, partition, offset, type)` for one that could not be decoded.

        Equivalent to `accept`, `release`, `reject` or `renew` of the record; `type` is ACCEPT by
        default.

        Raises:
            IllegalStateError: The record was acknowledged before, is not locked for this consumer,
                or the mode is implicit.
            TypeError: An argument has the wrong type.
        """
        if arguments and isinstance(arguments[0], ShareRecord) and len(arguments) <= 2:
            record = arguments[0]
            kind = _type(arguments[1] if len(arguments) == 2 else AcknowledgeType.ACCEPT)
            return mark(record._marks, record.offset, kind)
        if len(arguments) not in (3, 4) or isinstance(arguments[0], ShareRecord):
            raise TypeError(
                "acknowledge() takes (record[, type]) or (topic, partition, offset[, type]), not "
                f"{arguments!r}"
            )
        tp = TopicPartition(*as_partition(tuple(arguments[:2])))
        offset = whole("offset", arguments[2])
        kind = _type(arguments[3] if len(arguments) == 4 else AcknowledgeType.ACCEPT)
        return self._core.acknowledge(tp, offset, kind)

    async def flush(self) -> None:
        """Send all acknowledgements now, and wait until each has a result. With
        `acknowledgement_mode="implicit"`, first accept all delivered records.

        Failures are raised by the acknowledgements themselves, or logged.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.

        Cancellation: stops the wait, never the acknowledgements.
        """
        await self._core.flush()

    # --- information

    def assignment(self) -> set[TopicPartition]:
        """Return a new set of the assigned partitions; other members may have them, too."""
        self._core.check_home()
        return set(self._core.assignment)

    @property
    def acquisition_lock_timeout_ms(self) -> float | None:
        """How long the brokers lock records, in milliseconds, as they last reported it; None before
        the first fetch. The group's `share.record.lock.duration.ms` sets it."""
        timeout = self._core.lock_timeout
        return None if timeout is None else 1000 * timeout

    def health(self) -> ConsumerHealth:
        """Return whether the consumer can work now, and whether it can recover if not. Not in
        aiokafka.

        It sends nothing: the result is what the client already knows. `client.ping()` asks a
        broker. docs/observability.md has a table of situations.

        Raises:
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        core = self._core
        if not core.closed:
            core.check_home()
        return share_health(core, self._health_clock, stopped=self._closed)

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics under Kafka's names; rates and averages cover the last 30 to 60
        seconds. A value that was not measured yet is None. Safe to call at any time."""
        return self._core.metric_values()

    def node_metrics(self) -> dict[int, dict[str, float | None]]:
        """Return the metrics of each broker by its node id, under the names of Kafka's node
        metrics. Not in aiokafka.

        Requests of all kinds count. Latencies cover the last 30 to 60 seconds.

        Raises:
            IllegalStateError: Called in another event loop or thread than the consumer's.
        """
        core = self._core
        if not core.closed:
            core.check_home()
        return core.cluster.node_metrics(core.loop.time())

    def _metrics_push(self) -> MetricsPush:
        self._core.check_home()
        return self._core.push

    def _identity(self) -> tuple[asyncio.AbstractEventLoop, str, str | None]:
        """The event loop, the client id and the group, for the packages that observe clients."""
        core = self._core
        return core.loop, core.cluster.client_id, core.group.driver.group_id

    # --- what a share group cannot do

    def seek(self, *arguments: object, **keywords: object) -> Never:
        """Share groups have no positions.

        Raises:
            IllegalOperation: Always.
        """
        raise IllegalOperation(
            "a share group has no positions to seek to: alter the group's offsets with "
            "AIOKafkaAdminClient.alter_share_group_offsets"
        )

    def assign(self, *arguments: object, **keywords: object) -> Never:
        """The group's coordinator assigns partitions.

        Raises:
            IllegalOperation: Always.
        """
        raise IllegalOperation(
            "the coordinator of a share group assigns its partitions: call subscribe()"
        )

    async def commit(self, *arguments: object, **keywords: object) -> Never:
        """Share groups have no committed offsets.

        Raises:
            IllegalOperation: Always.
        """
        raise IllegalOperation(
            "a share group commits no offsets: acknowledge records, and call flush() to wait"
        )

    def _check_open(self) -> None:
        self._core.check_home()
        if self._closed or self._core.stopping:
            raise ConsumerStoppedError()


def _type(value: object) -> AcknowledgeType:
    if isinstance(value, AcknowledgeType):
        return value
    raise TypeError(f"the type should be an AcknowledgeType, not {value!r}")
