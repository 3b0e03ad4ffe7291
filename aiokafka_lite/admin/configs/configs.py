"""Describes and changes configurations.

A broker describes and changes its own configurations; any broker handles those of other resources.

Source: DescribeConfigsRequest.json v0-v4, IncrementalAlterConfigsRequest.json v0-v1,
AlterConfigsRequest.json v0-v2, ListConfigResourcesRequest.json v0-v1, KIP-133, KIP-226, KIP-339,
KIP-569, KIP-1142.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiokafka_lite._arguments import INT32, wire_string
from aiokafka_lite.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_lite.admin.configs.config_types import (
    AlterConfigOp,
    AlterConfigsResponse,
    AlterConfigsResult,
    AlteredResource,
    Config,
    ConfigChange,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribedResource,
)
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_errors import (
    code_of,
    message_of,
    only_controller_errors,
    report,
)
from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.new_topic import config_text
from aiokafka_lite.cluster.retry import ANY, Route, ToNode
from aiokafka_lite.errors import (
    IllegalArgumentError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.alter_configs import (
    AlterableConfig as LegacyConfig,
)
from aiokafka_lite.protocol.messages.alter_configs import (
    AlterConfigsRequest,
)
from aiokafka_lite.protocol.messages.alter_configs import (
    AlterConfigsResource as LegacyResource,
)
from aiokafka_lite.protocol.messages.alter_configs import (
    AlterConfigsResponse as LegacyResponse,
)
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsResponse as RawDescription,
)
from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from aiokafka_lite.protocol.messages.list_config_resources import ListConfigResourcesRequest

__all__ = [
    "alter_configs",
    "as_responses",
    "describe_configs",
    "incremental_alter_configs",
    "list_config_resources",
]

_SYNONYMS_FROM: Final = 1
_DOCUMENTATION_FROM: Final = 3
_SOURCES_FROM: Final = 1
_ALL_TYPES_FROM: Final = 1
_NO_SOURCE: Final = -1


async def describe_configs(
    dispatcher: Dispatcher,
    config_resources: Iterable[ConfigResource],
    timeout_ms: float | None,
    *,
    include_synonyms: bool,
    include_documentation: bool,
) -> Results[ConfigResource, Config]:
    """See `AIOKafkaAdminClient.describe_configs`."""
    deadline = dispatcher.deadline(timeout_ms)
    keys = {each: _keys(each.configs) for each in _checked(config_resources)}
    outcomes: Outcomes[ConfigResource, Config] = Outcomes(
        keys,
        _label,
        retriable=lambda error: (
            error.retriable and not isinstance(error, UnknownTopicOrPartitionError)
        ),
    )

    def build(version: int, resources: list[ConfigResource]) -> DescribeConfigsRequest:
        return DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(each.resource_type, each.name, keys[each])
                for each in resources
            ],
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    def read(response: RawDescription, outcomes: Outcomes[ConfigResource, Config]) -> None:
        for answer in response.results:
            resource = _resource_of(answer.resource_type, answer.resource_name)
            if resource is not None and not outcomes.on_code(
                resource, answer.error_code, answer.error_message
            ):
                entries = [_entry(each) for each in answer.configs]
                outcomes.on_value(resource, {each.name: each for each in entries})

    return await dispatcher.settle_by_route(
        outcomes,
        _route,
        DescribeConfigsRequest,
        build,
        read,
        deadline,
        oldest=_DOCUMENTATION_FROM
        if include_documentation
        else _SYNONYMS_FROM
        if include_synonyms
        else 0,
        feature="Describing configurations with their documentation"
        if include_documentation
        else "Describing configurations with their synonyms"
        if include_synonyms
        else None,
    )


async def incremental_alter_configs(
    dispatcher: Dispatcher,
    changes: Mapping[ConfigResource, ConfigChange],
    timeout_ms: float | None,
    *,
    validate_only: bool,
) -> Results[ConfigResource, None]:
    """See `AIOKafkaAdminClient.incremental_alter_configs`."""
    deadline = dispatcher.deadline(timeout_ms)
    if not isinstance(changes, Mapping):
        raise TypeError(f"`changes` should be a mapping by ConfigResource, not {changes!r}")
    operations = {each: _operations(changes[each]) for each in _checked(changes)}
    outcomes: Outcomes[ConfigResource, None] = Outcomes(
        operations, _label, retriable=only_controller_errors()
    )

    def build(version: int, resources: list[ConfigResource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    each.resource_type,
                    each.name,
                    [AlterableConfig(op.name, op.operation, op.value) for op in operations[each]],
                )
                for each in resources
            ],
            validate_only=validate_only,
        )

    return await dispatcher.settle_by_route(
        outcomes,
        _route,
        IncrementalAlterConfigsRequest,
        build,
        _read_altered,
        deadline,
        feature="Changing single configurations (incremental_alter_configs)",
    )


async def alter_configs(
    dispatcher: Dispatcher,
    config_resources: Iterable[ConfigResource],
    timeout_ms: float | None,
    *,
    validate_only: bool,
    raise_errors: bool,
) -> AlterConfigsResult:
    """See `AIOKafkaAdminClient.alter_configs`."""
    deadline = dispatcher.deadline(timeout_ms)
    values = {each: _values(each) for each in _checked(config_resources)}
    outcomes: Outcomes[ConfigResource, None] = Outcomes(
        values, _label, retriable=only_controller_errors()
    )

    def build(version: int, resources: list[ConfigResource]) -> AlterConfigsRequest:
        return AlterConfigsRequest(
            resources=[
                LegacyResource(
                    each.resource_type,
                    each.name,
                    [LegacyConfig(name, value) for name, value in values[each].items()],
                )
                for each in resources
            ],
            validate_only=validate_only,
        )

    results = await dispatcher.settle_by_route(
        outcomes, _route, AlterConfigsRequest, build, _read_altered, deadline
    )
    groups: dict[Route, list[AlteredResource]] = {ANY: []}  # first, even if it stays empty
    for resource, outcome in results.items():
        answer = AlteredResource(
            code_of(outcome),
            message_of(outcome, _label(resource)),
            resource.resource_type,
            resource.name,
        )
        groups.setdefault(_route(resource), []).append(answer)
    result = AlterConfigsResult(AlterConfigsResponse(0, group) for group in groups.values())
    result.results = results
    report(results, "alter_configs", raise_errors)
    return result


async def list_config_resources(
    dispatcher: Dispatcher,
    resource_types: Iterable[ConfigResourceType | str],
    timeout_ms: float | None,
) -> list[ConfigResource]:
    """See `AIOKafkaAdminClient.list_config_resources`."""
    deadline = dispatcher.deadline(timeout_ms)
    types = [ConfigResource(each, "").resource_type for each in resource_types]
    response = await dispatcher.ask(
        ListConfigResourcesRequest(resource_types=list(types)),
        ANY,
        deadline,
        oldest=0 if types == [ConfigResourceType.CLIENT_METRICS] else _ALL_TYPES_FROM,
        feature="Listing the resources that have configurations",
    )
    found = [
        _resource_of(each.resource_type, each.resource_name) for each in response.config_resources
    ]
    return [each for each in found if each is not None]


def as_responses(results: Results[ConfigResource, Config]) -> DescribeConfigsResult:
    """Return a description as aiokafka does: a response for each broker, then one for the rest."""
    groups: dict[Route, list[DescribedResource]] = {}
    for resource, outcome in results.items():
        entries: list[tuple[Any, ...]] = []
        if isinstance(outcome, Mapping):
            entries = [tuple(each[:6]) for each in outcome.values()]
        answer = DescribedResource(
            code_of(outcome),
            message_of(outcome, _label(resource)),
            resource.resource_type,
            resource.name,
            entries,
        )
        groups.setdefault(_route(resource), []).append(answer)
    others = groups.pop(ANY, None)
    ordered = [*groups.values(), *([] if others is None else [others])]
    result = DescribeConfigsResult(DescribeConfigsResponse(0, group) for group in ordered)
    result.results = results
    return result


def _read_altered(
    response: IncrementalAlterConfigsResponse | LegacyResponse,
    outcomes: Outcomes[ConfigResource, None],
) -> None:
    for answer in response.responses:
        resource = _resource_of(answer.resource_type, answer.resource_name)
        if resource is not None and not outcomes.on_code(
            resource, answer.error_code, answer.error_message
        ):
            outcomes.on_value(resource, None)


def _entry(answer: DescribeConfigsResourceResult) -> ConfigEntry:
    source = ConfigSource(answer.config_source)
    if answer.config_source == _NO_SOURCE and answer.is_default:  # version 0
        source = ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(
        answer.name,
        answer.value,
        answer.read_only,
        source,
        answer.is_sensitive,
        tuple(
            ConfigSynonym(each.name, each.value, ConfigSource(each.source))
            for each in answer.synonyms
        ),
        ConfigType(answer.config_type),
        answer.documentation,
    )


def _resource_of(resource_type: int, name: str) -> ConfigResource | None:
    """The resource of a response; None if its type is of a newer release."""
    try:
        return ConfigResource(resource_type, name)
    except IllegalArgumentError:
        return None


def _route(resource: ConfigResource) -> Route:
    of_a_broker = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    if resource.resource_type in of_a_broker and resource.name:
        return ToNode(int(resource.name))
    return ANY


def _label(resource: ConfigResource) -> str:
    kind = resource.resource_type.name.lower().replace("_", " ")
    return f"{kind} {resource.name!r}"


def _checked(given: object) -> list[ConfigResource]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"`config_resources` should be ConfigResource objects, not {given!r}")
    resources: dict[ConfigResource, None] = {}
    for each in given:
        if not isinstance(each, ConfigResource):
            raise TypeError(f"`config_resources` should be ConfigResource objects, not {each!r}")
        is_node = each.name.isascii() and each.name.isdecimal() and int(each.name) <= INT32
        if each.resource_type is ConfigResourceType.BROKER_LOGGER and not is_node:
            raise IllegalArgumentError(f"{_label(each)}: the name should be a broker's node id")
        if each.resource_type is ConfigResourceType.BROKER and each.name and not is_node:
            raise IllegalArgumentError(
                f"{_label(each)}: the name should be a node id, or '' for the default of all "
                "brokers"
            )
        if each in resources:
            raise IllegalArgumentError(f"{_label(each)} is in `config_resources` twice")
        resources[each] = None
    return list(resources)


def _keys(configs: Mapping[str, Any] | Iterable[str] | None) -> list[str] | None:
    """The names to describe; None, like aiokafka's empty dict, means all."""
    names = [wire_string("config name", each) for each in configs or ()]
    return names or None


def _values(resource: ConfigResource) -> dict[str, str | None]:
    if not isinstance(resource.configs, Mapping):
        raise TypeError(
            f"{_label(resource)}: `configs` should be a mapping of values by name to alter them, "
            f"not {resource.configs!r}"
        )
    return {
        wire_string("config name", name): config_text(value)
        for name, value in resource.configs.items()
    }


def _operations(change: ConfigChange) -> list[AlterConfigOp]:
    if isinstance(change, Mapping):
        return [
            AlterConfigOp.delete(name) if value is None else AlterConfigOp.set(name, value)
            for name, value in change.items()
        ]
    operations = list(change)
    for each in operations:
        if not isinstance(each, AlterConfigOp):
            raise TypeError(
                f"changes should be AlterConfigOp objects or a mapping of values, not {each!r}"
            )
    return operations
