"""AIOKafkaConsumer, the public class: it checks arguments and documents the API.

The work is done in `core`. Only the application refers to an `AIOKafkaConsumer`. One that is
dropped without `stop()` emits a ResourceWarning, and its finalizer closes the core.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from types import TracebackType
from typing import Never, Self

from aiokafka_lite import _arguments, _fork
from aiokafka_lite._arguments import INT32, INT64, as_partition, milliseconds, topic_names
from aiokafka_lite._version import __version__
from aiokafka_lite.abc import AbstractTokenProvider, ConsumerInterceptor
from aiokafka_lite.cluster.bootstrap import parse_bootstrap
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.consumer import consumer_arguments as arguments
from aiokafka_lite.consumer.bulk_calls import BulkCalls
from aiokafka_lite.consumer.consumer_arguments import (
    DEFAULT_HEARTBEAT_MS,
    DEFAULT_SESSION_MS,
    DEFAULT_STRATEGY,
)
from aiokafka_lite.consumer.consumer_options import DEFAULT_BUFFER_MEMORY, Deserializer
from aiokafka_lite.consumer.core import GIVE_UP_WITHIN, ConsumerCore
from aiokafka_lite.consumer.partitions.delivery import Record, RecordStream
from aiokafka_lite.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalStateError,
)
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.structs import TopicPartition


class AIOKafkaConsumer(BulkCalls):
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
        rebalance_timeout_ms: How long the members may take to give partitions back and to join a
            rebalance; `session_timeout_ms` by default (with the "consumer" protocol:
            `max_poll_interval_ms`).
        session_timeout_ms: The coordinator removes a member without heartbeats for this long.
        heartbeat_interval_ms: Time between two heartbeats. They do not depend on reads.
        consumer_timeout_ms: While some partitions of a broker have buffered records, how long its
            empty partitions wait, at most, before they are fetched again.
        max_poll_records: Maximum records of one `getmany`, or None for no limit.
        ssl_context: The TLS configuration; required with "SSL" and "SASL_SSL".
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
        api_version: Deprecated: the client asks each broker for the versions it supports.
        exclude_internal_topics: Exclude internal topics from a pattern subscription.
        connections_max_idle_ms: Idle connections are closed after this time; None for never.
        isolation_level: "read_uncommitted", or "read_committed" to hide records of transactions
            that are open or were aborted.
        sasl_mechanism: With "SASL_PLAINTEXT" and "SASL_SSL": "PLAIN", "SCRAM-SHA-256",
            "SCRAM-SHA-512" or "OAUTHBEARER" ("GSSAPI" is not supported yet).
        sasl_plain_username, sasl_plain_password: For PLAIN and SCRAM.
        sasl_oauth_token_provider: For OAUTHBEARER; called for each connection and
            re-authentication.
        sasl_kerberos_service_name, sasl_kerberos_domain_name: For GSSAPI.
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
        send_buffer_bytes, receive_buffer_bytes: Sizes of the socket buffers; -1 for the operating
            system's default. Not in aiokafka.
        bootstrap_timeout_ms: How long `start` and `async with` keep trying to reach a first
            broker, for a service that may start before Kafka does. By default each address is
            tried once, and a failure is raised at once. Not in aiokafka.
        group_protocol: "classic", or "consumer" for the protocol of Kafka 4, where the broker
            assigns partitions. Not in aiokafka (KIP-848).
        group_remote_assignor: With "consumer": the name of the broker-side assignor; the group's
            default if omitted. Not in aiokafka.

    Raises:
        TypeError: An argument is unknown (the message suggests the nearest name) or has the wrong
            type.
        ValueError: A value is invalid or not supported yet.
    """

    _entered_in_vain = False  # the last `async with` failed to start

    def __init__(
        self,
        *topics: str,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Sequence[str] = "localhost",
        client_id: str = f"aiokafka-lite-{__version__}",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
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
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
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
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        bootstrap_timeout_ms: float | None = None,
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
            sasl_mechanism=sasl_mechanism,
            sasl_plain_username=sasl_plain_username,
            sasl_plain_password=sasl_plain_password,
            sasl_kerberos_service_name=sasl_kerberos_service_name,
            sasl_kerberos_domain_name=sasl_kerberos_domain_name,
            sasl_oauth_token_provider=sasl_oauth_token_provider,
            max_response_bytes=min(max(256 * 1024 * 1024, 2 * fetch_max_bytes), INT32),
            reconnect_backoff_ms=reconnect_backoff_ms,
            reconnect_backoff_max_ms=reconnect_backoff_max_ms,
            socket_connection_setup_timeout_ms=socket_connection_setup_timeout_ms,
            send_buffer_bytes=send_buffer_bytes,
            receive_buffer_bytes=receive_buffer_bytes,
        )
        auto_create = _arguments.flag("allow_auto_create_topics", allow_auto_create_topics)
        self._bootstrap_timeout = (
            None
            if bootstrap_timeout_ms is None
            else milliseconds("bootstrap_timeout_ms", bootstrap_timeout_ms, most=INT64)
        )
        addresses = parse_bootstrap(bootstrap_servers)

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
                cluster, consumer_options, group_options, metadata_max_age=max_age, loop=loop
            )

        self._make_core = make_core
        super().__init__(make_core())
        core = self._core
        if topics:
            core.subscription.subscribe(topic_names(topics), None, None)
        self._source_traceback = (
            traceback.extract_stack(sys._getframe(1)) if loop.get_debug() else None
        )
        self._closed = False
        _fork.watch(self)

    def _on_forked(self) -> None:
        """This process is a forked child (see `_fork`)."""
        self._core.on_forked(_fork.forked_error("consumer"))

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._closed or self._core.refusal is not None:
            return
        if self._entered_in_vain:
            self._core.abort()  # the core was not started: nothing is open
            return
        _warn(f"Unclosed AIOKafkaConsumer {self!r}", ResourceWarning, source=self)
        core = self._core
        if core.loop.is_closed():
            return
        # The garbage collector may run in any thread.
        core.loop.call_soon_threadsafe(core.abort)
        context: dict[str, object] = {
            "consumer": self,
            "message": "Unclosed AIOKafkaConsumer",
        }
        if self._source_traceback is not None:
            context["source_traceback"] = self._source_traceback
        core.loop.call_exception_handler(context)

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
            GroupAuthorizationFailedError, InvalidSessionTimeoutError, FencedInstanceIdError and
                others: the coordinator rejected this member.
            KafkaTimeoutError: No group coordinator was available within `request_timeout_ms`.
            UnknownTopicOrPartitionError: A topic did not exist within `request_timeout_ms`.
            IllegalStateError: The consumer was already started or stopped, or belongs to another
                event loop.
            ConsumerStoppedError: `stop` was called meanwhile.

        After a failure `start` can be called again. The subscription, assignment, seeks and pauses
        made before are kept.

        Cancellation: closes what was opened; `start` can be called again.
        """
        core = self._core
        if core.refusal is not None:
            raise core.ended()
        core.check_home()
        if self._closed:
            raise IllegalStateError("The consumer was stopped")
        if core.closed:
            raise IllegalStateError("This consumer has failed: create a new one")
        if core.starting:
            raise IllegalStateError("The consumer was already started")
        self._entered_in_vain = False
        wait = self._bootstrap_timeout
        try:
            await core.start(None if wait is None else core.loop.time() + wait)
        except BaseException:
            await self._renew(core)
            raise

    async def _renew(self, core: ConsumerCore) -> None:
        """Replace a core whose start failed after it had connected, unless `stop` was called."""
        if core.closed and not self._closed:
            self._core = self._make_core()
            self._core.take_over(core)
            await core.finish(core.loop.time() + GIVE_UP_WITHIN)

    async def stop(self) -> None:
        """Stop reading, leave the group, and close all connections. Idempotent; works after a
        failed `start`.

        With auto-commit, the offsets of delivered records are committed. The listener's
        `on_partitions_revoked` receives all partitions (as in Java). Static members stay in the
        group until their session expires. Pending `getone` calls raise ConsumerStoppedError,
        pending `getmany` calls return {}, and `async for` ends. Returns within about five seconds,
        even if brokers do not answer.

        Raises:
            IllegalStateError: Called in another event loop than the consumer's; nothing was
                stopped.

        Cancellation: the connections are closed nevertheless.
        """
        if self._core.refusal is not None:
            return  # a forked child has nothing to stop
        if not self._core.closed:
            self._core.check_home()
        self._closed = True
        await self._core.stop()

    async def __aenter__(self) -> Self:
        self._core.check_home()
        try:
            await self.start()
        except BaseException:
            # Nothing is open. The consumer may be entered again, or dropped without `stop`.
            self._entered_in_vain = not self._core.starting
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # --- reading

    async def getone(self, *partitions: TopicPartition) -> Record:
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
    ) -> dict[TopicPartition, list[Record]]:
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
        if max_records is not None and not (_arguments.is_int(max_records) and max_records >= 1):
            raise ValueError("`max_records` must be a positive Integer")
        limit = max_records or self._core.options.max_poll_records
        return await self._core.reader.next_lists(wanted, limit, timeout)

    def __aiter__(self) -> RecordStream:
        """Iterate over all future records; the iteration ends when the consumer is stopped.

        Several tasks may iterate at once: each record goes to one of them.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        if self._closed:
            raise ConsumerStoppedError()
        self._core.check_home()
        self._core.reader.check_begun()
        return RecordStream(self._core.buffer.delivery, self._core.reader.next_or_end, self)

    async def __anext__(self) -> Record:
        record = self._core.buffer.delivery.take()
        return await self._core.reader.next_or_end() if record is None else record


def _deprecated(message: str) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)
