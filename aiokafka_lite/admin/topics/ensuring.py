"""`ensure_topics`: creates missing topics, and compares existing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiokafka_lite.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka_lite.admin.configs.configs import describe_configs
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.new_topic import NewTopic
from aiokafka_lite.admin.topics.creation import create_topics, topics_by_name
from aiokafka_lite.admin.topics.description import TopicDescription, describe_topics
from aiokafka_lite.admin.topics.visibility import wait_for_topics
from aiokafka_lite.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

__all__ = ["EnsuredTopic", "TopicDifference", "ensure_topics"]


class TopicDifference(NamedTuple):
    """A property of a topic that differs from the requested one."""

    wanted: Any
    found: Any


@dataclass(frozen=True, slots=True)
class EnsuredTopic:
    """A topic that exists.

    Attributes:
        created: True if this call created it.
        differences: The properties that differ, by "num_partitions", "replication_factor",
            "replica_assignments" or the name of a configuration; empty if the call created it.
    """

    name: str
    created: bool
    differences: Mapping[str, TopicDifference] = field(default_factory=dict)


async def ensure_topics(
    dispatcher: Dispatcher, new_topics: Iterable[NewTopic], timeout_ms: float | None
) -> Results[str, EnsuredTopic]:
    """See `AIOKafkaAdminClient.ensure_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = topics_by_name(new_topics)

    def remaining_ms() -> float:
        return dispatcher.remaining_ms(deadline)

    async def describe(names: Iterable[str]) -> Results[str, TopicDescription]:
        found = await describe_topics(
            dispatcher, names, remaining_ms(), include_authorized_operations=False
        )
        return Results({str(name): each for name, each in found.items()})

    outcomes: dict[str, EnsuredTopic | KafkaError] = {}
    described = dict(await describe(wanted))
    missing = [
        name for name, each in described.items() if isinstance(each, UnknownTopicOrPartitionError)
    ]
    if missing:
        made = await create_topics(
            dispatcher,
            [wanted[name] for name in missing],
            remaining_ms(),
            validate_only=False,
            retry_on_quota_violation=True,
            raise_errors=False,
            quiet=True,
        )
        outcomes.update({name: EnsuredTopic(name, True) for name in made.valid()})
        outcomes.update(made.errors())
        # Another client was faster, or the first broker asked lags behind.
        existing = [
            name
            for name, error in made.errors().items()
            if isinstance(error, TopicAlreadyExistsError)
        ]
        await wait_for_topics(dispatcher, [*made.valid(), *existing], remaining_ms())
        for name in missing:
            del described[name]
        if existing:
            described.update(await describe(existing))
    configs = await _configs(
        dispatcher,
        [wanted[name] for name, each in described.items() if not isinstance(each, KafkaError)],
        remaining_ms(),
    )
    for name, each in described.items():
        of_topic = configs.get(name, {})
        if isinstance(each, KafkaError):
            outcomes[name] = each
        elif isinstance(of_topic, KafkaError):
            outcomes[name] = of_topic
        else:
            differences = _differences(wanted[name], each, of_topic)
            outcomes[name] = EnsuredTopic(name, False, differences)
    return Results({name: outcomes[name] for name in wanted})


async def _configs(
    dispatcher: Dispatcher, topics: list[NewTopic], timeout_ms: float
) -> dict[str, KafkaError | dict[str, str | None]]:
    """The values of the configurations that the topics name, by topic."""
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, topic.name, topic.topic_configs)
        for topic in topics
        if topic.topic_configs
    ]
    found = await describe_configs(
        dispatcher, resources, timeout_ms, include_synonyms=False, include_documentation=False
    )
    return {
        resource.name: outcome
        if isinstance(outcome, KafkaError)
        else {name: entry.value for name, entry in outcome.items()}
        for resource, outcome in found.items()
    }


def _differences(
    wanted: NewTopic, found: TopicDescription, configs: Mapping[str, str | None]
) -> dict[str, TopicDifference]:
    pairs: dict[str, tuple[object, object]] = {}
    if wanted.num_partitions != -1:
        pairs["num_partitions"] = (wanted.num_partitions, len(found.partitions))
    if wanted.replication_factor != -1:
        factors = {len(each.replicas) for each in found.partitions.values()}
        factor = factors.pop() if len(factors) == 1 else sorted(factors)
        pairs["replication_factor"] = (wanted.replication_factor, factor)
    if wanted.replica_assignments:
        assigned = {number: list(each.replicas) for number, each in found.partitions.items()}
        pairs["replica_assignments"] = (wanted.replica_assignments, assigned)
    for name, value in wanted.topic_configs.items():
        pairs[name] = (value, configs.get(name))
    return {name: TopicDifference(*pair) for name, pair in pairs.items() if pair[0] != pair[1]}
