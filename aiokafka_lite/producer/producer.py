"""The public producer: aiokafka's `AIOKafkaProducer`, and the features of Kafka it lacks.

It checks arguments, waits where a caller has to wait, and starts and stops the parts. The
`Accumulator` takes records, the `Sender` delivers them, and a `TransactionDriver` begins and ends
transactions.

Non-obvious:
- `send` and `send_and_wait` run for every record, so they are native or a Python twin: `SendCalls`.
  They call back here (`_send_blocked`, `_send_later`, `_refuse`) for a record that is not appended
  at once.
- Modules that only some producers need, or that are first needed at construction, are imported
  where they are used, so that importing a client is fast (`tests/unit/test_import_cost.py`).
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import ssl
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property, partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Never, Self, TypeVar

from aiokafka_lite import _arguments, _fork
from aiokafka_lite._arguments import (
    INT64,
    milliseconds,
    offsets_to_commit,
    seconds,
    wire_string,
)
from aiokafka_lite._home import check_home
from aiokafka_lite.abc import AbstractTokenProvider, ProducerInterceptor
from aiokafka_lite.as_aiokafka.private_names import MISSING as _missing
from aiokafka_lite.as_aiokafka.private_names import private_name
from aiokafka_lite.cluster.log_name import LogName
from aiokafka_lite.cluster.reach import StateClock
from aiokafka_lite.errors import (
    BufferExhaustedError,
    IllegalArgumentError,
    IllegalOperation,
    IllegalStateError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosed,
)
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.metrics_push.push_calls import MetricsPushCalls
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.partitioner import DefaultPartitioner
from aiokafka_lite.producer.batching.accumulator import Ack, Blocked
from aiokafka_lite.producer.batching.batch_builder import BatchBuilder
from aiokafka_lite.producer.producer_interceptors import Interceptors
from aiokafka_lite.producer.producer_options import Partitioner, ProducerOptions
from aiokafka_lite.producer.record_serializers import K, RecordSerializers, V
from aiokafka_lite.producer.send import SendCalls
from aiokafka_lite.producer.sent_records import SentRecords
from aiokafka_lite.producer.threadsafe import HandOver
from aiokafka_lite.structs import Acknowledged, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.client import AIOKafkaClient, ClusterMetadata
    from aiokafka_lite.metrics_push.metric_points import ClientMetrics
    from aiokafka_lite.metrics_push.metrics_push import MetricsPush
    from aiokafka_lite.net.aws.aws_credentials import AwsCredentials, CredentialSource
    from aiokafka_lite.producer.column_sending import ColumnSending
    from aiokafka_lite.producer.columns_ack import ColumnsAck
    from aiokafka_lite.producer.transactions.transaction_driver import TransactionDriver
    from aiokafka_lite.structs import ProducerHealth

__all__ = ["AIOKafkaProducer"]

_T = TypeVar("_T")

_DEFAULT_DELIVERY_TIMEOUT_MS: Final = 120_000

_REMEDY: Final = (
    "call send_threadsafe() from there, or create a producer in the event loop that uses it"
)

_YIELD_EVERY: Final = 4000
"""Records after which `send_many` yields to the event loop: about half a millisecond."""

_YIELD_EVERY_SERIALIZED: Final = 1000
"""The same if code of the application serializes, intercepts or partitions them."""

_numbers = itertools.count(1)


class AIOKafkaProducer(SendCalls[K, V], MetricsPushCalls):
    """Publishes records to Kafka.

    `await send(...)` returns as soon as the record is in its batch, with an ack: an awaitable of
    the record's `RecordMetadata`. `send_and_wait` returns that metadata. Batches are sent in the
    background, several at a time, in order for each partition.

    A record is never lost silently: its ack raises the error. A failed batch whose acks are not
    awaited is logged as an error by the logger `aiokafka_lite.producer.sending.sender`, at most
    one line a second.

    With a `transactional_id`, records are sent in transactions. A transaction holds records of
    several partitions, and offsets of groups. Consumers with `isolation_level="read_committed"`
    see all of it or nothing. There are three kinds of errors:

    - Retriable errors are retried internally.
    - After an abortable error the transaction must be aborted: until then every call except
      `abort_transaction` raises the same error, and afterwards the producer can be used again.
    - After a fatal error, such as `ProducerFenced`, every call raises it, `abort_transaction`
      included: stop this producer. Its open transaction is aborted by the next producer with the
      same `transactional_id`, or by the cluster after `transaction_timeout_ms`.

    Args:
        bootstrap_servers: "host:port" of one or more brokers, comma-separated or as a list. Not
            every broker has to be listed.
        client_id: Name of this client in the brokers' logs and quotas.
        acks: 0: do not wait for the broker, results are None; 1: wait for the leader; "all" (or
            -1), the default: wait for all in-sync replicas.
        enable_idempotence: Each record is stored once and in order, however often its batch is
            sent. The default is True if `acks` ("all") and
            `max_in_flight_requests_per_connection` (at most 5) allow it; an explicit True that
            contradicts them is an error. If the cluster assigns no producer ids (before Kafka
            0.11, or IDEMPOTENT_WRITE is missing), every record fails with an explicit True; by
            default, the producer logs a warning and works without idempotence.
            Without idempotence, a batch that is retried may be stored twice, and a partition
            has one batch in flight at a time.
        key_serializer: Called with each key, None included; returns bytes or None. Or an
            `abc.RecordSerializer`, which also receives the topic and the headers. By default
            keys must be bytes.
        value_serializer: Likewise for values.
        compression_type: "gzip", "snappy", "lz4", "zstd" or None.
        compression_level: Of gzip (1 to 9), lz4 or zstd; None is the codec's default.
        max_batch_size: Bytes of a batch before compression. A larger record gets its own batch.
        linger_ms: How long a batch waits for more records. With 0 it does not wait; batches still
            form behind the requests in flight.
        partitioner: Called with (key bytes, all partitions, available partitions); returns one of
            them. The default is Java's: murmur2 of the key; records without a key go to one
            partition until it has received a batch's worth of them (KIP-794).
        interceptors: `aiokafka_lite.abc.ProducerInterceptor` objects, called in this order. They
            may change each record before it is serialized, and receive its outcome.
        partitioner_ignore_keys: The default partitioner ignores the keys.
        partitioner_adaptive_partitioning_enable: The default partitioner sends less to partitions
            whose batches pile up.
        partitioner_availability_timeout_ms: The default partitioner avoids partitions whose broker
            has been unresponsive for this long; 0 disables this.
        partitioner_rack_aware: The default partitioner sends records without a key to leaders in
            `client_rack`, if there are any (KIP-1123).
        client_rack: The rack of this client, a value of the brokers' `broker.rack`.
        max_request_size: Bytes of a request, and so of a record.
        metadata_max_age_ms: Metadata is refreshed after this time.
        request_timeout_ms: A request without an answer in this time fails its connection.
        retry_backoff_ms: Pause before a batch is retried, at least 1; doubles up to
            `retry_backoff_max_ms`.
        delivery_timeout_ms: From a batch's first record to its outcome. After that the batch fails
            with DeliveryTimeoutError, which says whether it may have been stored and what it
            waited for. A record that joins a batch later has less time, as in Java. A batch that
            waits to be sent takes no more records after half of its time, while half of
            `buffer_memory` is free. The default is 120,000, or the sum of `linger_ms` and
            `request_timeout_ms` if that is more.
        buffer_memory: Bytes of all batches together; `send` waits when they are used up.
        max_block_ms: How long `send` waits for memory or for a topic's metadata.
        max_in_flight_requests_per_connection: Unanswered requests per broker.
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
        connections_max_idle_ms: Idle connections are closed after this time; None: never.
        bootstrap_timeout_ms: How long `start` and `async with` keep trying to reach a first broker,
            for a service that may start before Kafka does. By default each address is tried once,
            and a failure is raised at once.
        stop_timeout_ms: How long the end of `async with` waits for records to be acknowledged;
            the rest then fail with ProducerClosed. None: as `stop()` without a timeout.
        retry_backoff_max_ms: Upper bound of the pauses that begin with `retry_backoff_ms`. If it
            is lower than `retry_backoff_ms`, every pause has this length (KIP-580).
        reconnect_backoff_ms, reconnect_backoff_max_ms: Likewise for the pauses between attempts
            to connect to a broker.
        socket_connection_setup_timeout_ms: How long an address may take to accept a connection,
            TLS included.
        socket_connection_setup_timeout_max_ms: Upper bound of that time, which doubles with each
            failed attempt to connect to a broker (KIP-601). If it is lower than
            `socket_connection_setup_timeout_ms`, it replaces that time.
        metadata_max_idle_ms: The metadata of a topic is dropped when nothing has been sent to it
            for this time, at least 5000 (KIP-526). The next record to it waits for new metadata.
        send_buffer_bytes, receive_buffer_bytes: Sizes of the sockets' buffers; -1 uses the
            operating system's default.
        sasl_mechanism: With "SASL_PLAINTEXT" and "SASL_SSL": "PLAIN", "SCRAM-SHA-256",
            "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI" (Kerberos) or "AWS_MSK_IAM".
        sasl_plain_username, sasl_plain_password: For PLAIN and SCRAM.
        sasl_oauth_token_provider: For OAUTHBEARER; called at each authentication.
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
        transactional_id: Identifies this producer in its transactions; records can be sent in
            transactions only (`begin_transaction`). `start` fences other producers with the same
            id and aborts their open transaction. Implies idempotence; an explicit False is an
            error.
        transaction_timeout_ms: The cluster aborts a transaction that stays open longer than this.
        enable_metrics_push: Push metrics to the brokers, if they have a subscription that matches
            this client (KIP-714). Costs nothing with brokers that do not collect metrics.
        loop: Deprecated by aiokafka: the event loop, if the producer is created outside of it.
        api_version: Deprecated by aiokafka; has no effect.

    Raises:
        KafkaConfigurationError: (a ValueError) A value is out of range, or two values contradict
            each other.
        TypeError: An argument has the wrong type or does not exist (the nearest name is given).
        RuntimeError: There is no running event loop, and no `loop`.
    """

    _closed: bool | None = None  # None until the constructor has completed
    _entered_in_vain = False  # True if the last `async with` failed to start
    _forked: IllegalStateError | None = None  # in a forked child: raised by every call
    _transactions: TransactionDriver | None = None  # only with a transactional id
    _until_yield: int  # records that `send_many` appends before it yields to the event loop

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str | tuple[str, int]] = "localhost",
        client_id: str | None = None,
        metadata_max_age_ms: float = 300_000,
        request_timeout_ms: float = 40_000,
        api_version: object = None,
        acks: object = None,
        key_serializer: Callable[[K], Any] | None = None,
        value_serializer: Callable[[V], Any] | None = None,
        compression_type: str | None = None,
        compression_level: int | None = None,
        max_batch_size: int = 16_384,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        partitioner_ignore_keys: bool = False,
        partitioner_adaptive_partitioning_enable: bool = True,
        partitioner_availability_timeout_ms: float = 0,
        partitioner_rack_aware: bool = False,
        client_rack: str | None = None,
        max_request_size: int = 1_048_576,
        linger_ms: float = 0,
        retry_backoff_ms: float = 100,
        delivery_timeout_ms: float | None = None,
        buffer_memory: int = 33_554_432,
        max_block_ms: float = 60_000,
        max_in_flight_requests_per_connection: int = 5,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        connections_max_idle_ms: float | None = 540_000,
        bootstrap_timeout_ms: float | None = None,
        stop_timeout_ms: float | None = None,
        retry_backoff_max_ms: float = 1000,
        reconnect_backoff_ms: float = 50,
        reconnect_backoff_max_ms: float = 1000,
        socket_connection_setup_timeout_ms: float = 10_000,
        socket_connection_setup_timeout_max_ms: float = 30_000,
        metadata_max_idle_ms: float = 300_000,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        enable_idempotence: bool | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        sasl_mechanism: str | None = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str | None = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_kerberos_principal: str | None = None,
        sasl_kerberos_keytab: str | PathLike[str] | None = None,
        sasl_kerberos_cache: str | None = None,
        sasl_scram_tokenauth: bool = False,
        sasl_aws_credentials: AwsCredentials | CredentialSource | None = None,
        sasl_aws_region: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
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
        _arguments.refuse_unknown(
            unknown, AIOKafkaProducer.__init__.__kwdefaults__ or (), AIOKafkaProducer.__name__
        )
        _arguments.check_loop(loop)
        _arguments.check_api_version(api_version)
        self._loop = _arguments.running_loop(AIOKafkaProducer.__name__) if loop is None else loop
        if loop is not None:
            _deprecated("The `loop` argument is deprecated: create the producer in its event loop")
        if api_version is not None:
            _deprecated("The `api_version` argument is deprecated: brokers report their versions")
        timeout = milliseconds("transaction_timeout_ms", transaction_timeout_ms, least=1)
        if acks is None or acks is _missing:
            acks = "all"
        if delivery_timeout_ms is None:
            least = _number(linger_ms) + _number(request_timeout_ms)
            delivery_timeout_ms = max(_DEFAULT_DELIVERY_TIMEOUT_MS, least)
        interceptors = _checked(interceptors)
        if partitioner is not None and type(partitioner) is DefaultPartitioner:
            partitioner = None
        self._options = ProducerOptions(
            acks=acks,
            enable_idempotence=enable_idempotence,
            linger_ms=linger_ms,
            max_batch_size=max_batch_size,
            max_request_size=max_request_size,
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            max_block_ms=max_block_ms,
            buffer_memory=buffer_memory,
            max_in_flight_requests_per_connection=max_in_flight_requests_per_connection,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            compression_type=compression_type,
            compression_level=compression_level,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            partitioner_ignore_keys=partitioner_ignore_keys,
            partitioner_adaptive_partitioning_enable=partitioner_adaptive_partitioning_enable,
            partitioner_availability_timeout_ms=partitioner_availability_timeout_ms,
            partitioner_rack_aware=partitioner_rack_aware,
            client_rack=client_rack,
            transactional_id=transactional_id,
        )
        if client_id is not None:
            _arguments.wire_string("client_id", client_id)
        name = client_id or f"aiokafka_lite-producer-{next(_numbers)}"
        self._name = LogName(name, client_id=name, transactional_id=transactional_id)
        from aiokafka_lite.cluster.cluster import Cluster

        self._cluster = Cluster(
            bootstrap_servers,
            connection_options(
                client_id=self._name,
                request_timeout=self._options.request_timeout,
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
                reconnect_backoff_ms=reconnect_backoff_ms,
                reconnect_backoff_max_ms=reconnect_backoff_max_ms,
                socket_connection_setup_timeout_ms=socket_connection_setup_timeout_ms,
                socket_connection_setup_timeout_max_ms=socket_connection_setup_timeout_max_ms,
                send_buffer_bytes=send_buffer_bytes,
                receive_buffer_bytes=receive_buffer_bytes,
            ),
            metadata_max_age=milliseconds("metadata_max_age_ms", metadata_max_age_ms, most=INT64),
            topic_expiry=milliseconds(
                "metadata_max_idle_ms", metadata_max_idle_ms, least=5000, most=INT64
            ),
            retry_backoff=self._options.retry_backoff.base,
            retry_backoff_max=self._options.retry_backoff.maximum,
        )
        self._bootstrap_timeout = (
            None
            if bootstrap_timeout_ms is None
            else milliseconds("bootstrap_timeout_ms", bootstrap_timeout_ms, most=INT64)
        )
        self._transaction_timeout_ms = round(timeout * 1000)
        self._stop_timeout = (
            None
            if stop_timeout_ms is None
            else milliseconds("stop_timeout_ms", stop_timeout_ms, most=INT64)
        )
        self._chain = interceptors
        from aiokafka_lite.metrics_push.application_metrics import ApplicationMetrics
        from aiokafka_lite.metrics_push.metrics_push import MetricsPush

        self._push = MetricsPush(
            self._cluster,
            ApplicationMetrics(),
            self._loop,
            enabled=_arguments.flag("enable_metrics_push", enable_metrics_push),
        )
        self._health_clock = StateClock()
        self._record_serializers = RecordSerializers(key_serializer, value_serializer)
        self._make_sender()
        self._starting = False  # or started
        self._ended = asyncio.Event()  # set when `stop` is done
        self._closed = False
        _fork.watch(self)

    # Lifecycle

    async def start(self) -> None:
        """Connect to the cluster; with a `transactional_id`, also get a producer id.

        It can be called again after it failed or was cancelled.

        Raises:
            KafkaConnectionError: No bootstrap address answered; with `bootstrap_timeout_ms`, in
                that time.
            TransactionalIdAuthorizationFailed: The principal may not use the `transactional_id`.
            KafkaTimeoutError: No producer id was assigned within `max_block_ms`.
            KafkaError: The producer id was refused for another reason.
            ProducerClosed: The producer was stopped.
            IllegalStateError: The producer is already started, or belongs to another event loop.

        Cancellation: closes all connections.
        """
        self._check_home()
        if self._closed:
            raise ProducerClosed("a producer that was stopped cannot be started again")
        if self._cluster.closed:
            raise IllegalStateError("this producer has failed: create a new one")
        if self._starting:
            raise IllegalStateError("the producer is already started")
        self._starting, self._entered_in_vain = True, False
        wait = self._bootstrap_timeout
        try:
            await self._cluster.start(None if wait is None else self._loop.time() + wait)
            self._sender.start()
            if self._transactions is None:
                self._accumulator.refusal = None
            else:
                await self._transactions.start(self._deadline())
            self._push.start(self._pushed_metrics)
        except BaseException:
            if not self._closed:
                self._starting = False
                if self._cluster.started:  # the failure came later: start over completely
                    self._sender.abort()
                    self._cluster.reset()
                    self._make_sender()
            raise

    @cached_property
    def client(self) -> AIOKafkaClient:
        """A client that shares the producer's connections and metadata."""
        from aiokafka_lite.client import AIOKafkaClient

        return AIOKafkaClient.of(self._cluster, self._options.request_timeout, self._loop)

    async def stop(self, timeout: float | None = None) -> None:
        """Deliver the records that were sent, then close the producer.

        Idempotent, and safe to call after `start` raised. A call during another one waits for
        that one to finish.

        Records from earlier calls of `send_threadsafe` are sent first; a transactional producer
        sends only those that do not have to wait. Until then `send` still accepts records.

        Args:
            timeout: Seconds for the delivery; records not acknowledged by then fail with
                ProducerClosed. None gives each record the rest of its own
                `delivery_timeout_ms`.

        Raises:
            TypeError, ValueError: `timeout` is not a valid number; nothing was stopped.
            IllegalStateError: This is not the producer's event loop; nothing was stopped.

        Cancellation: closes at once; records not yet acknowledged fail with ProducerClosed.
        """
        if timeout is None:
            timeout = self._options.delivery_timeout + self._options.request_timeout
        timeout = seconds("timeout", timeout)
        if self._closed and self._ended.is_set():
            return
        self._check_home()
        if self._closed:
            await self._ended.wait()
            return
        self._closed = True
        now = self._loop.time()
        deadline = now + timeout
        try:
            # An open transaction will be aborted, so its records are not worth waiting for.
            await self._hand_over.close(deadline if self._transactions is None else now)
            await self._sender.close(deadline)
            await self._push.close(deadline)
        except BaseException:
            self._sender.abort()
            raise
        finally:
            self._push.abort()
            self._hand_over.end(ProducerClosed("the producer was stopped"))
            self._cluster.abort()
            try:
                await self._cluster.close(max(deadline, self._loop.time() + 1))
            finally:
                if self._interceptors is not None:
                    self._interceptors.close()
                self._ended.set()

    async def __aenter__(self) -> Self:
        self._check_home()
        try:
            await self.start()
        except BaseException:
            # Nothing is open: the producer may be entered again, or dropped without `stop`.
            self._entered_in_vain = not self._starting
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop(self._stop_timeout)

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._closed is not False:
            return
        self._closed = True
        if self._entered_in_vain:
            if self._interceptors is not None:
                self._interceptors.close()
            return
        self._hand_over.end(ProducerClosed("the producer was dropped without stop()"))
        if not self._loop.is_closed():
            self._push.abort()
            self._sender.abort()
            self._cluster.abort()
        _warn(f"Unclosed AIOKafkaProducer {self!r}", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    # Private names of aiokafka, listed in `as_aiokafka.private_names`

    @private_name
    def _key_serializer(self) -> Callable[[Any], Any] | None:
        return self._options.key_serializer

    @private_name
    def _partitioner(self) -> Partitioner:
        return self._options.partitioner or DefaultPartitioner()

    @private_name
    def _metadata(self) -> ClusterMetadata:
        return self.client.cluster

    # Records

    send = SendCalls.send
    send_and_wait = SendCalls.send_and_wait

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Ack:
        """Append a record to its batch at once, or raise; otherwise like `send`.

        For callbacks, and for applications that drop a record rather than wait.

        Raises:
            BufferExhaustedError: There is no free memory for the record.
            KafkaTimeoutError: The topic or the partition is not known yet. It is being looked up:
                try again, or await `partitions_for` first.
            IllegalStateError: The call is made in another event loop than the producer's, or in
                another thread: call `send_threadsafe` there.
        """
        result = self._append_here(topic, value, key, partition, timestamp_ms, headers)
        if isinstance(result, Ack):
            return result
        try:
            return self._send_blocked_now(result)
        except Exception as error:
            if self._interceptors is not None:
                self._interceptors.fail(result, error)
            raise

    async def send_many(
        self,
        topic: str,
        values: Iterable[V | None],
        *,
        keys: Iterable[K | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> SentRecords:
        """Append many records, in order: like `send` for each, at a fraction of the cost.

        Args:
            topic: The topic's name.
            values: The records' values; any iterable, consumed as memory allows.
            keys: The records' keys, as many as there are values; None for no keys.
            partition: The partition of all records; by default the partitioner chooses for each.
            timestamp_ms: The timestamp of all records; by default now.
            headers: The headers of all records.

        Returns:
            The records: an awaitable that waits for all of them, and a sequence of their acks.

        Raises:
            ValueError: There are more values than keys, or fewer.
            KafkaError: As `send` raises it for the first record that fails; so is any other error
                of `send`. The records before it are sent: the error's attribute `sent` holds them,
                like a result.

        Cancellation: as for `send`; the records before are sent.
        """
        self._check_home()
        sent: list[Any] = []
        keyed = keys is not None
        items = iter(values if keys is None else zip(values, keys, strict=True))
        append_many = self._append_many
        accumulator = self._accumulator
        transaction = accumulator.transaction
        try:
            while True:
                left = append_many(
                    sent, topic, items, keyed, partition, timestamp_ms, headers, self._until_yield
                )
                if not isinstance(left, int):
                    sent.append(await self._send_blocked(left))
                elif left:
                    self._until_yield = left
                    break
                else:
                    self._until_yield = self._yield_every
                    await asyncio.sleep(0)
                    if transaction != accumulator.transaction:
                        accumulator.check_open(transaction)
        except BaseException as error:
            error.sent = SentRecords(sent)  # type: ignore[attr-defined]  # documented above
            raise
        return SentRecords(sent)

    async def send_columns(
        self,
        topic: str,
        values: object,
        *,
        keys: object = None,
        timestamps: object = None,
        partition: int | None = None,
    ) -> ColumnsAck:
        """Append the rows of columns as records, without a Python object per record. Not in
        aiokafka.

        A column is an Arrow array (any object with `__arrow_c_array__`; pyarrow is not required),
        or a tuple (data, offsets) of buffers: the bytes of all rows, and int32 or int64 offsets,
        one more than there are rows. An optional third item is the validity bitmap: one bit per
        row, the lowest first, 0 for null. All columns are checked before the first record is
        appended. Do not change their memory until this returns.

        Args:
            topic: The topic's name.
            values: An Arrow array of binary, large_binary, string or large_string, or such a tuple;
                a null is a tombstone. Or an Arrow record batch with a column `value`, and
                optionally `key` and `timestamp`.
            keys: Likewise an array or a tuple; None for no keys.
            timestamps: An Arrow array of timestamps or int64, or a buffer of int64, in
                milliseconds; or one int for all rows. The default, also for nulls, is the current
                time.
            partition: The partition of all rows. By default, rows go to the partition of their key,
                as in Java, and rows without a key to the sticky partition, as with `send`.

        Returns:
            Once all rows are in their batches, an awaitable of the `StoredColumns`. Records of a
            partition keep the order of their rows.

        Raises:
            TypeError: A column is neither an Arrow array nor a tuple of buffers, or has an
                unsupported type; the message names the column.
            IllegalArgumentError: (a ValueError) The offsets of a row are not ascending or are
                outside the data, a timestamp is negative, the columns have different lengths, or
                there are more than 2,147,483,647 rows.
            MessageSizeTooLargeError: A row is larger than `max_request_size` or `buffer_memory`.
            KafkaConfigurationError: The producer has serializers, interceptors, or (without
                `partition`) a partitioner.
            KafkaError: As in `send`, which may also raise other errors. Rows that were appended
                before the error are sent: its attribute `sent` is an awaitable of their result.

        Cancellation: as for `send`; rows that are already in their batches are sent.
        """
        self._check_home()
        _arguments.topic_name(topic)
        number = None if partition is None else _arguments.partition_number(partition)
        self._check_columns_allowed(number)

        async def learn(unknown: int | None) -> None:
            await self._learn(topic, unknown, self._deadline())

        return await self._column_sending.send(
            self._accumulator,
            self._sender.pool,
            topic,
            number,
            (values, keys, timestamps),
            learn,
            self._deadline,
            ignore_keys=self._options.ignore_keys,
        )

    @cached_property
    def _column_sending(self) -> ColumnSending:
        from aiokafka_lite.producer.column_sending import ColumnSending  # few send columns

        return ColumnSending()

    def _check_columns_allowed(self, partition: int | None) -> None:
        options = self._options
        if options.key_serializer or options.value_serializer:
            why = "serializers"
        elif self._chain:
            why = "interceptors"
        elif options.partitioner is not None and partition is None:
            why = "a partitioner, unless `partition` is given"
        else:
            return
        raise KafkaConfigurationError(
            f"`send_columns` sends bytes as they are: it cannot be combined with {why}"
        )

    def send_threadsafe(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Future[Acknowledged]:
        """Send a record from any thread; otherwise like `send_and_wait`.

        The records of one thread keep their order. Serializers and the partitioner run in the
        producer's event loop.

        Returns:
            A `concurrent.futures.Future` of the `RecordMetadata`. It fails with any error of
            `send_and_wait`, and with ProducerClosed if the producer was stopped before the call
            or its event loop is closed before the outcome is known. Cancelling the future before
            the loop has taken the record keeps it from being sent.

        Raises:
            KafkaTimeoutError: 10,000 records were waiting for the loop, for `max_block_ms`.
            BufferExhaustedError: 10,000 records are waiting, and this is the loop's own thread.
            ProducerClosed: The producer's event loop is closed.
            IllegalStateError: This process is a forked child of the producer's process.
        """
        self._check_process()
        return self._hand_over.put((topic, value, key, partition, timestamp_ms, headers))

    def create_batch(self) -> BatchBuilder:
        """Create a batch for `send_batch`, to be filled by the application.

        Its limit is `max_batch_size`.
        """
        options = self._options
        return BatchBuilder(
            options.max_batch_size, options.key_serializer, options.value_serializer
        )

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int | None = None
    ) -> Ack:
        """Send a batch made by `create_batch`, after the earlier records of its partition.

        This closes the batch, which can be sent only once.

        Args:
            batch: The batch, with at least one record.
            topic: The topic's name.
            partition: The partition's number; by default the partitioner chooses, as for one
                record without a key.

        Returns:
            An awaitable of the `RecordMetadata` of the first record; the others follow it.
            It fails with MessageSizeTooLargeError if the batch is too large for the broker:
            unlike batches that the producer fills, it is stored as a whole or not at all.

        Raises:
            IllegalArgumentError: (a ValueError) The batch is empty or was sent before, or the
                topic has no such partition.
            MessageSizeTooLargeError: It is larger than `max_request_size` or `buffer_memory`.
            TypeError: It was not made by `create_batch`.
            KafkaTimeoutError, ProducerClosed, IllegalStateError: As for `send`.

        Cancellation: a batch that still waits is not sent, and may be sent again.
        """
        self._check_home()
        _arguments.topic_name(topic)
        number = None if partition is None else _arguments.partition_number(partition)
        if not isinstance(batch, BatchBuilder):
            raise TypeError(f"`batch` should come from create_batch(), not {batch!r}")
        self._check_open()
        accumulator, pool = self._accumulator, self._sender.pool
        builder, transaction = batch.take(), accumulator.transaction
        try:
            deadline = self._deadline()
            await self._learn(topic, number, deadline)
            size = accumulator.memory_for(builder.size)
            accumulator.hurry()
            memory = await pool.take(size, deadline)
            if not accumulator.has_partition(topic, number):  # deleted during the wait for memory
                try:
                    await self._learn(topic, number, deadline)
                except BaseException:
                    pool.give(memory)
                    raise
            return accumulator.add_batch(topic, number, builder, memory, transaction)
        except BaseException:
            batch.give_back()
            raise

    async def flush(self) -> None:
        """Wait until every record sent before this call is stored or has failed.

        This includes records of `send_threadsafe`. Lingering batches are sent at once. The acks
        raise the errors; `flush` does not.

        Raises:
            IllegalStateError: This is another event loop, or a forked child of the process.

        Cancellation: stops the wait, never a delivery.
        """
        self._check_home()
        self._sender.hurry()
        await self._hand_over.drain()
        await self._sender.flush()

    def health(self) -> ProducerHealth:
        """Return whether the producer can work now, and whether it can recover if not. Not in
        aiokafka.

        It sends nothing: the result is what the client already knows. `client.ping()` asks a
        broker. docs/observability.md has a table of situations.

        Raises:
            IllegalStateError: Called in another event loop or thread than the producer's.
        """
        if not self._closed:
            self._check_home()
        from aiokafka_lite.producer.producer_health import producer_health

        return producer_health(
            self._cluster,
            self._sender,
            self._health_clock,
            self._loop.time(),
            begun=self._starting,
            stopped=bool(self._closed),
        )

    def metrics(self) -> dict[str, float | None]:
        """Return the producer's metrics under Kafka's names (`record-send-total`, ...).

        Times are in milliseconds, sizes in bytes, rates per second. Averages and rates cover the
        last 30 to 60 seconds; `-total` counts from the start. An average or a maximum is None
        if nothing was measured (Java's is NaN), so the dict is valid JSON.
        `waiting-threads` counts the coroutines that wait for memory.
        """
        return self._sender.metric_values()

    def node_metrics(self) -> dict[int, dict[str, float | None]]:
        """Return the metrics of each broker by its node id, under the names of Kafka's node
        metrics. Not in aiokafka.

        Requests of all kinds count. Latencies cover the last 30 to 60 seconds.

        Raises:
            IllegalStateError: Called in another event loop or thread than the producer's.
        """
        if not self._closed:
            self._check_home()
        return self._cluster.node_metrics(self._loop.time())

    def _metrics_push(self) -> MetricsPush:
        self._check_home()
        return self._push

    def _pushed_metrics(self) -> ClientMetrics:
        from aiokafka_lite.metrics_push.metric_points import ClientMetrics

        cluster, loop, sender = self._cluster, self._loop, self._sender
        options = self._options
        known = {"transactional_id": options.transactional_id, "client_rack": options.client_rack}
        resource = {name: value for name, value in known.items() if value}
        return ClientMetrics(
            "producer",
            sender.metric_values,
            lambda: cluster.node_metrics(loop.time()),
            lambda: resource,
        )

    def _add_interceptor(self, interceptor: ProducerInterceptor) -> None:
        """Add an interceptor behind the others.

        Raises:
            IllegalStateError: The producer was started, or stopped.
        """
        self._check_home()
        if self._starting or self._closed:
            raise IllegalStateError("interceptors are added before start()")
        self._chain = (*self._chain, interceptor)
        self._make_sender()

    def _identity(self) -> tuple[asyncio.AbstractEventLoop, str, str | None]:
        """The event loop, the client id and the group, for the packages that observe clients."""
        return self._loop, self._name, None

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions; wait until the topic is known.

        Raises:
            UnknownTopicTimeoutError: The topic did not exist within `max_block_ms`.
            KafkaTimeoutError: No broker returned its metadata in this time.
            InvalidTopicError: No request can carry the name, or the broker refused it.
            TypeError: The name is not a str.
            ProducerClosed: The producer was stopped.
            IllegalStateError: The producer was not started.
        """
        self._check_home()
        _arguments.topic_name(topic)
        self._check_open()
        deadline = self._deadline()
        return set(await self._unless_closed(self._cluster.partitions_of(topic, deadline)))

    # Transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction, so that records can be sent. Sends no request.

        Raises:
            IllegalOperation: There is no `transactional_id`, or a transaction is open or being
                ended.
            IllegalStateError: The producer was not started.
            ProducerClosed: The producer was stopped.
            ProducerFenced: Another producer took over the `transactional_id`: stop this one.
            KafkaError: The previous transaction failed and must be aborted; or a fatal error.
        """
        self._driver().begin()

    async def commit_transaction(self) -> None:
        """Deliver the transaction's records, then commit it.

        A record of `send_threadsafe` that still waits for its topic or for memory is not part of
        the transaction: its future fails, as do those of the records that wait behind it.

        Raises:
            IllegalOperation: There is no `transactional_id`, or no transaction is open.
            ProducerFenced: Another producer took over the `transactional_id`, or the transaction
                took longer than `transaction_timeout_ms`: stop this one.
            KafkaTimeoutError: The commit takes longer than `max_block_ms`. It continues; call
                this again to wait for it.
            KafkaError: A record could not be stored, or offsets could not be sent: abort the
                transaction. Or a fatal error, which `abort_transaction` raises too.

        Cancellation: stops the wait; the commit continues.
        """
        driver = self._driver()
        self._hand_over.end_transaction()
        await driver.commit(self._deadline())

    async def abort_transaction(self) -> None:
        """Abort the transaction.

        Records that still wait to be sent are dropped: their acks raise TransactionAbortedError.
        Records of `send_threadsafe` that still wait for a topic or for memory fail.

        Raises:
            IllegalOperation: There is no `transactional_id`, or no transaction is open.
            KafkaTimeoutError: The abort takes longer than `max_block_ms`. It continues; call this
                again to wait for it.
            KafkaError: A fatal error, such as ProducerFenced: stop the producer.

        Cancellation: stops the wait; the abort continues.
        """
        driver = self._driver()
        self._hand_over.end_transaction()
        await driver.abort(self._deadline())

    def transaction(self) -> TransactionContext:
        """Return a transaction as a context manager: `async with producer.transaction(): ...`.

        It commits at the end. An exception, including one from the commit, aborts the transaction
        and propagates. After a fatal error (the producer was fenced) there is nothing to abort.
        """
        return TransactionContext(self)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata],
        group_id: str | GroupMetadata,
    ) -> None:
        """Commit a group's offsets with the transaction: those its output was computed from.

        Lingering batches are sent at once.

        Args:
            offsets: For each partition, the offset of the next record to read; or a tuple (offset,
                metadata) with any text.
            group_id: The result of `AIOKafkaConsumer.group_metadata()`: the group then refuses a
                consumer that has lost its partitions (KIP-447). Or the group's name, with which
                no consumer is refused.

        Raises:
            IllegalOperation: There is no `transactional_id`, or no transaction is open.
            ValueError: `group_id` is neither; or `offsets` is not such a dict, or is empty.
            TypeError: A key is not a TopicPartition, or metadata is not a str.
            CommitFailedError: The consumer is no longer a member of the group; or, since the read
                that the offsets belong to, it gave up one of the partitions or read it again from
                the committed offset: abort.
            GroupAuthorizationFailedError: The principal may not use the group: abort.
            FencedInstanceIdError: Another process has the consumer's `group_instance_id`: abort.
            KafkaTimeoutError: The request takes longer than `max_block_ms`. It continues, and a
                commit waits for it.
            KafkaError: An error after which the transaction must be aborted; or a fatal error.

        Cancellation: stops the wait; the offsets stay part of the transaction.
        """
        driver = self._driver()
        driver.machine.check_open("send offsets")
        group = _group(group_id)
        await driver.send_offsets(offsets_to_commit(offsets), group, self._deadline())

    # Records that cannot be appended at once

    # The transaction is the one of the call: the coroutine may begin after that has ended.

    def _send_blocked(self, blocked: Blocked) -> Coroutine[Any, Any, Ack]:
        return self._send_waiting(blocked, self._accumulator.transaction)

    def _send_blocked_and_wait(self, blocked: Blocked) -> Coroutine[Any, Any, Acknowledged]:
        return self._send_waiting_and_wait(blocked, self._accumulator.transaction)

    async def _send_waiting(self, blocked: Blocked, transaction: int) -> Ack:
        interceptors = self._interceptors
        if interceptors is None:
            return await self._until_appended(blocked, transaction)
        try:
            ack = await self._until_appended(blocked, transaction)
        except BaseException as error:
            interceptors.fail(blocked, error)
            raise
        interceptors.follow(blocked, ack)
        return ack

    async def _send_waiting_and_wait(self, blocked: Blocked, transaction: int) -> Acknowledged:
        return await (await self._send_waiting(blocked, transaction))

    async def _send_later(self, *fields: Any) -> Ack:
        self._check_home()
        result = self._append(*fields)
        return result if isinstance(result, Ack) else await self._send_blocked(result)

    async def _send_and_wait_later(self, *fields: Any) -> Acknowledged:
        return await (await self._send_later(*fields))

    async def _await_send(self, *fields: Any) -> Acknowledged:
        return await (await self.send(*fields))

    async def _refuse(self, error: Exception) -> Any:
        raise error

    def _send_blocked_now(self, result: Blocked) -> Ack:
        """Append a record that was just blocked, or raise an error that says what it lacks."""
        first, accumulator, topic = result, self._accumulator, result.topic
        accumulator.size_for(result.key, result.value, result.headers)  # raises if it is too large
        known = self._cluster.metadata.topics.get(topic)
        if result.queue is None and known is not None and known.partitions:
            accumulator.adopt(
                topic, known.partitions, known.topic_id, self._cluster.metadata.brokers
            )
            again = accumulator.append_again(result)
            if isinstance(again, Ack):
                if self._interceptors is not None:
                    self._interceptors.follow(first, again)
                return again
            result = again
        if result.queue is not None:
            accumulator.hurry()
            raise BufferExhaustedError(
                f"no buffer_memory is free for a record to topic {topic!r}: "
                f"{self._sender.why_memory_is_short()}"
            )
        self._cluster.add_topic(_arguments.topic_name(topic))
        self._cluster.request_update()
        raise KafkaTimeoutError(
            f"topic {topic!r} or its partition is not in the metadata yet: try again"
        )

    async def _until_appended(self, blocked: Blocked, transaction: int) -> Ack:
        deadline = self._deadline()
        accumulator = self._accumulator
        if blocked.queue is None:  # fail at once if the record would fail once the topic is known
            _arguments.topic_name(blocked.topic)
            accumulator.size_for(blocked.key, blocked.value, blocked.headers)
        while True:
            if blocked.queue is None:
                await self._learn(blocked.topic, blocked.partition, deadline)
                result = accumulator.append_again(blocked, None, transaction)
            else:
                size = accumulator.size_for(blocked.key, blocked.value, blocked.headers)
                accumulator.hurry()
                memory = await self._sender.pool.take(size, deadline)
                result = accumulator.append_again(blocked, memory, transaction)
            if isinstance(result, Ack):
                return result
            blocked = result

    async def _learn(self, topic: str, partition: int | None, deadline: float) -> None:
        """Look up a topic, and refresh it once if the partition is not known."""
        partitions = await self._unless_closed(self._cluster.partitions_of(topic, deadline))
        if partition is not None and partition not in partitions:
            await self._unless_closed(self._cluster.refresh(deadline))
            partitions = await self._unless_closed(self._cluster.partitions_of(topic, deadline))
            if partition not in partitions:
                raise IllegalArgumentError(
                    f"Unrecognized partition {partition}: topic {topic!r} has "
                    f"{len(partitions)} partition(s)"
                )
        metadata = self._cluster.metadata
        known = metadata.topics.get(topic)
        topic_id = None if known is None else known.topic_id
        self._accumulator.adopt(topic, partitions, topic_id, metadata.brokers)

    async def _unless_closed(self, waiting: Awaitable[_T]) -> _T:
        """Await a call to the cluster; raise ProducerClosed if `stop` closes the cluster."""
        try:
            return await waiting
        except IllegalStateError:
            if self._closed:
                raise ProducerClosed("the producer was stopped") from None
            raise

    # Checks and wiring

    def _check_home(self) -> None:
        self._check_process()
        check_home(self._loop, self, _REMEDY)

    def _check_process(self) -> None:
        if self._forked is not None:
            raise copy.copy(self._forked)

    def _check_open(self) -> None:
        if isinstance(refusal := self._accumulator.refusal, IllegalStateError | ProducerClosed):
            raise copy.copy(refusal)

    def _driver(self) -> TransactionDriver:
        if self._transactions is None:
            raise IllegalOperation("You need to configure transactional_id to use transactions")
        self._check_home()
        self._check_open()
        return self._transactions

    def _deadline(self) -> float:
        return self._loop.time() + self._options.max_block

    def _make_sender(self) -> None:
        """Create the sender; again after a `start` that failed once the sender was running."""
        from aiokafka_lite.producer.sending.sender import Sender

        options = self._record_serializers.others_of(self._options)
        if options.transactional_id is None:
            sender = Sender(self._cluster, options, self._name, self._loop)
        else:
            from aiokafka_lite.producer.sending.transactional_sender import TransactionalSender

            sender = TransactionalSender(
                self._cluster,
                options,
                self._name,
                self._loop,
                options.transactional_id,
                self._transaction_timeout_ms,
            )
            self._transactions = sender.transactions
        self._sender = sender
        self._accumulator = accumulator = sender.accumulator
        self._interceptors: Interceptors | None = None
        append = None
        if self._record_serializers.needed:
            append = self._record_serializers.before(accumulator.append)
        if self._chain:
            self._interceptors = Interceptors(self._chain, append or accumulator.append, self._name)
            append = self._interceptors.append
        self._append_many: Callable[..., Blocked | int] = accumulator.append_many
        if append is not None:
            self._append_many = partial(_append_each, append)
        options = self._options
        slow = append or options.key_serializer or options.value_serializer or options.partitioner
        self._yield_every = _YIELD_EVERY_SERIALIZED if slow else _YIELD_EVERY
        self._until_yield = self._yield_every
        super().__init__(accumulator, append)
        self._hand_over = HandOver(
            self._loop, self._append, self._send_blocked, self._options.max_block
        )
        accumulator.refusal = IllegalStateError("the producer is not started")

    def _on_forked(self) -> None:
        """Close the producer in a forked child (see `_fork`)."""
        self._closed = True
        self._ended = asyncio.Event()
        self._ended.set()  # a stop in the child has nothing to do
        self._forked = self._accumulator.refusal = _fork.forked_error("producer")


class TransactionContext:
    """One transaction, which `async with` begins and ends.

    Args:
        producer: The producer of the transaction.
    """

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is not None:
            try:
                await self._abort()
            except KafkaError as error:
                if isinstance(exc, Exception):
                    raise
                # A loop that retries after a KafkaError would outlive its cancellation. The next
                # call of the producer fails, or waits for the abort, which continues.
                exc.add_note(f"The transaction could not be aborted: {error}")
            return
        try:
            await self._producer.commit_transaction()
        except KafkaError:
            await self._abort()  # aiokafka leaves the transaction open here
            raise

    async def _abort(self) -> None:
        """Abort the transaction, if one is open."""
        from aiokafka_lite.producer.transactions.transaction_states import TransactionState

        driver = self._producer._transactions
        state = None if driver is None else driver.machine.state
        if state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR):
            await self._producer.abort_transaction()


def _append_each(
    append: Callable[..., Ack | Blocked],
    sent: list[Any],
    topic: str,
    items: Iterator[Any],
    keyed: bool,
    *fields: Any,
) -> Blocked | int:
    """Do as `AppendCore.append_many`, with another `append`; `fields` ends with the maximum."""
    *others, most = fields
    for item in items:
        value, key = item if keyed else (item, None)
        result = append(topic, value, key, *others)
        if not isinstance(result, Ack):
            return result
        sent.append(result)
        most -= 1
        if most <= 0:
            return 0
    return int(most)


def _group(value: object) -> GroupMetadata:
    if isinstance(value, GroupMetadata):
        return value
    if not isinstance(value, str) or not value:
        raise IllegalArgumentError(
            "`group_id` should be a group's name or the result of a consumer's group_metadata(), "
            f"not {value!r}"
        )
    return GroupMetadata(wire_string("group_id", value), -1, "", None)


def _checked(interceptors: object) -> tuple[ProducerInterceptor, ...]:
    if not isinstance(interceptors, list | tuple):
        raise TypeError(f"`interceptors` should be a list or tuple, not {interceptors!r}")
    for each in interceptors:
        if not isinstance(each, ProducerInterceptor):
            raise TypeError(f"`interceptors` should be ProducerInterceptor objects, not {each!r}")
    return tuple(interceptors)


def _number(value: object) -> float:
    """Return a number for the sum; a value of another type is refused later, by name."""
    return value if isinstance(value, int | float) else 0.0


def _deprecated(message: str) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)
