"""Describing and changing configurations."""

import logging
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigType,
)
from aiokafka_lite.errors import (
    IllegalArgumentError,
    InvalidConfigurationError,
    KafkaProtocolError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

ORDERS = ConfigResource("topic", "orders")
NONE = ConfigResource("topic", "none")


def nodes_asked(brokers: FakeCluster, api_key: ApiKey) -> dict[int, list[str]]:
    return {
        seen.node_id: [each.resource_name for each in seen.body.resources]
        for seen in brokers.requests
        if seen.api_key == api_key
    }


async def test_configurations_as_aiokafka_describes_them(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    responses = await admin.describe_configs(
        [
            ConfigResource(ConfigResourceType.TOPIC, "orders", ["retention.ms"]),
            ConfigResource("BROKER", "1", {"log.retention.ms": None}),
            NONE,
        ],
        include_synonyms=True,
    )
    assert len(responses) == 2
    [(code, message, kind, name, entries)] = responses[0].resources
    assert (code, message, kind, name) == (0, None, 4, "1")
    assert [entry[0] for entry in entries] == ["log.retention.ms"]
    topic, none = responses[1].resources
    [(name, value, read_only, source, sensitive, synonyms)] = topic.config_entries
    assert (name, value, read_only, source, sensitive) == (
        *("retention.ms", "604800000", False),
        *(ConfigSource.DEFAULT_CONFIG, False),
    )
    assert synonyms[-1][0] == "log.retention.hours"
    assert (none.error_code, none.config_entries) == (UnknownTopicOrPartitionError.errno, [])
    assert nodes_asked(brokers, ApiKey.DESCRIBE_CONFIGS)[1][:1] == ["1"]
    with pytest.raises(UnknownTopicOrPartitionError, match="topic 'none'"):
        responses.raise_for_errors()
    assert responses[0].to_object()["resources"][0]["resource_name"] == "1"


async def test_a_description_as_an_object_has_aiokafkas_names(admin: AIOKafkaAdminClient) -> None:
    [response] = await admin.describe_configs(
        [ConfigResource("topic", "orders", ["retention.ms"])], include_synonyms=True
    )
    assert response.to_object() == {
        "throttle_time_ms": 0,
        "resources": [
            {
                "error_code": 0,
                "error_message": None,
                "resource_type": ConfigResourceType.TOPIC,
                "resource_name": "orders",
                "config_entries": [
                    {
                        "config_names": "retention.ms",
                        "config_value": "604800000",
                        "read_only": False,
                        "config_source": ConfigSource.DEFAULT_CONFIG,
                        "is_sensitive": False,
                        "config_synonyms": [
                            {
                                "config_name": "log.retention.hours",
                                "config_value": "168",
                                "config_source": ConfigSource.DEFAULT_CONFIG,
                            }
                        ],
                    }
                ],
            }
        ],
    }


async def test_the_typed_description(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    def document(response: Any) -> None:
        for told in response.results:
            for each in told.configs:
                each.documentation = f"about {each.name}"

    brokers.control(
        ApiKey.DESCRIBE_CONFIGS,
        after_handling=True,
        when=lambda request: bool(request.include_documentation),
        edit=document,
    )
    results = await admin.describe_configs([ORDERS, NONE], include_documentation=True, typed=True)
    retention = results.value(ConfigResource("topic", "orders"))["retention.ms"]
    assert retention.is_default
    assert retention.type is ConfigType.LONG
    assert retention.documentation == "about retention.ms"
    assert retention.synonyms == ()
    assert isinstance(results[NONE], UnknownTopicOrPartitionError)


async def test_only_the_named_configs_change(admin: AIOKafkaAdminClient) -> None:
    first = await admin.incremental_alter_configs(
        {ORDERS: {"retention.ms": 1000, "cleanup.policy": "compact"}}
    )
    first.raise_for_errors()
    changed = await admin.incremental_alter_configs(
        {
            ORDERS: [
                AlterConfigOp.append("cleanup.policy", "delete"),
                AlterConfigOp.set("unclean.leader.election.enable", True),
            ],
            NONE: {"retention.ms": 1},
        }
    )
    assert changed[ORDERS] is None
    assert isinstance(changed[NONE], UnknownTopicOrPartitionError)
    config = (await admin.describe_configs([ORDERS], typed=True)).value(ORDERS)
    assert config["retention.ms"].value == "1000"
    assert config["retention.ms"].source is ConfigSource.TOPIC_CONFIG
    assert config["cleanup.policy"].value == "compact,delete"
    assert config["unclean.leader.election.enable"].value == "true"
    last = [AlterConfigOp.subtract("cleanup.policy", "compact")]
    (await admin.incremental_alter_configs({ORDERS: last})).raise_for_errors()
    (await admin.incremental_alter_configs({ORDERS: {"retention.ms": None}})).raise_for_errors()
    config = (await admin.describe_configs([ORDERS], typed=True)).value(ORDERS)
    assert config["cleanup.policy"].value == "delete"
    assert config["retention.ms"].is_default


async def test_a_brokers_configurations_are_changed_at_that_broker(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    broker, everyone = ConfigResource("broker", "2"), ConfigResource("broker", "")
    change = {"log.retention.ms": 5000}
    results = await admin.incremental_alter_configs({broker: change, everyone: change})
    results.raise_for_errors()
    assert nodes_asked(brokers, ApiKey.INCREMENTAL_ALTER_CONFIGS)[2] == ["2"]
    config = (await admin.describe_configs([broker], typed=True)).value(broker)
    assert config["log.retention.ms"].source is ConfigSource.DYNAMIC_BROKER_CONFIG


async def test_validate_only_changes_nothing(admin: AIOKafkaAdminClient) -> None:
    results = await admin.incremental_alter_configs(
        {ORDERS: {"retention.ms": 1}}, validate_only=True
    )
    results.raise_for_errors()
    bad = await admin.incremental_alter_configs({ORDERS: {"retention.ms": "x"}}, validate_only=True)
    assert isinstance(bad[ORDERS], InvalidConfigurationError)
    config = (await admin.describe_configs([ORDERS], typed=True)).value(ORDERS)
    assert config["retention.ms"].is_default


async def test_changes_are_never_made_by_the_request_that_resets_the_rest() -> None:
    async with (
        FakeCluster(1, ["orders"], version="2.2") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(
            UnsupportedVersionError, match=r"\(incremental_alter_configs\) requires Kafka 2\.3"
        ):
            await admin.incremental_alter_configs({ORDERS: {"retention.ms": 1}})
        assert old.count(ApiKey.ALTER_CONFIGS) == 0
        await admin.alter_configs([ConfigResource("topic", "orders", {"retention.ms": 1})])
        assert old.count(ApiKey.ALTER_CONFIGS) == 1


async def test_aiokafkas_alter_configs(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await admin.incremental_alter_configs({ORDERS: {"cleanup.policy": "compact"}})
    responses = await admin.alter_configs(
        [
            ConfigResource("broker", "1", {"log.retention.ms": 7000}),
            ConfigResource("topic", "orders", {"retention.ms": 2000}),
        ]
    )
    assert [each.resources for each in responses] == [
        [(0, None, 2, "orders")],
        [(0, None, 4, "1")],
    ]
    config = (await admin.describe_configs([ORDERS], typed=True)).value(ORDERS)
    assert config["retention.ms"].value == "2000"
    assert config["cleanup.policy"].is_default  # not named, so reset
    only_broker = await admin.alter_configs([ConfigResource("broker", "1", {})])
    assert [len(each.resources) for each in only_broker] == [0, 1]
    with caplog.at_level(logging.WARNING):
        failed = await admin.alter_configs([ConfigResource("topic", "none", {"retention.ms": 1})])
    assert failed[0].resources[0].error_code == UnknownTopicOrPartitionError.errno
    assert "alter_configs: [Error 3] UnknownTopicOrPartitionError: topic 'none'" in caplog.text
    with pytest.raises(UnknownTopicOrPartitionError):
        failed.raise_for_errors()
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.alter_configs(
            [ConfigResource("topic", "none", {"retention.ms": 1})], raise_errors=True
        )


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda: ConfigResource("topics", "a"), IllegalArgumentError),
        (lambda: ConfigResource(3, "a"), IllegalArgumentError),
        (lambda: ConfigResource(None, "a"), TypeError),
        (lambda: ConfigResource("topic", None), TypeError),
        (lambda: ConfigResource("topic", "a", "retention.ms"), TypeError),
        (lambda: AlterConfigOp.set("retention.ms", None), IllegalArgumentError),
        (lambda: AlterConfigOp.append(1, "a"), TypeError),
    ],
)
def test_bad_arguments_are_refused(bad: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        bad()


async def test_bad_calls_send_nothing(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    before = len(brokers.requests)
    for resources, error in [
        ([ORDERS, ConfigResource("topic", "orders")], IllegalArgumentError),
        ([ConfigResource("broker", "one")], IllegalArgumentError),
        ([ConfigResource("broker_logger", "")], IllegalArgumentError),
        (["orders"], TypeError),
        ("orders", TypeError),
    ]:
        with pytest.raises(error):
            await admin.describe_configs(resources)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="mapping of values"):
        await admin.alter_configs([ConfigResource("topic", "orders", ["retention.ms"])])
    with pytest.raises(TypeError, match="AlterConfigOp"):
        await admin.incremental_alter_configs({ORDERS: ["retention.ms"]})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="mapping by ConfigResource"):
        await admin.incremental_alter_configs([ORDERS])  # type: ignore[arg-type]
    assert len(brokers.requests) == before


async def test_many_resources_are_not_compared_with_each_other(
    admin: AIOKafkaAdminClient,
) -> None:
    comparisons = 0

    class Counting(ConfigResource):
        __hash__ = ConfigResource.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return super().__eq__(other)

    resources = [Counting("topic", f"t{number}") for number in range(200)]
    await admin.describe_configs(resources, typed=True)
    assert comparisons < 20 * len(resources)  # each is looked up in a few dicts


async def test_one_resources_error_leaves_the_others(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    def edit(response: Any) -> None:
        for each in response.results:
            if each.resource_name == "payments":
                each.error_code = TopicAuthorizationFailedError.errno
        response.results = [each for each in response.results if each.resource_name != "orders"]

    brokers.control(ApiKey.DESCRIBE_CONFIGS, after_handling=True, edit=edit)
    payments, broker = ConfigResource("topic", "payments"), ConfigResource("broker", "0")
    results = await admin.describe_configs([payments, ORDERS], typed=True)
    assert isinstance(results[payments], TopicAuthorizationFailedError)
    assert isinstance(results[ORDERS], KafkaProtocolError)
    assert set((await admin.describe_configs([broker], typed=True)).valid()) == {broker}


async def test_resources_with_configurations_are_listed(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    every = await admin.list_config_resources()
    assert {ORDERS, ConfigResource("broker", 2)} <= set(every)
    topics = await admin.list_config_resources(["topic"])
    assert sorted(each.name for each in topics) == ["orders", "payments"]
    assert await admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]) == []


async def test_listing_resources_needs_newer_brokers() -> None:
    async with (
        FakeCluster(1, version="3.9") as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 4\.1 or newer"):
            await admin.list_config_resources()
