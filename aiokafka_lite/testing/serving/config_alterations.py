"""Changes of a resource's configurations, for AlterConfigs and IncrementalAlterConfigs.

The changes of a resource are atomic and take effect immediately.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeVar

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidConfigurationError,
    InvalidRequestError,
    UnknownError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.testing.configs.broker_changes import (
    check_broker_configs,
    check_min_insync_replicas,
)
from aiokafka_lite.testing.configs.broker_configs import ANY_BROKER, broker_settings
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.configs.config_values import ConfigType, Setting, listed
from aiokafka_lite.testing.configs.group_configs import check_client_metrics, check_group_configs
from aiokafka_lite.testing.configs.topic_configs import TOPIC_SETTINGS, check_configs
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.topics import check_topic_name
from aiokafka_lite.testing.wording import wording

__all__ = [
    "LOGGERS",
    "Change",
    "ChangeType",
    "alter",
    "change_each",
    "check_node_name",
    "replace",
    "resource_of",
]

LOGGERS: Final[Mapping[str, str]] = {
    "kafka.cluster.Partition": "INFO",
    "kafka.server.KafkaApis": "INFO",
    "root": "INFO",
}
"""Some loggers of a real broker, and their levels; nothing is logged through them."""

LOG_LEVELS: Final = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class ChangeType(IntEnum):
    """`config_operation` of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One entry of IncrementalAlterConfigs; `operation` may be any number."""

    name: str
    operation: int
    value: str | None


class NamedResource(Protocol):
    """The identity of a resource in a request of either kind."""

    resource_type: int
    resource_name: str


ResourceT = TypeVar("ResourceT", bound=NamedResource)


def change_each(
    resources: Sequence[ResourceT], change: Callable[[ResourceT], None]
) -> Iterator[tuple[ResourceT, int, str | None]]:
    """Change each resource of a request; duplicate ones are errors.

    Args:
        resources: All resources of the request.
        change: Changes one, or raises a BrokerResponseError.

    Yields:
        Each resource with its error code (0 if changed) and message.
    """
    times_named = Counter((each.resource_type, each.resource_name) for each in resources)
    for each in resources:
        try:
            if times_named[each.resource_type, each.resource_name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            change(each)
        except BrokerResponseError as error:
            yield each, error.errno, wording(error)
        else:
            yield each, 0, None


def resource_of(kind: int) -> ConfigResource:
    """Return the resource type of a request.

    Raises:
        InvalidRequestError: The type is unknown.
    """
    try:
        return ConfigResource(kind)
    except ValueError:
        raise InvalidRequestError(f"Unknown resource type {kind}") from None


def check_node_name(name: str, context: RequestContext) -> int:
    """Return the node id in a broker's resource name, which must be that of the receiving broker.

    Raises:
        InvalidRequestError: It is not a number, or that of another broker.
    """
    if not name.lstrip("-").isdecimal():
        raise InvalidRequestError(f"Node id must be an integer, but it is: {name}")
    if int(name) != context.node_id:
        raise InvalidRequestError(
            f"Unexpected broker id, expected {context.node_id}, but received {name}"
        )
    return context.node_id


def alter(
    kind: int, name: str, changes: Sequence[Change], context: RequestContext, *, validate_only: bool
) -> None:
    """Change some configurations of a resource.

    Raises:
        BrokerResponseError: The error to answer with; nothing was changed.
    """
    _check_names(change.name for change in changes)
    missing = [
        change.name
        for change in changes
        if change.value is None and change.operation != ChangeType.DELETE
    ]
    if missing:
        raise InvalidRequestError(f"Null value not supported for : {', '.join(missing)}")
    resource = resource_of(kind)
    if resource is ConfigResource.BROKER_LOGGER:
        _alter_loggers(name, changes, context, validate_only=validate_only)
        return
    if resource is ConfigResource.BROKER and name != ANY_BROKER:
        check_node_name(name, context)
    values = _own_values(resource, name, context)
    for change in changes:
        _apply(change, resource, values, context)
    _install(resource, name, values, context, validate_only=validate_only)


def replace(
    kind: int,
    name: str,
    values: Sequence[tuple[str, str | None]],
    context: RequestContext,
    *,
    validate_only: bool,
) -> None:
    """Replace all configurations of a resource.

    Raises:
        BrokerResponseError: The error to answer with; nothing was changed.
    """
    _check_names(key for key, _ in values)
    missing = [key for key, value in values if value is None]
    if missing:
        raise InvalidRequestError(f"Null value not supported for : {', '.join(missing)}")
    resource = resource_of(kind)
    if resource is ConfigResource.BROKER_LOGGER:
        raise InvalidRequestError(f"Unknown resource type {kind}")
    if resource is ConfigResource.BROKER and name != ANY_BROKER:
        check_node_name(name, context)
    new = {key: value for key, value in values if value is not None}
    _install(resource, name, new, context, validate_only=validate_only)


def _check_names(names: Iterable[str]) -> None:
    named = list(names)
    if len(set(named)) != len(named):
        raise InvalidRequestError("Error due to duplicate config keys")


def _own_values(resource: ConfigResource, name: str, context: RequestContext) -> dict[str, str]:
    if resource is ConfigResource.TOPIC:
        topic = context.state.topics.get(name)
        return {} if topic is None else dict(topic.configs)
    return dict(context.state.configs.of(resource, name))


def _apply(
    change: Change, resource: ConfigResource, values: dict[str, str], context: RequestContext
) -> None:
    try:
        operation = ChangeType(change.operation)
    except ValueError:
        if resource is ConfigResource.BROKER:
            raise InvalidRequestError(f"Unknown operations type {change.operation}") from None
        raise UnknownError(f"unknown operation {change.operation}") from None
    if operation is ChangeType.DELETE:
        values.pop(change.name, None)
    elif operation is ChangeType.SET:
        values[change.name] = change.value or ""
    else:
        old = listed(values.get(change.name, _default_of_list(change, resource, context)))
        items = (change.value or "").split(",")
        if operation is ChangeType.APPEND:
            new = old + [member for member in items if member not in old]
        else:
            new = [member for member in old if member not in items]
        values[change.name] = ",".join(new)


def _default_of_list(change: Change, resource: ConfigResource, context: RequestContext) -> str:
    """Return the default of a list configuration; raise an error for other types."""
    settings: Mapping[str, Setting] = {}
    if resource is ConfigResource.TOPIC:
        settings = TOPIC_SETTINGS
    elif resource is ConfigResource.BROKER:
        settings = broker_settings()
    setting = settings.get(change.name)
    if setting is None or setting.type is not ConfigType.LIST:
        verb = ChangeType(change.operation).name
        raise InvalidConfigurationError(
            f"Can't {verb} to key {change.name} because its type is not LIST."
        )
    if resource is ConfigResource.TOPIC:
        return context.state.topic_defaults[change.name]
    return setting.default or ""


def _install(
    resource: ConfigResource,
    name: str,
    values: dict[str, str],
    context: RequestContext,
    *,
    validate_only: bool,
) -> None:
    """Check a resource's new configurations, in Kafka's order, and apply them."""
    if resource is ConfigResource.TOPIC:
        _install_topic(name, values, context, validate_only=validate_only)
        return
    state = context.state
    if resource is ConfigResource.GROUP:
        context.authorize(Operation.ALTER_CONFIGS, Resource.GROUP, name)
        if not name:
            raise InvalidRequestError("Default group resources are not allowed.")
        check_group_configs(values, state.broker_config)
    elif resource is ConfigResource.CLIENT_METRICS:
        context.authorize(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)
        if not name:
            raise InvalidRequestError("Subscription name can't be empty")
        check_client_metrics(values)
    else:
        node_id = None if name == ANY_BROKER else context.node_id
        check_broker_configs(values, state.broker_config, node_id)
        context.authorize(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)
        check_min_insync_replicas(values, state.features, node_id)
    context.check()
    if not validate_only:
        state.configure(resource, name, values)


def _install_topic(
    name: str, values: dict[str, str], context: RequestContext, *, validate_only: bool
) -> None:
    context.authorize(Operation.ALTER_CONFIGS, Resource.TOPIC, name)
    context.check(name)
    if not name:
        raise InvalidRequestError("Default topic resources are not allowed.")
    check_topic_name(name)
    checked = check_configs(values, context.state.topic_defaults)
    topic = context.state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")
    if not validate_only:
        context.state.configure_topic(topic, checked)


def _alter_loggers(
    name: str, changes: Sequence[Change], context: RequestContext, *, validate_only: bool
) -> None:
    """Change log levels (KIP-412), which a restarted broker resets."""
    context.authorize(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME)
    check_node_name(name, context)
    store = context.state.configs
    levels = dict(store.of(ConfigResource.BROKER_LOGGER, name))
    for change in changes:
        if change.operation in (ChangeType.APPEND, ChangeType.SUBTRACT):
            raise InvalidRequestError(
                f"{ChangeType(change.operation).name} operation is not allowed for the"
                " BROKER_LOGGER resource"
            )
        if change.name not in LOGGERS:
            raise InvalidConfigurationError(f"Logger {change.name} does not exist!")
        if change.operation == ChangeType.DELETE:
            if change.name == "root":
                raise InvalidRequestError(
                    "Removing the log level of the root logger is not allowed"
                )
            levels.pop(change.name, None)
            continue
        if change.value not in LOG_LEVELS:
            raise InvalidConfigurationError(
                f"Cannot set the log level of {change.name} to {change.value} as it is not a"
                f" supported log level. Valid log levels are {', '.join(LOG_LEVELS)}"
            )
        levels[change.name] = change.value
    context.check()
    if not validate_only:
        store.replace(ConfigResource.BROKER_LOGGER, name, levels)
