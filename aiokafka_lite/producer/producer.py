"""The public producer: aiokafka's `AIOKafkaProducer`, and the features of Kafka it lacks.

This module checks the arguments, and starts and stops the producer. `Records` accepts records,
the `Sender` delivers them, and `TransactionCalls` adds transactions.
"""

import asyncio
import itertools
import ssl
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Never, Self

from aiokafka_lite import _arguments, _fork
from aiokafka_lite._arguments import INT64, milliseconds, seconds
from aiokafka_lite.abc import AbstractTokenProvider, ProducerInterceptor
from aiokafka_lite.client import AIOKafkaClient
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    IllegalStateError,
    ProducerClosed,
)
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.partitioner import DefaultPartitioner
from aiokafka_lite.producer.producer_options import Partitioner, ProducerOptions
from aiokafka_lite.producer.records import Records
from aiokafka_lite.producer.sending.sender import Sender
from aiokafka_lite.producer.sending.transactional_sender import TransactionalSender
from aiokafka_lite.producer.transaction_calls import TransactionCalls

__all__ = ["AIOKafkaProducer"]

_DEFAULT_DELIVERY_TIMEOUT_MS: Final = 120_000

_numbers = itertools.count(1)


class AIOKafkaProducer(Records, TransactionCalls):
    """Publishes records to Kafka.

    `await send(...)` returns as soon as the record is in its batch, with an ack: an awaitable of
    the record's `RecordMetadata`. `send_and_wait` returns that metadata. Batches are sent in the
    background, several at a time, in order for each partition.

    A record is never lost silently: its ack raises the error. A failed batch whose acks are not
    awaited is logged as an error by the logger `aiokafka_lite.producer.sending.sender`, at most
    one line a second.

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
        key_serializer: Called with each key, None included; returns bytes or None. By default
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
        partitioner_availability_timeout_ms: The default partitioner avoids partitions whose
            broker was unresponsive this long; 0 disables this.
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
        ssl_context: The TLS context; required with "SSL" and "SASL_SSL".
        connections_max_idle_ms: Idle connections are closed after this time; None: never.
        bootstrap_timeout_ms: How long `start` and `async with` keep trying to reach a first
            broker, for a service that may start before its Kafka does. By default each address
            is tried once, and a failure is raised at once.
        retry_backoff_max_ms: Upper bound of the pauses that begin with `retry_backoff_ms`. If it
            is lower than `retry_backoff_ms`, every pause has this length (KIP-580).
        reconnect_backoff_ms, reconnect_backoff_max_ms: Likewise for the pauses between attempts
            to connect to a broker.
        socket_connection_setup_timeout_ms: How long an address may take to accept a connection,
            TLS included.
        send_buffer_bytes, receive_buffer_bytes: Sizes of the sockets' buffers; -1 uses the
            operating system's default.
        sasl_mechanism: With "SASL_PLAINTEXT" and "SASL_SSL": "PLAIN", "SCRAM-SHA-256",
            "SCRAM-SHA-512" or "OAUTHBEARER" ("GSSAPI" is not supported yet).
        sasl_plain_username, sasl_plain_password: For PLAIN and SCRAM.
        sasl_oauth_token_provider: For OAUTHBEARER; called at each authentication.
        sasl_kerberos_service_name, sasl_kerberos_domain_name: For GSSAPI.
        transactional_id: Identifies this producer in its transactions; records can be sent in
            transactions only (`begin_transaction`). `start` fences other producers with the same
            id and aborts their open transaction. Implies idempotence; an explicit False is an
            error.
        transaction_timeout_ms: The cluster aborts a transaction that stays open longer than this.
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
        key_serializer: Callable[[Any], Any] | None = None,
        value_serializer: Callable[[Any], Any] | None = None,
        compression_type: str | None = None,
        compression_level: int | None = None,
        max_batch_size: int = 16_384,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        partitioner_ignore_keys: bool = False,
        partitioner_adaptive_partitioning_enable: bool = True,
        partitioner_availability_timeout_ms: float = 0,
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
        retry_backoff_max_ms: float = 1000,
        reconnect_backoff_ms: float = 50,
        reconnect_backoff_max_ms: float = 1000,
        socket_connection_setup_timeout_ms: float = 10_000,
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
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
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
        if acks is None:
            acks = "all"
        if delivery_timeout_ms is None:
            least = _number(linger_ms) + _number(request_timeout_ms)
            delivery_timeout_ms = max(_DEFAULT_DELIVERY_TIMEOUT_MS, least)
        interceptors = _checked(interceptors)
        if partitioner is not None and type(partitioner) is DefaultPartitioner:
            partitioner = None
        self._options = ProducerOptions.checked(
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
            transactional_id=transactional_id,
        )
        if client_id is not None:
            _arguments.wire_string("client_id", client_id)
        self._name = client_id or f"aiokafka_lite-producer-{next(_numbers)}"
        self._cluster = Cluster(
            bootstrap_servers,
            connection_options(
                client_id=self._name,
                request_timeout=self._options.request_timeout,
                connections_max_idle_ms=connections_max_idle_ms,
                security_protocol=security_protocol,
                ssl_context=ssl_context,
                sasl_mechanism=sasl_mechanism,
                sasl_plain_username=sasl_plain_username,
                sasl_plain_password=sasl_plain_password,
                sasl_kerberos_service_name=sasl_kerberos_service_name,
                sasl_kerberos_domain_name=sasl_kerberos_domain_name,
                sasl_oauth_token_provider=sasl_oauth_token_provider,
                reconnect_backoff_ms=reconnect_backoff_ms,
                reconnect_backoff_max_ms=reconnect_backoff_max_ms,
                socket_connection_setup_timeout_ms=socket_connection_setup_timeout_ms,
                send_buffer_bytes=send_buffer_bytes,
                receive_buffer_bytes=receive_buffer_bytes,
            ),
            metadata_max_age=milliseconds("metadata_max_age_ms", metadata_max_age_ms, most=INT64),
            retry_backoff=self._options.retry_backoff.base,
            retry_backoff_max=self._options.retry_backoff.maximum,
        )
        self._bootstrap_timeout = (
            None
            if bootstrap_timeout_ms is None
            else milliseconds("bootstrap_timeout_ms", bootstrap_timeout_ms, most=INT64)
        )
        self._transaction_timeout_ms = round(timeout * 1000)
        self._chain = interceptors
        self._make_sender()
        self._starting = False  # or started
        self._ended = asyncio.Event()  # set when `stop` is done
        self._closed = False
        _fork.watch(self)

    def _on_forked(self) -> None:
        """Close the producer in a forked child (see `_fork`)."""
        self._closed = True
        self._ended = asyncio.Event()
        self._ended.set()  # a stop in the child has nothing to do
        self._forked = self._accumulator.refusal = _fork.forked_error("producer")

    def _make_sender(self) -> None:
        """Create the sender; again after a `start` that failed once the sender was running."""
        if self._options.transactional_id is None:
            sender = Sender(self._cluster, self._options, self._name, self._loop)
        else:
            sender = TransactionalSender(
                self._cluster,
                self._options,
                self._name,
                self._loop,
                self._options.transactional_id,
                self._transaction_timeout_ms,
            )
            self._transactions = sender.transactions
        super().__init__(sender, self._chain)
        self._accumulator.refusal = IllegalStateError("the producer is not started")

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
        except BaseException:
            self._sender.abort()
            raise
        finally:
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
        await self.stop()

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
            self._sender.abort()
            self._cluster.abort()
        _warn(f"Unclosed AIOKafkaProducer {self!r}", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"


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
