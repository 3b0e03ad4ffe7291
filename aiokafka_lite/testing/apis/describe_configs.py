"""DescribeConfigs, v0-v4: the configurations of topics, brokers, loggers, groups, client metrics.

v1 returns a value's source and synonyms (KIP-226), v0 only whether it is the default. v3 adds the
type, and on request the documentation, which is Kafka's text and is omitted here.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aiokafka_lite.errors import (
    BrokerResponseError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from aiokafka_lite.testing.configs.broker_configs import ANY_BROKER, broker_settings
from aiokafka_lite.testing.configs.config_store import ConfigResource, ConfigSource
from aiokafka_lite.testing.configs.config_values import ConfigType, Setting
from aiokafka_lite.testing.configs.group_configs import (
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    group_broker_name,
)
from aiokafka_lite.testing.configs.topic_configs import TOPIC_SETTINGS, broker_names
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.serving.config_alterations import LOGGERS, check_node_name, resource_of
from aiokafka_lite.testing.topics import check_topic_name
from aiokafka_lite.testing.wording import wording

_LOGGER: Final = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG


class _Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class _Entry(NamedTuple):
    """A configuration with its effective value and all its set values, the effective one first."""

    setting: Setting
    value: str | None
    synonyms: list[_Synonym]
    source: ConfigSource
    read_only: bool = False


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    known = set(ConfigResource)
    refused = any(resource.resource_type not in known for resource in request.resources)
    return DescribeConfigsResponse(
        results=[
            _refusal(asked, InvalidRequestError("Unexpected resource type"))
            if refused
            else _describe(asked, context, synonyms=request.include_synonyms)
            for asked in request.resources
        ]
    )


def _describe(
    asked: DescribeConfigsResource, context: RequestContext, *, synonyms: bool
) -> DescribeConfigsResult:
    try:
        entries = _entries(resource_of(asked.resource_type), asked.resource_name, context)
    except BrokerResponseError as error:
        return _refusal(asked, error)
    wanted = set(asked.configuration_keys or ())
    return DescribeConfigsResult(
        error_message="",
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[
            _result(entry, context.version, synonyms=synonyms)
            for entry in entries
            if not wanted or entry.setting.name in wanted
        ],
    )


def _refusal(asked: DescribeConfigsResource, error: BrokerResponseError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.errno,
        error_message=wording(error),
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _result(entry: _Entry, version: int, *, synonyms: bool) -> DescribeConfigsResourceResult:
    setting = entry.setting
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=None if setting.sensitive else entry.value,
        read_only=entry.read_only,
        is_default=version == 0 and entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=setting.sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=synonym.name,
                value=None if setting.sensitive else synonym.value,
                source=synonym.source,
            )
            for synonym in entry.synonyms
            if synonyms
        ],
        config_type=setting.type,
        documentation="" if entry.source is _LOGGER else None,
    )


def _entries(kind: ConfigResource, name: str, context: RequestContext) -> Iterable[_Entry]:
    """Return all configurations of a resource.

    Raises:
        BrokerResponseError: The resource does not exist, or the client may not describe it.
    """
    operation = Operation.DESCRIBE_CONFIGS
    if kind is ConfigResource.TOPIC:
        context.authorize(operation, Resource.TOPIC, name)
        context.check(name)
        return list(_of_topic(name, context))
    if kind is ConfigResource.GROUP:
        context.authorize(operation, Resource.GROUP, name)
        context.check()
        if not name:
            raise InvalidRequestError("Group name must not be empty")
        return list(_of_group(name, context))
    context.authorize(operation, Resource.CLUSTER, CLUSTER_NAME)
    context.check()
    if kind is ConfigResource.CLIENT_METRICS:
        if not name:
            raise InvalidRequestError("Client metrics subscription name must not be empty")
        return list(_of_client_metrics(name, context))
    if kind is ConfigResource.BROKER_LOGGER:
        check_node_name(name, context)
        return list(_of_loggers(name, context))
    if name == ANY_BROKER:
        return list(_of_all_brokers(context))
    check_node_name(name, context)
    return list(_of_broker(context))


def _synonyms(names: Iterable[str], context: RequestContext) -> list[_Synonym]:
    """Return the values set for a broker's configurations; a default only of the last one."""
    brokers = context.state.broker_config
    found = [
        _Synonym(name, value, source)
        for name in names
        for source, value in brokers.synonyms(name, context.node_id)
    ]
    return sorted(found, key=lambda synonym: synonym.source is ConfigSource.DEFAULT_CONFIG)


def _of_topic(name: str, context: RequestContext) -> Iterator[_Entry]:
    check_topic_name(name)
    topic = context.state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"topic {name} does not exist")
    for setting in TOPIC_SETTINGS.values():
        synonyms = _synonyms(broker_names(setting.name), context)
        own = topic.configs.get(setting.name)
        if own is not None:
            synonyms.insert(0, _Synonym(setting.name, own, ConfigSource.TOPIC_CONFIG))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        yield _Entry(setting, topic.config(setting.name), synonyms, source)


def _of_group(name: str, context: RequestContext) -> Iterator[_Entry]:
    configs = context.state.group_config
    own = context.state.configs.of(ConfigResource.GROUP, name)
    for setting in GROUP_SETTINGS.values():
        broker_name = group_broker_name(setting.name)
        if broker_name is None:
            default = _Synonym(setting.name, setting.default, ConfigSource.DEFAULT_CONFIG)
            synonyms = [default]
        else:
            synonyms = _synonyms([broker_name], context)
        if setting.name in own:
            value = own[setting.name]
            synonyms.insert(0, _Synonym(setting.name, value, ConfigSource.GROUP_CONFIG))
        yield _Entry(setting, configs(name, setting.name), synonyms, synonyms[0].source)


def _of_client_metrics(name: str, context: RequestContext) -> Iterator[_Entry]:
    own = context.state.configs.of(ConfigResource.CLIENT_METRICS, name)
    for setting in CLIENT_METRICS_SETTINGS.values():
        value, source = setting.default, ConfigSource.DEFAULT_CONFIG
        synonyms = []
        if setting.name in own:
            value, source = own[setting.name], ConfigSource.CLIENT_METRICS_CONFIG
            synonyms = [_Synonym(setting.name, value, source)]
        yield _Entry(setting, value, synonyms, source)


def _of_loggers(name: str, context: RequestContext) -> Iterator[_Entry]:
    own = context.state.configs.of(ConfigResource.BROKER_LOGGER, name)
    for logger, level in LOGGERS.items():
        setting = Setting(logger, ConfigType.UNKNOWN, level)
        yield _Entry(setting, own.get(logger, level), [], _LOGGER)


def _of_broker(context: RequestContext) -> Iterator[_Entry]:
    brokers = context.state.broker_config
    its_own = _of_this_broker(context)
    for setting in broker_settings().values():
        names = [setting.name]
        if setting.name == "log.retention.ms":
            names = list(broker_names("retention.ms"))
        synonyms = _synonyms(names, context)
        value = next((found for _, found in brokers.synonyms(setting.name, context.node_id)), None)
        if setting.name in its_own:
            value = its_own[setting.name]
            synonyms.insert(0, _Synonym(setting.name, value, ConfigSource.STATIC_BROKER_CONFIG))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        yield _Entry(setting, value, synonyms, source, read_only=not setting.dynamic)


def _of_this_broker(context: RequestContext) -> dict[str, str]:
    """Return the configurations that differ between brokers."""
    node = context.state.nodes[context.node_id]
    listener = f"PLAINTEXT://{node.host}:{node.port}"
    values = {
        "advertised.listeners": listener,
        "broker.id": str(node.node_id),
        "listeners": listener,
        "node.id": str(node.node_id),
    }
    return values if node.rack is None else {**values, "broker.rack": node.rack}


def _of_all_brokers(context: RequestContext) -> Iterator[_Entry]:
    """Return the values set for all brokers (the broker ""), without static values and defaults."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, value in context.state.configs.of(ConfigResource.BROKER, ANY_BROKER).items():
        known = broker_settings().get(name)
        setting = known or Setting(name, ConfigType.UNKNOWN, None, dynamic=False)
        yield _Entry(setting, value, [_Synonym(name, value, source)], source, not setting.dynamic)
