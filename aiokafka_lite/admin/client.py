"""The public admin client: aiokafka's `AIOKafkaAdminClient`, and the methods of Java's `Admin`.

This module checks the constructor's arguments, starts and closes the client, and documents each
method. A method delegates to the function of its name in the room of its subject
(`admin/topics/`, `admin/configs/`, `admin/groups/`, `admin/security/`, `admin/brokers/`).
"""

import asyncio
import itertools
import ssl
import warnings
from collections.abc import Callable, Collection, Iterable
from types import TracebackType
from typing import Any, Literal, Never, Self, overload
from uuid import UUID

from aiokafka_lite import _arguments
from aiokafka_lite._arguments import INT64, milliseconds
from aiokafka_lite._home import check_home
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.admin.brokers import cluster as _cluster
from aiokafka_lite.admin.brokers.cluster import ClusterDescription
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.groups import listing as _listing
from aiokafka_lite.admin.groups.listing import ConsumerGroupListing, GroupListings
from aiokafka_lite.admin.new_topic import NewTopic
from aiokafka_lite.admin.topics import creation as _creation
from aiokafka_lite.admin.topics import description as _description
from aiokafka_lite.admin.topics.creation import CreateTopicsResult, DeleteTopicsResult
from aiokafka_lite.admin.topics.description import TopicListing
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.net.connection_arguments import connection_options

__all__ = ["AIOKafkaAdminClient"]

_numbers = itertools.count(1)


class AIOKafkaAdminClient:
    """Administers a Kafka cluster: topics, configurations, groups, access, brokers.

        async with AIOKafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            created = await admin.create_topics([NewTopic("orders", 6, 3)])
            created.raise_for_errors()

    The methods of aiokafka's admin client have its arguments and results. The others have the names
    of Java's `Admin` in snake_case. A method about many items returns a mapping of each item to
    its value or its error (`admin.core.results.Results`); it raises only if no broker could say
    anything about any item. Where aiokafka returns a list or a dict of its own, `typed=True`
    selects Java's richer result.

    A call has one deadline: `timeout_ms`, by default `default_api_timeout_ms`. Until then it
    retries retriable errors, and only for the items that they concern. A request that got no
    response may have been carried out, and is repeated. Cancelling a call stops its wait; a request
    that was sent may still be carried out.

    Args:
        bootstrap_servers: "host:port" of one or more brokers, comma-separated or as a list.
        client_id: Name of this client in the brokers' logs and quotas.
        request_timeout_ms: A request without a response in this time fails its connection.
        default_api_timeout_ms: How long a call may take without a `timeout_ms` of its own. The
            default is one and a half times `request_timeout_ms`. Not in aiokafka.
        connections_max_idle_ms: Idle connections are closed after this time; None: never.
        retry_backoff_ms: Pause before a retry; doubles up to `retry_backoff_max_ms`.
        retry_backoff_max_ms: Upper bound of these pauses (KIP-580). Not in aiokafka.
        metadata_max_age_ms: Metadata is refreshed after this time.
        bootstrap_timeout_ms: How long `start` and `async with` keep trying to reach a first
            broker. By default each address is tried once. Not in aiokafka.
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
        ssl_context: The TLS context; required with "SSL" and "SASL_SSL".
        sasl_mechanism, sasl_plain_username, sasl_plain_password, sasl_kerberos_service_name,
            sasl_kerberos_domain_name, sasl_oauth_token_provider: As in `AIOKafkaProducer`.
        loop: Deprecated by aiokafka: the event loop, if the client is created outside of it.
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
        request_timeout_ms: float = 40_000,
        connections_max_idle_ms: float | None = 540_000,
        retry_backoff_ms: float = 100,
        metadata_max_age_ms: float = 300_000,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        api_version: object = None,
        sasl_mechanism: str | None = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        sasl_kerberos_service_name: str | None = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
        default_api_timeout_ms: float | None = None,
        retry_backoff_max_ms: float = 1000,
        bootstrap_timeout_ms: float | None = None,
        **unknown: Never,
    ) -> None:
        _arguments.refuse_unknown(
            unknown,
            AIOKafkaAdminClient.__init__.__kwdefaults__ or (),
            AIOKafkaAdminClient.__name__,
        )
        _arguments.check_loop(loop)
        _arguments.check_api_version(api_version)
        self._loop = _arguments.running_loop(AIOKafkaAdminClient.__name__) if loop is None else loop
        for name, given in (("loop", loop), ("api_version", api_version)):
            if given is not None:
                text = f"The `{name}` argument is deprecated and has no effect"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
        request_timeout = milliseconds("request_timeout_ms", request_timeout_ms, least=1)
        call_timeout = request_timeout * 1.5
        if default_api_timeout_ms is not None:
            call_timeout = milliseconds("default_api_timeout_ms", default_api_timeout_ms, least=1)
        if client_id is not None:
            _arguments.wire_string("client_id", client_id)
        self._name = client_id or f"aiokafka_lite-admin-{next(_numbers)}"
        self._bootstrap_timeout = (
            None
            if bootstrap_timeout_ms is None
            else milliseconds("bootstrap_timeout_ms", bootstrap_timeout_ms, most=INT64)
        )
        self._cluster = Cluster(
            bootstrap_servers,
            connection_options(
                client_id=self._name,
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
            retry_backoff_max=milliseconds("retry_backoff_max_ms", retry_backoff_max_ms),
            allow_auto_create_topics=False,
        )
        self._request_timeout = request_timeout
        self._dispatcher = Dispatcher(self._cluster, self._loop, request_timeout, call_timeout)
        self._closed = False

    # Lifecycle

    async def start(self) -> None:
        """Connect to the cluster. Does nothing if the client is started.

        It can be called again after it failed or was cancelled.

        Raises:
            KafkaConnectionError: No bootstrap address answered; with `bootstrap_timeout_ms`, in
                that time.
            KafkaError: All addresses failed with the same lasting error, such as refused
                credentials.
            IllegalStateError: The client is closed, or belongs to another event loop.

        Cancellation: closes all connections.
        """
        self._check_home()
        if self._closed:
            raise IllegalStateError("an admin client that was closed cannot be started again")
        if self._cluster.started:
            return
        self._entered_in_vain = False
        wait = self._bootstrap_timeout
        await self._cluster.start(None if wait is None else self._loop.time() + wait)

    async def close(self) -> None:
        """Close every connection. Idempotent. Calls under way raise IllegalStateError.

        Raises:
            IllegalStateError: This is not the client's event loop; nothing was closed.
        """
        if self._closed and self._cluster.closed:
            return
        self._check_home()
        self._closed = True
        await self._cluster.close(self._loop.time() + self._request_timeout)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self._entered_in_vain = not self._cluster.started  # nothing is open
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._closed is not False:
            return
        self._closed = True
        if self._entered_in_vain:
            return
        if not self._loop.is_closed():
            self._cluster.abort()
        _warn(f"Unclosed AIOKafkaAdminClient {self!r}", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    # Topics: admin/topics/creation.py, admin/topics/description.py

    async def create_topics(
        self,
        new_topics: Iterable[NewTopic],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        retry_on_quota_violation: bool = True,
        raise_errors: bool = False,
    ) -> CreateTopicsResult:
        """Create topics.

        The controller responds when it has created them; brokers learn of a topic later, so the
        first requests for it may fail.

        As in aiokafka, the error of a topic is not raised but returned; it is also logged as a
        warning. `raise_for_errors()` of the result, or `raise_errors=True`, raises it.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.
            validate_only: Only check whether the topics could be created.
            retry_on_quota_violation: Retry topics that exceed the quota of topic changes until the
                deadline (KIP-599).
            raise_errors: Raise the first error of a topic. Not in aiokafka.

        Returns:
            A `CreatedTopic` or an error by topic name; `topic_errors` has aiokafka's tuples.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.4 have no defaults (-1), those before 0.10.2
                no `validate_only`, those before 0.10.1 no such request.
            KafkaTimeoutError: No controller answered in time.
            KafkaError: The request failed for all topics; with `raise_errors`, also the error of a
                topic: TopicAlreadyExistsError, PolicyViolationError, ...

        Cancellation: the topics may still be created.

        Source: CreateTopicsRequest.json, KIP-4.
        """
        self._check_home()
        return await _creation.create_topics(
            self._dispatcher,
            new_topics,
            timeout_ms,
            validate_only=_arguments.flag("validate_only", validate_only),
            retry_on_quota_violation=retry_on_quota_violation,
            raise_errors=raise_errors,
        )

    async def delete_topics(
        self,
        topics: Iterable[str | UUID],
        timeout_ms: float | None = None,
        *,
        retry_on_quota_violation: bool = True,
        raise_errors: bool = False,
    ) -> DeleteTopicsResult:
        """Delete topics by name, or by id (KIP-516, Kafka 2.8; not in aiokafka).

        As in aiokafka, the error of a topic is not raised but returned; it is also logged as a
        warning. `raise_for_errors()` of the result, or `raise_errors=True`, raises it.

        Args:
            topics: Names or ids.
            timeout_ms, retry_on_quota_violation, raise_errors: As for `create_topics`.

        Returns:
            None or an error by topic; `topic_error_codes` has aiokafka's tuples.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old.
            KafkaTimeoutError: No controller answered in time.
            KafkaError: The request failed for all topics; with `raise_errors`, also the error of a
                topic: UnknownTopicOrPartitionError, TopicAuthorizationFailedError, ...

        Cancellation: the topics may still be deleted.

        Source: DeleteTopicsRequest.json, KIP-4.
        """
        self._check_home()
        return await _creation.delete_topics(
            self._dispatcher,
            topics,
            timeout_ms,
            retry_on_quota_violation=retry_on_quota_violation,
            raise_errors=raise_errors,
        )

    @overload
    async def list_topics(
        self,
        timeout_ms: float | None = None,
        *,
        list_internal: bool = True,
        typed: Literal[False] = False,
    ) -> list[str]: ...
    @overload
    async def list_topics(
        self, timeout_ms: float | None = None, *, list_internal: bool = True, typed: Literal[True]
    ) -> dict[str, TopicListing]: ...
    async def list_topics(
        self, timeout_ms: float | None = None, *, list_internal: bool = True, typed: bool = False
    ) -> list[str] | dict[str, TopicListing]:
        """List the topics of the cluster that the client may describe.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.
            list_internal: Include Kafka's own topics, as aiokafka does (Java does not by default).
            typed: Return a `TopicListing` by name, with the topic's id.

        Raises:
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.
        """
        self._check_home()
        found = await _description.list_topics(
            self._dispatcher, timeout_ms, list_internal=list_internal
        )
        return found if typed else list(found)

    # Partitions: admin/topics/partitions.py

    # Records and offsets of partitions: admin/topics/records.py

    # Log directories: admin/topics/log_dirs.py

    # Reassignments: admin/topics/reassignments.py

    # Elections: admin/topics/elections.py

    # Configurations: admin/configs/configs.py

    # Client metrics: admin/configs/client_metrics.py

    # Client quotas: admin/configs/client_quotas.py

    # The cluster: admin/brokers/cluster.py

    @overload
    async def describe_cluster(
        self,
        timeout_ms: float | None = None,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        typed: Literal[False] = False,
    ) -> dict[str, Any]: ...
    @overload
    async def describe_cluster(
        self,
        timeout_ms: float | None = None,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        typed: Literal[True],
    ) -> ClusterDescription: ...
    async def describe_cluster(
        self,
        timeout_ms: float | None = None,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        typed: bool = False,
    ) -> dict[str, Any] | ClusterDescription:
        """Describe the cluster: its id, its brokers and its controller.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.
            include_authorized_operations: Also what the client may do with the cluster (KIP-430,
                Kafka 2.3); in the typed result only.
            include_fenced_brokers: Also brokers that the controller fenced (KIP-1073, Kafka 4.0).
            typed: Return a `ClusterDescription` in place of aiokafka's dict.

        Returns:
            {"throttle_time_ms", "brokers": [{"node_id", "host", "port", "rack"}], "cluster_id",
            "controller_id"}; or a `ClusterDescription`.

        Raises:
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeClusterRequest.json, KIP-700.
        """
        self._check_home()
        described = await _cluster.describe_cluster(
            self._dispatcher,
            timeout_ms,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
        return described if typed else described.to_object()

    # Features: admin/brokers/features.py

    # The metadata quorum: admin/brokers/quorum.py

    # Groups: admin/groups/listing.py

    async def list_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        protocol_types: Collection[str] = (),
        broker_ids: Iterable[int] | None = None,
        timeout_ms: float | None = None,
    ) -> GroupListings:
        """List the groups of the cluster, asking every broker at once. Not in aiokafka.

        Args:
            states: Only groups in these states, such as "Stable" (KIP-518, Kafka 2.6).
            types: Only groups of these types: "classic", "consumer", "share", "streams" (KIP-848,
                Kafka 3.8).
            protocol_types: Only groups of these protocols, such as "consumer".
            broker_ids: Only groups that these brokers coordinate; None: all.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            `valid()`: the groups; `errors()`: the error of each broker that did not list its own.

        Raises:
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaError: No broker listed its groups: the error of the first one.

        Cancellation: safe.

        Source: ListGroupsRequest.json.
        """
        self._check_home()
        return await _listing.list_groups(
            self._dispatcher,
            timeout_ms,
            states=states,
            types=types,
            protocol_types=protocol_types,
            broker_ids=broker_ids,
        )

    async def list_consumer_groups(
        self, broker_ids: Iterable[int] | None = None, *, timeout_ms: float | None = None
    ) -> list[ConsumerGroupListing]:
        """List groups of every type as aiokafka does; `list_groups` returns more about each.

        Args:
            broker_ids: Only groups that these brokers coordinate; None: all.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            (group id, protocol type) of each group.

        Raises:
            KafkaError: A broker did not list its groups.

        Cancellation: safe.
        """
        self._check_home()
        return await _listing.list_consumer_groups(self._dispatcher, broker_ids, timeout_ms)

    # Consumer and classic groups: admin/groups/consumer_groups.py

    # Offsets of groups: admin/groups/group_offsets.py

    # Share groups: admin/groups/share_groups.py

    # Streams groups: admin/groups/streams_groups.py

    # Transactions and producers: admin/groups/transactions.py

    # ACLs: admin/security/acls.py

    # SCRAM users: admin/security/scram_users.py

    # Delegation tokens: admin/security/delegation_tokens.py

    # Inside

    def _check_home(self) -> None:
        check_home(self._loop, repr(self), "make an admin client in the event loop that uses it")
