"""The public admin client: aiokafka's `AIOKafkaAdminClient`, and the methods of Java's `Admin`.

This module checks the constructor's arguments, starts and closes the client, and documents each
method. A method delegates to the function of its name in the room of its subject
(`admin/topics/`, `admin/configs/`, `admin/groups/`, `admin/security/`, `admin/brokers/`).
"""

import asyncio
import itertools
import ssl
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, Self, overload
from uuid import UUID

from aiokafka_lite import _arguments
from aiokafka_lite._arguments import INT64, milliseconds
from aiokafka_lite._home import check_home
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.admin.brokers import cluster_description as _cluster_description
from aiokafka_lite.admin.brokers import feature_levels as _feature_levels
from aiokafka_lite.admin.brokers import quorum as _quorum
from aiokafka_lite.admin.brokers.cluster_description import ClusterDescription
from aiokafka_lite.admin.brokers.feature_levels import FeatureMetadata, FeatureUpdate
from aiokafka_lite.admin.brokers.quorum import QuorumInfo, RaftVoterEndpoint
from aiokafka_lite.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_lite.admin.configs import client_quotas as _client_quotas
from aiokafka_lite.admin.configs import configs as _configs
from aiokafka_lite.admin.configs.client_quotas import ClientQuotaEntity, ClientQuotaFilterComponent
from aiokafka_lite.admin.configs.config_types import (
    AlterConfigsResult,
    Config,
    ConfigChange,
    DescribeConfigsResult,
)
from aiokafka_lite.admin.core.controller_cluster import ControllerCluster
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups import consumer_groups as _consumer_groups
from aiokafka_lite.admin.groups import group_offsets as _group_offsets
from aiokafka_lite.admin.groups import lag as _lag
from aiokafka_lite.admin.groups import listing as _listing
from aiokafka_lite.admin.groups import producer_transactions as _producer_transactions
from aiokafka_lite.admin.groups import removal as _removal
from aiokafka_lite.admin.groups import share_groups as _share_groups
from aiokafka_lite.admin.groups import streams_groups as _streams_groups
from aiokafka_lite.admin.groups import transaction_ends as _transaction_ends
from aiokafka_lite.admin.groups.group_offsets import GroupOffsets
from aiokafka_lite.admin.groups.group_types import (
    ClassicGroupDescription,
    ConsumerGroupDescription,
    DescribeGroupsResult,
)
from aiokafka_lite.admin.groups.lag import PartitionLag
from aiokafka_lite.admin.groups.listing import ConsumerGroupListing, GroupListing, GroupListings
from aiokafka_lite.admin.groups.producer_transactions import (
    ProducerDescription,
    TransactionDescription,
    TransactionListings,
)
from aiokafka_lite.admin.groups.share_groups import ShareGroupDescription, ShareGroupOffsets
from aiokafka_lite.admin.groups.streams_groups import StreamsGroupDescription
from aiokafka_lite.admin.groups.transaction_ends import AbortTransactionSpec, FencedProducer
from aiokafka_lite.admin.new_partitions import NewPartitions
from aiokafka_lite.admin.new_topic import NewTopic
from aiokafka_lite.admin.records_to_delete import RecordsToDelete
from aiokafka_lite.admin.security import acls as _acls
from aiokafka_lite.admin.security import delegation_tokens as _delegation_tokens
from aiokafka_lite.admin.security import scram_users as _scram_users
from aiokafka_lite.admin.security.acl_types import AclBinding, AclBindingFilter
from aiokafka_lite.admin.security.acls import DeleteAclsResult
from aiokafka_lite.admin.security.delegation_tokens import DelegationToken
from aiokafka_lite.admin.security.scram_users import (
    ScramCredential,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from aiokafka_lite.admin.topics import creation as _creation
from aiokafka_lite.admin.topics import description as _description
from aiokafka_lite.admin.topics import elections as _elections
from aiokafka_lite.admin.topics import ensuring as _ensuring
from aiokafka_lite.admin.topics import log_dirs as _log_dirs
from aiokafka_lite.admin.topics import partitions as _partitions
from aiokafka_lite.admin.topics import reassignments as _reassignments
from aiokafka_lite.admin.topics import records as _records
from aiokafka_lite.admin.topics import visibility as _visibility
from aiokafka_lite.admin.topics.creation import CreateTopicsResult, DeleteTopicsResult
from aiokafka_lite.admin.topics.description import TopicDescription, TopicListing
from aiokafka_lite.admin.topics.elections import ElectionType
from aiokafka_lite.admin.topics.ensuring import EnsuredTopic
from aiokafka_lite.admin.topics.log_dirs import (
    LogDirDescription,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
)
from aiokafka_lite.admin.topics.partitions import CreatePartitionsResult
from aiokafka_lite.admin.topics.reassignments import PartitionReassignment
from aiokafka_lite.admin.topics.records import OffsetInfo, OffsetSpec
from aiokafka_lite.client import AIOKafkaClient
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    IllegalArgumentError,
    IllegalStateError,
    KafkaConfigurationError,
)
from aiokafka_lite.metrics_push.application_metrics import ApplicationMetrics
from aiokafka_lite.metrics_push.metrics_push import MetricsPush
from aiokafka_lite.metrics_push.push_calls import MetricsPushCalls
from aiokafka_lite.net.aws.aws_credentials import AwsCredentials, CredentialSource
from aiokafka_lite.net.connection_arguments import connection_options
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:  # loaded if the brokers collect metrics
    from aiokafka_lite.metrics_push.metric_points import ClientMetrics

__all__ = ["AIOKafkaAdminClient"]

_numbers = itertools.count(1)


class AIOKafkaAdminClient(MetricsPushCalls):
    """Administers a Kafka cluster: topics, configurations, groups, access, brokers.

        async with AIOKafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            created = await admin.create_topics([NewTopic("orders", 6, 3)])
            created.raise_for_errors()

    The methods of aiokafka's admin client have its arguments and results. The others have the names
    of Java's `Admin` in snake_case. A method about many items returns a mapping of each item to
    its value or its error (`admin.core.results.Results`); it raises only if no broker answered for
    any item. Where aiokafka returns its own list or dict, `typed=True`
    selects Java's richer result.

    A call has one deadline: `timeout_ms`, by default `default_api_timeout_ms`. Until then it
    retries retriable errors, and only for the items that they concern. A request that got no
    response may have been carried out, and is repeated. Cancelling a call stops its wait; a request
    that was sent may still be carried out.

    Args:
        bootstrap_servers: "host:port" of one or more brokers, comma-separated or as a list. The
            default is "localhost".
        client_id: Name of this client in the brokers' logs and quotas.
        request_timeout_ms: A request without a response in this time fails its connection.
        default_api_timeout_ms: How long a call without its own `timeout_ms` may take. The
            default is one and a half times `request_timeout_ms`. Not in aiokafka.
        connections_max_idle_ms: Idle connections are closed after this time; None: never.
        retry_backoff_ms: Pause before a retry; doubles up to `retry_backoff_max_ms`.
        retry_backoff_max_ms: Upper bound of these pauses (KIP-580). Not in aiokafka.
        metadata_max_age_ms: Metadata is refreshed after this time.
        bootstrap_timeout_ms: How long `start` and `async with` keep trying to reach a first
            broker. By default each address is tried once. Not in aiokafka.
        bootstrap_controllers: In place of `bootstrap_servers`: addresses of KRaft controllers
            (KIP-919, Kafka 3.7), for when no broker answers. Only calls that controllers can
            carry out are possible then. Not in aiokafka.
        enable_metrics_push: As in `AIOKafkaProducer`, but False by default, as in Java.
            Not in aiokafka.
        security_protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
        ssl_context, ssl_cafile, ssl_cadata, ssl_certfile, ssl_keyfile, ssl_password,
            ssl_check_hostname, ssl_ciphers, ssl_enabled_protocols: As in `AIOKafkaProducer`.
        sasl_mechanism, sasl_plain_username, sasl_plain_password, sasl_kerberos_service_name,
            sasl_kerberos_domain_name, sasl_kerberos_principal, sasl_kerberos_keytab,
            sasl_kerberos_cache, sasl_scram_tokenauth, sasl_aws_credentials, sasl_aws_region,
            sasl_oauth_token_provider: As in `AIOKafkaProducer`.
        proxy_url, proxy_ssl_context, client_dns_lookup, metadata_recovery_strategy,
            metadata_recovery_rebootstrap_trigger_ms, metadata_cluster_check_enable: As in
            `AIOKafkaProducer`.
        loop: Deprecated by aiokafka: the event loop, if the client is created outside of it.
        api_version: Deprecated by aiokafka; has no effect.

    Raises:
        KafkaConfigurationError: (a ValueError) A value is out of range, or two values contradict
            each other.
        TypeError: An argument has the wrong type or does not exist (the nearest name is given).
        RuntimeError: There is no running event loop, and no `loop`.
    """

    _closed: bool | None = None  # None until the constructor has completed
    _owner: str | None = None  # the client that `of` shares the connections of
    _entered_in_vain = False  # True if the last `async with` failed to start

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | Iterable[str | tuple[str, int]] | None = None,
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
        sasl_kerberos_principal: str | None = None,
        sasl_kerberos_keytab: str | PathLike[str] | None = None,
        sasl_kerberos_cache: str | None = None,
        sasl_scram_tokenauth: bool = False,
        sasl_aws_credentials: AwsCredentials | CredentialSource | None = None,
        sasl_aws_region: str | None = None,
        sasl_oauth_token_provider: AbstractTokenProvider | None = None,
        default_api_timeout_ms: float | None = None,
        retry_backoff_max_ms: float = 1000,
        bootstrap_timeout_ms: float | None = None,
        bootstrap_controllers: str | Iterable[str | tuple[str, int]] | None = None,
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
        enable_metrics_push: bool = False,
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
        if bootstrap_servers is not None and bootstrap_controllers is not None:
            raise KafkaConfigurationError(
                "`bootstrap_servers` and `bootstrap_controllers` cannot be combined"
            )
        kind, addresses = Cluster, "localhost" if bootstrap_servers is None else bootstrap_servers
        if bootstrap_controllers is not None:
            kind, addresses = ControllerCluster, bootstrap_controllers
        self._cluster = kind(
            addresses,
            connection_options(
                client_id=self._name,
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
            retry_backoff_max=milliseconds("retry_backoff_max_ms", retry_backoff_max_ms),
            allow_auto_create_topics=False,
        )
        self._request_timeout = request_timeout
        self._push = MetricsPush(
            self._cluster,
            ApplicationMetrics(),
            self._loop,
            enabled=_arguments.flag("enable_metrics_push", enable_metrics_push),
        )
        self._dispatcher = Dispatcher(self._cluster, self._loop, request_timeout, call_timeout)
        self._closed = False

    @classmethod
    def of(cls, client: AIOKafkaClient, *, default_api_timeout_ms: float | None = None) -> Self:
        """An admin client over the connections of another client. Not in aiokafka.

            admin = AIOKafkaAdminClient.of(producer.client)

        It is ready as soon as the other client is started, and `close` leaves the connections to
        that client.

        Args:
            client: The `client` of a producer, or an AIOKafkaClient.
            default_api_timeout_ms: As for the constructor.

        Raises:
            TypeError: `client` is something else.
        """
        given: object = client
        if not isinstance(given, AIOKafkaClient):
            hint = "; pass its `client`" if hasattr(given, "client") else ""
            raise TypeError(f"`client` should be an AIOKafkaClient, not {given!r}{hint}")
        self = cls.__new__(cls)
        self._loop = client._loop
        self._cluster = client._cluster
        self._owner = repr(client)
        self._push = MetricsPush(client._cluster, ApplicationMetrics(), client._loop, enabled=False)
        self._name = f"of {self._owner}"
        self._bootstrap_timeout = None
        self._request_timeout = client._request_timeout
        call_timeout = client._request_timeout * 1.5
        if default_api_timeout_ms is not None:
            call_timeout = milliseconds("default_api_timeout_ms", default_api_timeout_ms, least=1)
        self._dispatcher = Dispatcher(
            client._cluster, client._loop, client._request_timeout, call_timeout
        )
        return self

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
            if self._cluster.metadata.version == 0:  # another call is starting it
                deadline = self._loop.time() + self._request_timeout
                await self._cluster.wait_for_version(0, deadline)
            return
        if self._owner is not None:
            raise IllegalStateError(f"start {self._owner} first: this client uses its connections")
        self._entered_in_vain = False
        wait = self._bootstrap_timeout
        await self._cluster.start(None if wait is None else self._loop.time() + wait)
        self._push.start(self._pushed_metrics)

    def _pushed_metrics(self) -> "ClientMetrics":
        from aiokafka_lite.metrics_push.metric_points import ClientMetrics

        cluster, loop = self._cluster, self._loop
        return ClientMetrics(
            "admin",
            lambda: cluster.connection_metrics(loop.time()),
            lambda: cluster.node_metrics(loop.time()),
            dict,
        )

    async def close(self) -> None:
        """Close every connection. Idempotent. Calls under way raise IllegalStateError.

        An admin client made by `of` closes nothing.

        Raises:
            IllegalStateError: This is not the client's event loop; nothing was closed.
        """
        if self._owner is not None or (self._closed and self._cluster.closed):
            return
        self._check_home()
        self._closed = True
        deadline = self._loop.time() + self._request_timeout
        await self._push.close(deadline)
        await self._cluster.close(deadline)

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
            self._push.abort()
            self._cluster.abort()
        _warn(f"Unclosed AIOKafkaAdminClient {self!r}", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    def _metrics_push(self) -> MetricsPush:
        self._check_home()
        return self._push

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

    @overload
    async def describe_topics(
        self,
        topics: Iterable[str] | None = None,
        *,
        timeout_ms: float | None = None,
        typed: Literal[False] = False,
    ) -> list[dict[str, Any]]: ...
    @overload
    async def describe_topics(
        self,
        topics: Iterable[str | UUID] | None = None,
        *,
        timeout_ms: float | None = None,
        typed: Literal[True],
        include_authorized_operations: bool = False,
    ) -> Results[str | UUID, TopicDescription]: ...
    async def describe_topics(
        self,
        topics: Any = None,
        *,
        timeout_ms: float | None = None,
        typed: bool = False,
        include_authorized_operations: bool = False,
    ) -> list[dict[str, Any]] | Results[str | UUID, TopicDescription]:
        """Describe topics: their partitions with leaders, replicas and in-sync replicas.

        It never creates a topic.

        Args:
            topics: Names, or with `typed` also ids (KIP-516, Kafka 3.1); None: all topics.
            timeout_ms: Deadline of the call; None or 0: the client's default.
            typed: Return Java's result in place of aiokafka's dicts. Topics with many partitions
                are then read in pages (KIP-966, Kafka 3.8).
            include_authorized_operations: With `typed`, also what the client may do with each topic
                (KIP-430, Kafka 2.3).

        Returns:
            [{"error_code", "topic", "is_internal", "partitions": [{"error_code", "partition",
            "leader", "replicas", "isr", "offline_replicas"}]}], where unknown topics have an error
            code; or a `TopicDescription` or an error by topic.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeTopicPartitionsRequest.json, MetadataRequest.json.
        """
        self._check_home()
        if typed:
            return await _description.describe_topics(
                self._dispatcher,
                topics,
                timeout_ms,
                include_authorized_operations=include_authorized_operations,
            )
        if include_authorized_operations:
            raise IllegalArgumentError("include_authorized_operations needs typed=True")
        return await _description.topics_as_objects(self._dispatcher, topics, timeout_ms)

    async def wait_for_topics(
        self, topics: Iterable[str] | Mapping[str, int], *, timeout_ms: float | None = None
    ) -> None:
        """Wait until every broker reports the topics, with a leader for each partition.

        A controller responds before all brokers know of a new topic; a producer or consumer that
        asks one of the others gets UNKNOWN_TOPIC_OR_PARTITION until then. Not in aiokafka.

        Args:
            topics: Names; or partition counts by name, to wait for `create_partitions`.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            TopicAuthorizationFailedError, InvalidTopicError: The client cannot see a topic.
            KafkaTimeoutError: A broker did not show the topics in time; it is named.

        Cancellation: safe.
        """
        self._check_home()
        await _visibility.wait_for_topics(self._dispatcher, topics, timeout_ms)

    async def ensure_topics(
        self, new_topics: Iterable[NewTopic], *, timeout_ms: float | None = None
    ) -> Results[str, EnsuredTopic]:
        """Create the topics that are missing, wait until every broker knows them, and report how
        those that exist differ from what is wanted.

        It changes no topic that exists. Several processes may call it at once. Not in aiokafka.

        Args:
            new_topics: The topics. Numbers that are -1 and configurations that are not named are
                not compared.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            An `EnsuredTopic` or an error by topic name; `created` and `differences` say what was
            found.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            KafkaTimeoutError: No broker answered in time, or one did not show a topic in time.

        Cancellation: topics may still be created.
        """
        self._check_home()
        return await _ensuring.ensure_topics(self._dispatcher, new_topics, timeout_ms)

    # Partitions: admin/topics/partitions.py

    async def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        retry_on_quota_violation: bool = True,
        raise_errors: bool = True,
    ) -> CreatePartitionsResult:
        """Add partitions to topics.

        Records that exist stay where they are, so keys may move to other partitions.

        Args:
            topic_partitions: The total number of partitions that each topic should have.
            timeout_ms: Deadline of the call; None or 0: the client's default.
            validate_only: Only check whether the partitions could be added.
            retry_on_quota_violation: As for `create_topics`.
            raise_errors: Raise the first error of a topic, as aiokafka does; if False, return
                them.

        Returns:
            None or an error by topic name; `topic_errors` has aiokafka's tuples.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            InvalidPartitionsError: A topic has that many partitions or more.
            UnsupportedVersionError: Brokers before 1.0 cannot add partitions.
            KafkaTimeoutError: No controller answered in time.
            KafkaError: Another error of a topic.

        Cancellation: the partitions may still be added.

        Source: CreatePartitionsRequest.json, KIP-195.
        """
        self._check_home()
        return await _partitions.create_partitions(
            self._dispatcher,
            topic_partitions,
            timeout_ms,
            validate_only=_arguments.flag("validate_only", validate_only),
            retry_on_quota_violation=retry_on_quota_violation,
            raise_errors=raise_errors,
        )

    # Records and offsets of partitions: admin/topics/records.py

    @overload
    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, RecordsToDelete],
        timeout_ms: float | None = None,
        *,
        raise_errors: Literal[True] = True,
    ) -> dict[TopicPartition, int]: ...
    @overload
    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, RecordsToDelete],
        timeout_ms: float | None = None,
        *,
        raise_errors: Literal[False],
    ) -> Results[TopicPartition, int]: ...
    async def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, RecordsToDelete],
        timeout_ms: float | None = None,
        *,
        raise_errors: bool = True,
    ) -> dict[TopicPartition, int] | Results[TopicPartition, int]:
        """Delete the records of partitions before given offsets.

        Args:
            records_to_delete: The first offset to keep, by partition.
            timeout_ms: Deadline of the call; None or 0: the client's default. A topic that does
                not exist is looked for until then, because it may be new.
            raise_errors: Raise the first error of a partition, as aiokafka does; if False, return
                them.

        Returns:
            The first offset that each partition still has.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            OffsetOutOfRangeError: An offset is beyond the high watermark.
            PolicyViolationError: A topic is compacted, so its records cannot be deleted.
            KafkaTimeoutError: A leader did not answer in time.
            KafkaError: Another error of a partition.

        Cancellation: the records may still be deleted.

        Source: DeleteRecordsRequest.json, KIP-107.
        """
        self._check_home()
        results = await _records.delete_records(self._dispatcher, records_to_delete, timeout_ms)
        return results.raise_for_errors() if raise_errors else results

    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, OffsetInfo]:
        """Look up offsets: the ends of partitions, or by timestamp. Not in aiokafka.

        Args:
            partitions: An `OffsetSpec`, or a timestamp in milliseconds, by partition.
            isolation_level: "read_uncommitted", or "read_committed": LATEST is then the offset of
                the first open transaction, if there is one.
            timeout_ms: Deadline of the call; None or 0: the client's default. A topic that does
                not exist is looked for until then, because it may be new.

        Returns:
            An `OffsetInfo` or an error by partition.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old for every spec.
            KafkaTimeoutError: No leader answered in time.

        Cancellation: safe.

        Source: ListOffsetsRequest.json.
        """
        self._check_home()
        return await _records.list_offsets(
            self._dispatcher, partitions, timeout_ms, isolation_level=isolation_level
        )

    # Log directories: admin/topics/log_dirs.py

    async def describe_log_dirs(
        self,
        node_ids: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> Results[int, dict[str, LogDirDescription]]:
        """Describe the log directories of brokers and the replicas in them. Not in aiokafka.

        Args:
            node_ids: The brokers; None: every live one.
            partitions: Only replicas of these partitions; None: all.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            Descriptions by path, or an error, by node id. A directory that is offline has an
            `error` of its own.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 1.0 cannot do this.
            KafkaError: No broker answered: the error of the first one.

        Cancellation: safe.

        Source: DescribeLogDirsRequest.json, KIP-113, KIP-827.
        """
        self._check_home()
        return await _log_dirs.describe_log_dirs(self._dispatcher, node_ids, partitions, timeout_ms)

    async def describe_replica_log_dirs(
        self, replicas: Iterable[TopicPartitionReplica], *, timeout_ms: float | None = None
    ) -> Results[TopicPartitionReplica, ReplicaLogDirInfo]:
        """Find the log directories that have replicas. Not in aiokafka.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            A `ReplicaLogDirInfo` or an error by replica; its directories are None if the broker
            has no such replica.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 1.0 cannot do this.
            KafkaError: No broker answered: the error of the first one.

        Cancellation: safe.

        Source: DescribeLogDirsRequest.json, KIP-113.
        """
        self._check_home()
        return await _log_dirs.describe_replica_log_dirs(self._dispatcher, replicas, timeout_ms)

    async def alter_replica_log_dirs(
        self,
        assignment: Mapping[TopicPartitionReplica, str],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers. Not in aiokafka.

        A broker responds when the move has begun; `describe_replica_log_dirs` shows its progress.

        Args:
            assignment: The absolute path of the directory by replica.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by replica. ReplicaNotAvailableError: the broker has no such replica,
            and will put it into the directory if it is created before the broker restarts.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 1.0 cannot do this.
            KafkaError: No broker answered: the error of the first one.

        Cancellation: the replicas may still be moved.

        Source: AlterReplicaLogDirsRequest.json, KIP-113.
        """
        self._check_home()
        return await _log_dirs.alter_replica_log_dirs(self._dispatcher, assignment, timeout_ms)

    # Reassignments: admin/topics/reassignments.py

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Change which brokers have replicas of partitions. Not in aiokafka.

        The controller responds when the reassignments have begun; `list_partition_reassignments`
        returns those that are in progress.

        Args:
            reassignments: By partition, the node ids of its replicas, the preferred leader first;
                None cancels the reassignment in progress.
            allow_replication_factor_change: If False, partitions whose replicas would become more
                or fewer fail (KIP-860, Kafka 4.1).
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by partition. NoReassignmentInProgressError: there is nothing to
            cancel.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.4 cannot do this.
            KafkaTimeoutError: No controller answered in time.
            KafkaError: The request failed for all partitions.

        Cancellation: the reassignments may still begin.

        Source: AlterPartitionReassignmentsRequest.json, KIP-455.
        """
        self._check_home()
        return await _reassignments.alter_partition_reassignments(
            self._dispatcher,
            reassignments,
            timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    async def list_partition_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments that are in progress, by partition. Not in aiokafka.

        Args:
            partitions: Only reassignments of these partitions; None: all.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            ClusterAuthorizationFailedError: The client may not describe the cluster.
            UnsupportedVersionError: Brokers before 2.4 cannot do this.
            KafkaTimeoutError: No controller answered in time.

        Cancellation: safe.

        Source: ListPartitionReassignmentsRequest.json, KIP-455.
        """
        self._check_home()
        return await _reassignments.list_partition_reassignments(
            self._dispatcher, partitions, timeout_ms
        )

    # Elections: admin/topics/elections.py

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, bool]:
        """Elect leaders of partitions. Not in aiokafka.

        Args:
            election_type: PREFERRED: the first replica; UNCLEAN: any live one, which can lose
                records.
            partitions: None: all partitions.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            True if a leader was elected, False if no election was needed, or an error, by
            partition. With `partitions=None` only partitions that needed an election.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.2 cannot do this, those before 2.4 have no
                UNCLEAN.
            KafkaTimeoutError: No controller answered in time.
            KafkaError: The request failed for all partitions.

        Cancellation: the elections may still be held.

        Source: ElectLeadersRequest.json, KIP-183, KIP-460.
        """
        self._check_home()
        return await _elections.elect_leaders(
            self._dispatcher, election_type, partitions, timeout_ms
        )

    # Configurations: admin/configs/configs.py

    @overload
    async def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        *,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
        typed: Literal[False] = False,
    ) -> DescribeConfigsResult: ...
    @overload
    async def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        *,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
        typed: Literal[True],
    ) -> Results[ConfigResource, Config]: ...
    async def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        *,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
        typed: bool = False,
    ) -> DescribeConfigsResult | Results[ConfigResource, Config]:
        """Describe the configurations of topics, brokers, groups and other resources.

        Args:
            config_resources: The resources; their `configs` name the configurations to return,
                None or empty for all.
            include_synonyms: Also the configurations that would apply otherwise (Kafka 1.1).
            include_documentation: Also their documentation and types (KIP-569, Kafka 2.6); in the
                typed result only.
            timeout_ms: Deadline of the call; None or 0: the client's default.
            typed: Return the configurations by resource in place of aiokafka's responses.

        Returns:
            aiokafka's list of responses: one for each named broker, then one for all other
            resources, with `results` and `raise_for_errors()` beyond aiokafka. Or, with `typed`,
            {name: `ConfigEntry`} or an error by resource.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeConfigsRequest.json, KIP-133.
        """
        self._check_home()
        results = await _configs.describe_configs(
            self._dispatcher,
            config_resources,
            timeout_ms,
            include_synonyms=_arguments.flag("include_synonyms", include_synonyms),
            include_documentation=include_documentation,
        )
        return results if typed else _configs.as_responses(results)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, ConfigChange],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Change single configurations and leave the others as they are. Not in aiokafka.

        Args:
            changes: By resource, the values to set by name (None removes the resource's own
                value), or `AlterConfigOp` objects, which can also append to lists.
            validate_only: Only check the changes.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by resource. The changes of one resource are made together or not at
            all.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.3 cannot do this. `alter_configs` can, but
                resets every configuration that it does not name; it is never used instead.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the changes may still be made.

        Source: IncrementalAlterConfigsRequest.json, KIP-339.
        """
        self._check_home()
        return await _configs.incremental_alter_configs(
            self._dispatcher,
            changes,
            timeout_ms,
            validate_only=_arguments.flag("validate_only", validate_only),
        )

    async def alter_configs(
        self,
        config_resources: Iterable[ConfigResource],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
        raise_errors: bool = False,
    ) -> AlterConfigsResult:
        """Replace all configurations of resources: those that are not named are reset.

        Java dropped this in 4.0; `incremental_alter_configs` changes only what it names. As in
        aiokafka, the error of a resource is not raised but returned; it is also logged as a
        warning.

        Args:
            config_resources: The resources; their `configs` are the values by name.
            validate_only: Only check the values. Not in aiokafka.
            timeout_ms: Deadline of the call; None or 0: the client's default.
            raise_errors: Raise the first error of a resource. Not in aiokafka.

        Returns:
            aiokafka's list of responses: one for all resources other than named brokers (even if
            there are none), then one for each named broker; with `results` and
            `raise_for_errors()` beyond aiokafka.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            KafkaTimeoutError: No broker answered in time.
            KafkaError: With `raise_errors`, the error of a resource.

        Cancellation: the changes may still be made.

        Source: AlterConfigsRequest.json, KIP-133.
        """
        self._check_home()
        return await _configs.alter_configs(
            self._dispatcher,
            config_resources,
            timeout_ms,
            validate_only=_arguments.flag("validate_only", validate_only),
            raise_errors=raise_errors,
        )

    async def list_config_resources(
        self,
        resource_types: Iterable[ConfigResourceType | str] = (),
        *,
        timeout_ms: float | None = None,
    ) -> list[ConfigResource]:
        """List the resources that have configurations. Not in aiokafka.

        Args:
            resource_types: Only resources of these types; none: of all types.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 4.1 list CLIENT_METRICS only, those before 3.7
                nothing.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: ListConfigResourcesRequest.json, KIP-1142.
        """
        self._check_home()
        return await _configs.list_config_resources(self._dispatcher, resource_types, timeout_ms)

    # Client metrics: admin/configs/client_metrics.py

    # Client quotas: admin/configs/client_quotas.py

    async def describe_client_quotas(
        self,
        components: Iterable[ClientQuotaFilterComponent] = (),
        *,
        strict: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of users, client ids and addresses. Not in aiokafka.

        Args:
            components: Only entities that have every one of these types and names; none: all.
            strict: Only entities without further types: with a component for "user", no quota of
                a user and client id together.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            Values by quota, such as "producer_byte_rate", by entity.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            ClusterAuthorizationFailedError: The client may not describe configurations.
            UnsupportedVersionError: Brokers before 2.6 cannot do this.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeClientQuotasRequest.json, KIP-546.
        """
        self._check_home()
        return await _client_quotas.describe_client_quotas(
            self._dispatcher, components, timeout_ms, strict=strict
        )

    async def alter_client_quotas(
        self,
        alterations: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ClientQuotaEntity, None]:
        """Set or remove quotas; those that are not named stay. Not in aiokafka.

        Args:
            alterations: By entity, the values by quota: "producer_byte_rate" and
                "consumer_byte_rate" in bytes per second, "request_percentage",
                "controller_mutation_rate", "connection_creation_rate" (for "ip"). None removes the
                entity's own value.
            validate_only: Only check the changes.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by entity.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.6 cannot do this.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the changes may still be made.

        Source: AlterClientQuotasRequest.json, KIP-546.
        """
        self._check_home()
        return await _client_quotas.alter_client_quotas(
            self._dispatcher, alterations, timeout_ms, validate_only=validate_only
        )

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
        described = await _cluster_description.describe_cluster(
            self._dispatcher,
            timeout_ms,
            include_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
        return described if typed else described.to_object()

    # Features: admin/brokers/features.py

    async def describe_features(
        self, node_id: int | None = None, *, timeout_ms: float | None = None
    ) -> FeatureMetadata:
        """Describe the features of the cluster and their levels. Not in aiokafka.

        Args:
            node_id: The broker to ask, as brokers can support different levels; None: any.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            The finalized and the supported levels; brokers before 2.7 have none.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.4 cannot do this.
            KafkaTimeoutError: The broker did not answer in time.

        Cancellation: safe.

        Source: ApiVersionsRequest.json, KIP-584.
        """
        self._check_home()
        return await _feature_levels.describe_features(self._dispatcher, node_id, timeout_ms)

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Change the finalized levels of features. Not in aiokafka.

        From Kafka 4.0 on, all of the updates are made or none.

        Args:
            updates: By feature, such as "metadata.version".
            validate_only: Only check the updates (Kafka 3.3).
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by feature.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.7 cannot do this, those before 3.3 have
                neither `validate_only` nor UNSAFE_DOWNGRADE.
            InvalidUpdateVersionError: The controller refused the updates.
            KafkaTimeoutError: No controller answered in time.

        Cancellation: the updates may still be made.

        Source: UpdateFeaturesRequest.json, KIP-584, KIP-1022.
        """
        self._check_home()
        return await _feature_levels.update_features(
            self._dispatcher, updates, timeout_ms, validate_only=validate_only
        )

    # The metadata quorum: admin/brokers/quorum.py

    async def describe_metadata_quorum(self, *, timeout_ms: float | None = None) -> QuorumInfo:
        """Describe the controllers and how far each has the metadata (KRaft). Not in aiokafka.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            ClusterAuthorizationFailedError: The client may not describe the cluster.
            UnsupportedVersionError: Brokers before 3.3, or with ZooKeeper, cannot do this.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeQuorumRequest.json, KIP-595, KIP-836.
        """
        self._check_home()
        return await _quorum.describe_metadata_quorum(self._dispatcher, timeout_ms)

    async def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Make a running controller a voter of the metadata quorum (KIP-853). Not in aiokafka.

        Args:
            voter_id: Node id of the controller.
            voter_directory_id: Id of its metadata directory (`QuorumReplica.directory_id`).
            endpoints: Where the other voters reach it.
            cluster_id: Do nothing if the cluster has another id; None: any.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            DuplicateVoterError: It is a voter already.
            InconsistentClusterIdError: The cluster has another id.
            UnsupportedVersionError: Brokers before 3.9 cannot do this, nor a cluster whose voters
                are static (kraft.version 0).
            KafkaTimeoutError: No controller answered in time.
            KafkaError: The controller refused.

        Cancellation: the voter may still be added.

        Source: AddRaftVoterRequest.json, KIP-853.
        """
        self._check_home()
        await _quorum.add_raft_voter(
            self._dispatcher,
            voter_id,
            voter_directory_id,
            endpoints,
            timeout_ms,
            cluster_id=cluster_id,
        )

    async def remove_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        *,
        cluster_id: str | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Remove a voter from the metadata quorum (KIP-853). Not in aiokafka.

        Args:
            voter_id: Node id of the controller.
            voter_directory_id: Id of its metadata directory (`QuorumReplica.directory_id`).
            cluster_id: Do nothing if the cluster has another id; None: any.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            VoterNotFoundError: There is no such voter.
            InconsistentClusterIdError: The cluster has another id.
            UnsupportedVersionError: Brokers before 3.9 cannot do this, nor a cluster whose voters
                are static (kraft.version 0).
            KafkaTimeoutError: No controller answered in time.
            KafkaError: The controller refused.

        Cancellation: the voter may still be removed.

        Source: RemoveRaftVoterRequest.json, KIP-853.
        """
        self._check_home()
        await _quorum.remove_raft_voter(
            self._dispatcher, voter_id, voter_directory_id, timeout_ms, cluster_id=cluster_id
        )

    async def unregister_broker(self, node_id: int, *, timeout_ms: float | None = None) -> None:
        """Unregister a broker that was stopped permanently (KRaft). Not in aiokafka.

        Move its replicas first. The broker registers again if it is started.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            BrokerIdNotRegisteredError: The cluster does not have the broker.
            ClusterAuthorizationFailedError: The client may not alter the cluster.
            UnsupportedVersionError: Brokers before 3.3, or with ZooKeeper, cannot do this.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the broker may still be unregistered.

        Source: UnregisterBrokerRequest.json, KIP-631.
        """
        self._check_home()
        await _quorum.unregister_broker(self._dispatcher, node_id, timeout_ms)

    async def unregister_controller(self, node_id: int, *, timeout_ms: float | None = None) -> None:
        """Unregister a controller that was stopped permanently (KRaft). Not in aiokafka.

        An unregistered controller no longer limits the features that `update_features` can enable.
        If it is a voter, remove it with `remove_raft_voter` first. It registers again if it is
        started.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            ControllerIdNotRegisteredError: The cluster does not have the controller.
            ClusterAuthorizationFailedError: The client may not alter the cluster.
            UnsupportedVersionError: Brokers before 4.4, or with an older `metadata.version`, cannot
                do this.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the controller may still be unregistered.

        Source: UnregisterControllerRequest.json, KIP-1312.
        """
        self._check_home()
        await _quorum.unregister_controller(self._dispatcher, node_id, timeout_ms)

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

    # Lag: admin/groups/lag.py

    async def lag(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        isolation_level: str = "read_committed",
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, PartitionLag]:
        """How far a group is behind in its partitions: `results.value(partition).lag` records.

        Not in aiokafka.

        Args:
            group_id: A group that commits offsets.
            partitions: The partitions; None: those with a committed offset.
            isolation_level: "read_committed" counts up to the first open transaction,
                "read_uncommitted" up to the last record.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            A `PartitionLag` or an error by partition.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            GroupAuthorizationFailedError: The client may not describe the group.
            KafkaTimeoutError: The coordinator or the leaders did not answer in time.

        Cancellation: safe.
        """
        self._check_home()
        return await _lag.lag(
            self._dispatcher, group_id, partitions, timeout_ms, isolation_level=isolation_level
        )

    # Consumer and classic groups: admin/groups/consumer_groups.py, admin/groups/removal.py

    @overload
    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str | GroupListing],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
        *,
        timeout_ms: float | None = None,
        typed: Literal[False] = False,
    ) -> list[DescribeGroupsResult]: ...
    @overload
    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str | GroupListing],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
        *,
        timeout_ms: float | None = None,
        typed: Literal[True],
    ) -> Results[str, ConsumerGroupDescription]: ...
    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str | GroupListing],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
        *,
        timeout_ms: float | None = None,
        typed: bool = False,
    ) -> list[DescribeGroupsResult] | Results[str, ConsumerGroupDescription]:
        """Describe groups: their states, members and assignments.

        By default, it describes classic groups as aiokafka does: the error of a group is a code in
        its tuple. With `typed`, it describes the groups of both protocols, classic and KIP-848.

        Args:
            group_ids: The groups: their ids, or what `list_groups` returned about them. A listing
                has the type of its group, which saves a request for each classic group.
            group_coordinator_id: Node id of the broker to ask; None: each group's coordinator. Not
                with `typed`.
            include_authorized_operations: Also what the client may do with the groups (KIP-430,
                Kafka 2.3).
            timeout_ms: Deadline of the call; None or 0: the client's default.
            typed: Return a `ConsumerGroupDescription` or an error by group id.

        Returns:
            A list of aiokafka's responses, one for each coordinator, with `groups`; or `Results`.
            Brokers before 4.1 describe a classic group that does not exist as "Dead".

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaTimeoutError: No coordinator answered in time.
            KafkaError: Without `typed`, a group's coordinator could not be asked.

        Cancellation: safe.

        Source: DescribeGroupsRequest.json, ConsumerGroupDescribeRequest.json, KIP-848, KIP-1043.
        """
        self._check_home()
        if not typed:
            return await _consumer_groups.describe_groups(
                self._dispatcher,
                group_ids,
                group_coordinator_id,
                timeout_ms,
                include_authorized_operations=include_authorized_operations,
            )
        if group_coordinator_id is not None:
            raise IllegalArgumentError(
                "`group_coordinator_id` cannot be used with `typed`, which asks each group's "
                "coordinator"
            )
        return await _consumer_groups.describe_consumer_groups(
            self._dispatcher,
            group_ids,
            timeout_ms,
            include_authorized_operations=include_authorized_operations,
        )

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, ClassicGroupDescription]:
        """Describe classic groups of any protocol type, such as "connect". Not in aiokafka.

        Args:
            group_ids: The groups.
            include_authorized_operations: Also what the client may do with the groups (KIP-430,
                Kafka 2.3).
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            A description or an error by group id. Brokers before 4.1 describe a group that does not
            exist as "Dead".

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: safe.

        Source: DescribeGroupsRequest.json, KIP-1043.
        """
        self._check_home()
        return await _consumer_groups.describe_classic_groups(
            self._dispatcher,
            group_ids,
            timeout_ms,
            include_authorized_operations=include_authorized_operations,
        )

    async def find_coordinator(
        self, group_id: str, coordinator_type: int = 0, *, timeout_ms: float | None = None
    ) -> int:
        """Look up the coordinator of a group or of a transactional id.

        Args:
            group_id: The group id; for the other types, the transactional id or the key of a share
                group's partition.
            coordinator_type: 0: group, 1: transaction (Kafka 0.11), 2: share (Kafka 4.1).
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            The coordinator's node id.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            GroupAuthorizationFailedError, TransactionalIdAuthorizationFailed: The client may not
                describe it.
            UnsupportedVersionError: The brokers are too old for the type.
            KafkaTimeoutError: The coordinator was not found in time.

        Cancellation: safe.

        Source: FindCoordinatorRequest.json.
        """
        self._check_home()
        return await _consumer_groups.find_coordinator(
            self._dispatcher, group_id, coordinator_type, timeout_ms
        )

    async def delete_consumer_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Delete groups with their committed offsets. Not in aiokafka.

        Args:
            group_ids: The groups; none may have members.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by group id: NonEmptyGroup if the group has members,
            GroupIdNotFound if it does not exist; the message says if an earlier attempt of this
            call may have deleted it.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 1.1 cannot do this.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: the groups may still be deleted.

        Source: DeleteGroupsRequest.json, KIP-229.
        """
        self._check_home()
        return await _removal.delete_groups(self._dispatcher, group_ids, timeout_ms)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Collection[str] | None = None,
        *,
        reason: str | None = None,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Remove members from a group, which then rebalances. Not in aiokafka.

        Args:
            group_id: The group.
            members: The static members to remove, by group instance id; None: all members. Members
                that still run join the group again.
            reason: For the brokers' logs; brokers before 3.2 do not get it.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by group instance id, or by member id for dynamic members;
            UnknownMemberIdError if the group has no such member.

        Raises:
            TypeError, ValueError: An argument is invalid, or `members` is empty; nothing was sent.
            UnsupportedVersionError: Brokers before 2.4 cannot do this.
            GroupIdNotFound: With `members=None`, the group does not exist.
            KafkaError: The coordinator refused the request, or did not answer in time.

        Cancellation: the members may still be removed.

        Source: LeaveGroupRequest.json, KIP-345, KIP-800.
        """
        self._check_home()
        return await _removal.remove_members(
            self._dispatcher, group_id, members, reason, timeout_ms
        )

    # Offsets of groups: admin/groups/group_offsets.py

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """List the committed offsets of a group.

        Args:
            group_id: The group.
            group_coordinator_id: Node id of the broker to ask; None: the group's coordinator.
            partitions: The partitions; None: all with a committed offset (Kafka 0.10.2).
            require_stable: Wait for open transactions that commit offsets (KIP-447, Kafka 2.5).
                Not in aiokafka.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            The offset of each partition; -1 if `partitions` names one without.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaTimeoutError: The coordinator did not answer in time.
            KafkaError: The error of the group or of the first partition that has one.

        Cancellation: safe.

        Source: OffsetFetchRequest.json.
        """
        self._check_home()
        return await _group_offsets.list_one_groups_offsets(
            self._dispatcher,
            group_id,
            group_coordinator_id,
            partitions,
            timeout_ms,
            require_stable=require_stable,
        )

    async def list_consumer_groups_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, GroupOffsets]:
        """List committed offsets of many groups, one request per coordinator. Not in aiokafka.

        Brokers before 3.0 get one request for each group, all at once.

        Args:
            groups: The groups; or their partitions by group, None for all with a committed offset.
            require_stable: Wait for open transactions that commit offsets (KIP-447, Kafka 2.5).
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            By group, an error, or a mapping of each partition to its offset, to None if a named one
            has none, or to an error.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers are too old for an option.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: safe.

        Source: OffsetFetchRequest.json, KIP-709.
        """
        self._check_home()
        return await _group_offsets.list_group_offsets(
            self._dispatcher, groups, timeout_ms, require_stable=require_stable
        )

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Set committed offsets of a group without members. Not in aiokafka.

        Args:
            group_id: The group; it is created if it does not exist.
            offsets: By partition, as for `AIOKafkaConsumer.commit`.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by partition: UnknownMemberIdError if the group has members,
            UnknownTopicOrPartitionError if the partition does not exist.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            KafkaTimeoutError: The coordinator did not answer in time.
            KafkaError: The coordinator refused the request.

        Cancellation: the offsets may still be set.

        Source: OffsetCommitRequest.json, KIP-396.
        """
        self._check_home()
        return await _group_offsets.alter_group_offsets(
            self._dispatcher, group_id, offsets, timeout_ms
        )

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a group. Not in aiokafka.

        Args:
            group_id: The group.
            partitions: Partitions of topics that no member subscribes to.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by partition: GroupSubscribedToTopicError if a member subscribes to the
            topic.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.4 cannot do this.
            GroupIdNotFound: The group does not exist.
            KafkaTimeoutError: The coordinator did not answer in time.

        Cancellation: the offsets may still be deleted.

        Source: OffsetDeleteRequest.json, KIP-496.
        """
        self._check_home()
        return await _group_offsets.delete_group_offsets(
            self._dispatcher, group_id, partitions, timeout_ms
        )

    # Share groups: admin/groups/share_groups.py

    async def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, ShareGroupDescription]:
        """Describe share groups (Kafka 4.1): their states and members. Not in aiokafka.

        Args:
            group_ids: The groups.
            include_authorized_operations: Also what the client may do with the groups.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            A description or an error by group id.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers have no share groups.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: safe.

        Source: ShareGroupDescribeRequest.json, KIP-932.
        """
        self._check_home()
        return await _share_groups.describe_share_groups(
            self._dispatcher,
            group_ids,
            timeout_ms,
            include_authorized_operations=include_authorized_operations,
        )

    async def delete_share_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Delete share groups; arguments, results and errors as in `delete_consumer_groups`.

        Not in aiokafka.

        Cancellation: the groups may still be deleted.

        Source: DeleteGroupsRequest.json, KIP-932.
        """
        self._check_home()
        return await _removal.delete_groups(self._dispatcher, group_ids, timeout_ms)

    async def list_share_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        timeout_ms: float | None = None,
    ) -> Results[str, ShareGroupOffsets]:
        """List the start offsets of share groups (Kafka 4.1). Not in aiokafka.

        Args:
            groups: The groups; or their partitions by group, None for all.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            By group, an error, or a mapping of each partition to its `ShareGroupOffset`, to None if
            it has none, or to an error.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers have no share groups.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: safe.

        Source: DescribeShareGroupOffsetsRequest.json, KIP-932, KIP-1226.
        """
        self._check_home()
        return await _share_groups.list_share_group_offsets(self._dispatcher, groups, timeout_ms)

    async def alter_share_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Set the start offsets of a share group without members (Kafka 4.1). Not in aiokafka.

        Args:
            group_id: The group.
            offsets: The start offset by partition.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by partition.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers have no share groups.
            NonEmptyGroup: The group has members.
            KafkaTimeoutError: The coordinator did not answer in time.

        Cancellation: the offsets may still be set.

        Source: AlterShareGroupOffsetsRequest.json, KIP-932.
        """
        self._check_home()
        return await _share_groups.alter_share_group_offsets(
            self._dispatcher, group_id, offsets, timeout_ms
        )

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Delete the offsets of topics from a share group without members. Not in aiokafka.

        Args:
            group_id: The group.
            topics: The topics.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by topic.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers have no share groups (Kafka 4.1).
            NonEmptyGroup: The group has members.
            GroupIdNotFound: The group does not exist.
            KafkaTimeoutError: The coordinator did not answer in time.

        Cancellation: the offsets may still be deleted.

        Source: DeleteShareGroupOffsetsRequest.json, KIP-932.
        """
        self._check_home()
        return await _share_groups.delete_share_group_offsets(
            self._dispatcher, group_id, topics, timeout_ms
        )

    # Streams groups: admin/groups/streams_groups.py

    async def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, StreamsGroupDescription]:
        """Describe groups of Kafka Streams' own protocol (Kafka 4.2). Not in aiokafka.

        Args:
            group_ids: The groups.
            include_authorized_operations: Also what the client may do with the groups.
            include_topology_description: Also how the nodes of the topology are connected
                (KIP-1331, Kafka 4.4), which brokers know if they have a plugin that stores it.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            A description or an error by group id.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: The brokers have no streams groups, or no descriptions of
                topologies.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: safe.

        Source: StreamsGroupDescribeRequest.json, KIP-1071, KIP-1331.
        """
        self._check_home()
        return await _streams_groups.describe_streams_groups(
            self._dispatcher,
            group_ids,
            timeout_ms,
            include_authorized_operations=include_authorized_operations,
            include_topology_description=include_topology_description,
        )

    async def delete_streams_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Delete streams groups; arguments, results and errors as in `delete_consumer_groups`.

        The group's internal topics stay. Not in aiokafka.

        Cancellation: the groups may still be deleted.

        Source: DeleteGroupsRequest.json, KIP-1071.
        """
        self._check_home()
        return await _removal.delete_groups(self._dispatcher, group_ids, timeout_ms)

    async def list_streams_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, GroupOffsets]:
        """List the committed offsets of streams groups, as `list_consumer_groups_offsets` does.

        Not in aiokafka.

        Cancellation: safe.

        Source: OffsetFetchRequest.json, KIP-1071.
        """
        self._check_home()
        return await _group_offsets.list_group_offsets(
            self._dispatcher, groups, timeout_ms, require_stable=require_stable
        )

    async def alter_streams_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Set committed offsets of a streams group, as `alter_consumer_group_offsets` does.

        Not in aiokafka.

        Cancellation: the offsets may still be set.

        Source: OffsetCommitRequest.json, KIP-1071.
        """
        self._check_home()
        return await _group_offsets.alter_group_offsets(
            self._dispatcher, group_id, offsets, timeout_ms
        )

    async def delete_streams_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a streams group, as `delete_consumer_group_offsets` does.

        Not in aiokafka.

        Cancellation: the offsets may still be deleted.

        Source: OffsetDeleteRequest.json, KIP-1071.
        """
        self._check_home()
        return await _group_offsets.delete_group_offsets(
            self._dispatcher, group_id, partitions, timeout_ms
        )

    # Transactions and producers: admin/groups/transactions.py

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        min_duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> TransactionListings:
        """List the transactional ids of the cluster, asking every broker. Not in aiokafka.

        Args:
            states: Only in these states, such as "Ongoing".
            producer_ids: Only of these producers.
            min_duration_ms: Only transactions open for longer (KIP-994, Kafka 3.8).
            transactional_id_pattern: Only ids that match this regular expression, in the brokers'
                syntax (RE2/J; KIP-1152, Kafka 4.1).
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            `valid()`: the transactions; `errors()`: the error of each broker that did not list its
            own.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            IllegalArgumentError: No broker knows one of the `states`.
            UnsupportedVersionError: Brokers before 3.0 cannot do this, or an option is too new.
            KafkaError: No broker listed its transactions: the error of the first one.

        Cancellation: safe.

        Source: ListTransactionsRequest.json, KIP-664.
        """
        self._check_home()
        return await _producer_transactions.list_transactions(
            self._dispatcher,
            timeout_ms,
            states=states,
            producer_ids=producer_ids,
            min_duration_ms=min_duration_ms,
            transactional_id_pattern=transactional_id_pattern,
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, TransactionDescription]:
        """Describe the transactions of transactional ids. Not in aiokafka.

        Args:
            transactional_ids: The ids.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            A description or an error by transactional id.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 3.0 cannot do this.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: safe.

        Source: DescribeTransactionsRequest.json, KIP-664.
        """
        self._check_home()
        return await _producer_transactions.describe_transactions(
            self._dispatcher, transactional_ids, timeout_ms
        )

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, list[ProducerDescription]]:
        """Describe the idempotent and transactional producers of partitions. Not in aiokafka.

        Args:
            partitions: The partitions.
            broker_id: Ask this replica; None: each partition's leader.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            The producers or an error by partition.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.8 cannot do this.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeProducersRequest.json, KIP-664.
        """
        self._check_home()
        return await _producer_transactions.describe_producers(
            self._dispatcher, partitions, timeout_ms, broker_id=broker_id
        )

    async def abort_transaction(
        self, spec: AbortTransactionSpec, *, timeout_ms: float | None = None
    ) -> None:
        """Abort a hanging transaction in one partition. Not in aiokafka.

        It writes the marker past the coordinator: use it only for a transaction that the
        coordinator no longer knows. Others end by `fence_producers`.

        Args:
            spec: The partition and the producer, from `describe_producers`.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 0.11 have no transactions.
            ClusterAuthorizationFailedError: The client may not alter the cluster.
            InvalidProducerEpoch, TransactionCoordinatorFenced: The producer or the
                coordinator has a newer epoch.
            KafkaTimeoutError: The leader did not answer in time.

        Cancellation: the transaction may still be aborted.

        Source: WriteTxnMarkersRequest.json, KIP-664.
        """
        self._check_home()
        await _transaction_ends.abort_transaction(self._dispatcher, spec, timeout_ms)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, FencedProducer]:
        """Fence the producers of transactional ids; open transactions abort. Not in aiokafka.

        Args:
            transactional_ids: The ids.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            The producer id and the epoch that fenced, or an error, by transactional id.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 0.11 have no transactions.
            KafkaTimeoutError: No coordinator answered in time.

        Cancellation: the producers may still be fenced.

        Source: InitProducerIdRequest.json, KIP-360.
        """
        self._check_home()
        return await _transaction_ends.fence_producers(
            self._dispatcher, transactional_ids, timeout_ms
        )

    async def force_terminate_transaction(
        self, transactional_id: str, *, timeout_ms: float | None = None
    ) -> None:
        """End the transaction of a transactional id, even a prepared one. Not in aiokafka.

        It aborts an open transaction and fences the producer, as `fence_producers` does.

        Args:
            transactional_id: The id.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: The id is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 0.11 have no transactions.
            KafkaTimeoutError: The coordinator did not answer in time.
            KafkaError: The coordinator refused the request.

        Cancellation: the transaction may still be ended.

        Source: InitProducerIdRequest.json, KIP-939.
        """
        self._check_home()
        results = await _transaction_ends.fence_producers(
            self._dispatcher, [transactional_id], timeout_ms
        )
        results.raise_for_errors()

    # ACLs: admin/security/acls.py

    async def describe_acls(
        self, acl_filter: AclBindingFilter, *, timeout_ms: float | None = None
    ) -> list[AclBinding]:
        """Return the ACLs that match a filter. Not in aiokafka.

        Args:
            acl_filter: `AclBindingFilter()` matches every ACL.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            SecurityDisabled: The brokers have no authorizer.
            ClusterAuthorizationFailedError: The client may not describe the cluster.
            UnsupportedVersionError: Brokers before 2.0 have no MATCH and PREFIXED.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeAclsRequest.json, KIP-140, KIP-290.
        """
        self._check_home()
        return await _acls.describe_acls(self._dispatcher, acl_filter, timeout_ms)

    async def create_acls(
        self, acls: Iterable[AclBinding], *, timeout_ms: float | None = None
    ) -> Results[AclBinding, None]:
        """Create ACLs; an ACL that already exists is not an error. Not in aiokafka.

        Brokers learn of an ACL a moment after the response.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by ACL.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.0 have no PREFIXED.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the ACLs may still be created.

        Source: CreateAclsRequest.json, KIP-140, KIP-290.
        """
        self._check_home()
        return await _acls.create_acls(self._dispatcher, acls, timeout_ms)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout_ms: float | None = None
    ) -> DeleteAclsResult:
        """Delete the ACLs that match one of the filters. Not in aiokafka.

        `AclBindingFilter()` deletes all ACLs; `binding.to_filter()` matches one. If a request gets
        no response, its repetition finds nothing to delete: the result then lacks the ACLs that
        the first one deleted.

        Args:
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            By filter, an error or the ACLs that matched: each with None, or the error why it was
            not deleted. `deleted()` lists those that were.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            UnsupportedVersionError: Brokers before 2.0 have no MATCH and PREFIXED.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the ACLs may still be deleted.

        Source: DeleteAclsRequest.json, KIP-140, KIP-290.
        """
        self._check_home()
        return await _acls.delete_acls(self._dispatcher, filters, timeout_ms)

    # SCRAM users: admin/security/scram_users.py

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> Results[str, tuple[ScramCredential, ...]]:
        """Describe the SCRAM credentials of users. Not in aiokafka.

        Args:
            users: Their names; None: every user that has a credential.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            Mechanisms and iterations, or an error, by user. A user without a credential fails with
            ResourceNotFoundError.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            ClusterAuthorizationFailedError: The client may not describe the cluster.
            UnsupportedVersionError: Brokers before 2.7 cannot do this.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeUserScramCredentialsRequest.json, KIP-554.
        """
        self._check_home()
        return await _scram_users.describe_user_scram_credentials(
            self._dispatcher, users, timeout_ms
        )

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Set passwords of users, or delete their credentials. Not in aiokafka.

        The client salts and hashes the passwords, in a thread, and never sends them. Brokers learn
        of a change a moment after the response; open connections stay open.

        Args:
            alterations: One for each user.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            None or an error by user.

        Raises:
            TypeError, ValueError: An argument is invalid, or a user occurs twice; nothing was sent.
            UnsupportedVersionError: Brokers before 2.7 cannot do this.
            KafkaTimeoutError: No controller answered in time.

        Cancellation: the changes may still be made.

        Source: AlterUserScramCredentialsRequest.json, KIP-554.
        """
        self._check_home()
        return await _scram_users.alter_user_scram_credentials(
            self._dispatcher, alterations, timeout_ms
        )

    # Delegation tokens: admin/security/delegation_tokens.py

    async def create_delegation_token(
        self,
        renewers: Iterable[str] = (),
        *,
        owner: str | None = None,
        max_lifetime_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """Create a delegation token. Not in aiokafka.

        If a request gets no response, its repetition can create a second token, which expires
        unused.

        Args:
            renewers: Principals that may renew the token, such as "User:alice".
            owner: The principal that the token stands for; None: this client's own.
            max_lifetime_ms: How long the token can be renewed; None: the broker's default.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            DelegationTokenAuthDisabled: The brokers have no secret key for tokens.
            DelegationTokenRequestNotAllowed: This client is not authenticated, or logged in with
                a token.
            DelegationTokenAuthorizationFailed: The client may not create tokens for `owner`.
            UnsupportedVersionError: Brokers before 1.1 have no tokens, those before 3.3 no `owner`.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the token may still be created.

        Source: CreateDelegationTokenRequest.json, KIP-48, KIP-373.
        """
        self._check_home()
        return await _delegation_tokens.create_delegation_token(
            self._dispatcher,
            renewers,
            timeout_ms,
            owner=owner,
            max_lifetime_ms=max_lifetime_ms,
        )

    async def renew_delegation_token(
        self,
        hmac: bytes,
        *,
        renew_period_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> int:
        """Renew a delegation token. Not in aiokafka.

        Args:
            hmac: The token's secret.
            renew_period_ms: For how long; None: the broker's default.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            When the token expires now, in ms since 1970.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            DelegationTokenNotFound: There is no such token.
            DelegationTokenOwnerMismatch: This client may not renew it.
            DelegationTokenExpired: The token can no longer be renewed.
            UnsupportedVersionError: Brokers before 1.1 have no tokens.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the token may still be renewed.

        Source: RenewDelegationTokenRequest.json, KIP-48.
        """
        self._check_home()
        return await _delegation_tokens.renew_delegation_token(
            self._dispatcher, hmac, timeout_ms, renew_period_ms=renew_period_ms
        )

    async def expire_delegation_token(
        self,
        hmac: bytes,
        *,
        expiry_period_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> int:
        """Let a delegation token expire earlier, or at once. Not in aiokafka.

        Args:
            hmac: The token's secret.
            expiry_period_ms: After which time; None: at once.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Returns:
            When the token expires, in ms since 1970.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            DelegationTokenNotFound: There is no such token.
            DelegationTokenOwnerMismatch: This client may not expire it.
            UnsupportedVersionError: Brokers before 1.1 have no tokens.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: the token may still expire.

        Source: ExpireDelegationTokenRequest.json, KIP-48.
        """
        self._check_home()
        return await _delegation_tokens.expire_delegation_token(
            self._dispatcher, hmac, timeout_ms, expiry_period_ms=expiry_period_ms
        )

    async def describe_delegation_token(
        self, owners: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """Return the delegation tokens that this client may describe. Not in aiokafka.

        Args:
            owners: Only tokens of these principals; None: all.
            timeout_ms: Deadline of the call; None or 0: the client's default.

        Raises:
            TypeError, ValueError: An argument is invalid; nothing was sent.
            DelegationTokenAuthDisabled: The brokers have no secret key for tokens.
            DelegationTokenRequestNotAllowed: This client is not authenticated, or logged in with
                a token.
            UnsupportedVersionError: Brokers before 1.1 have no tokens.
            KafkaTimeoutError: No broker answered in time.

        Cancellation: safe.

        Source: DescribeDelegationTokenRequest.json, KIP-48.
        """
        self._check_home()
        return await _delegation_tokens.describe_delegation_token(
            self._dispatcher, owners, timeout_ms
        )

    # Inside

    def _check_home(self) -> None:
        check_home(self._loop, self, "create an admin client in the event loop that uses it")
