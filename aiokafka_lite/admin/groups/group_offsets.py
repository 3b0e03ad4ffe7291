"""The committed offsets of groups: list, change, delete.

Source: OffsetFetchRequest.json v1-v9, OffsetCommitRequest.json v2-v9, OffsetDeleteRequest.json v0;
KIP-447, 496, 709.

Non-obvious:
- OffsetFetch names several groups in a request from version 8 on. Groups whose coordinators are
  older are requested one by one, all at once.
- The requests name topics, not topic ids: a group may have offsets of deleted topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, cast

from aiokafka_lite._arguments import (
    INT32,
    as_partitions,
    flag,
    offsets_to_commit,
    whole,
    wire_string,
)
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.exchange import Exchange
from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.groups.group_calls import (
    NAMES_UNTIL,
    by_topic,
    group_label,
    may_settle,
    never,
    of_coordinator,
    partition_label,
    raise_of_group,
)
from aiokafka_lite.admin.groups.offset_answers import (
    GROUPS_FROM,
    AnsweredGroup,
    OffsetsAnswer,
    OffsetsQuestion,
    PartitionOffset,
    read_on,
)
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf, Route, ToNode
from aiokafka_lite.errors import (
    IllegalGenerationError,
    KafkaError,
    KafkaProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnstableOffsetCommitError,
    UnsupportedVersionError,
)
from aiokafka_lite.group.offsets.messages import (
    FETCH_ALL_FROM,
    GroupAnswer,
    GroupQuestion,
    TopicIds,
    commit_request,
    fetch_request,
    read_fetch,
)
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from aiokafka_lite.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from aiokafka_lite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "GroupOffsets",
    "alter_group_offsets",
    "delete_group_offsets",
    "list_group_offsets",
    "list_one_groups_offsets",
]

_STABLE_FROM: Final = 7
"""The version of OffsetFetch that can refuse offsets of open transactions (KIP-447)."""
_OLDEST: Final = 1
"""Version 0 of OffsetFetch reads the offsets that ZooKeeper has."""
_COMMIT_FROM: Final = 2
"""The version of OffsetCommit that works without a timestamp per partition."""
_NO_IDS: Final = TopicIds({})

_OF_MEMBERS: Final = frozenset(
    error.errno
    for error in (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError)
)
_HAS_MEMBERS: Final = "the group has active members: stop them before you change its offsets"

GroupOffsets = Results[TopicPartition, "OffsetAndMetadata | None"]
"""The committed offset of each partition of a group, None if nothing is committed, or an error."""


# --- listing


async def list_group_offsets(
    dispatcher: Dispatcher,
    groups: object,
    timeout_ms: float | None,
    *,
    require_stable: bool,
) -> Results[str, GroupOffsets]:
    """See `AIOKafkaAdminClient.list_consumer_groups_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    asked = _asked(groups)
    stable = flag("require_stable", require_stable)
    outcomes: Outcomes[str, GroupOffsets] = Outcomes(asked, group_label, retriable=_retriable)

    def build(version: int, pending: list[str]) -> OffsetsQuestion:
        questions = {group: GroupQuestion(asked[group]) for group in pending}
        return OffsetsQuestion(fetch_request(questions, _NO_IDS, version, require_stable=stable))

    async def read(answer: OffsetsAnswer, outcomes: Outcomes[str, GroupOffsets]) -> None:
        async for each in read_on(answer):
            if outcomes.is_pending(each.group_id):
                _report(each, asked[each.group_id], outcomes)

    async def send(node_id: int, groups: list[str]) -> None:
        await dispatcher.send_once(node_id, groups, outcomes, exchange)

    exchange = Exchange(OffsetFetchRequest, build, read, GROUPS_FROM, NAMES_UNTIL)
    found: dict[str, GroupOffsets | KafkaError] = {}
    try:
        results: Results[str, GroupOffsets] = await dispatcher.scatter_to_coordinators(
            CoordinatorKind.GROUP, outcomes, OffsetFetchRequest, send, deadline
        )
        found.update(results)
    except UnsupportedVersionError as error:
        found.update(dict.fromkeys(asked, error))
    old = [
        group for group, outcome in found.items() if isinstance(outcome, UnsupportedVersionError)
    ]
    if not old:
        return Results(found)

    async def one_by_one(group: str) -> None:
        route = CoordinatorOf(group, CoordinatorKind.GROUP)
        try:
            found[group] = await _list_one(dispatcher, group, asked[group], route, deadline, stable)
        except KafkaError as error:
            found[group] = error

    async with asyncio.TaskGroup() as tasks:
        for group in old:
            tasks.create_task(one_by_one(group), name=f"offsets of {group_label(group)}")
    errors = [found[group] for group in old]
    if len(old) == len(found) and all(isinstance(each, UnsupportedVersionError) for each in errors):
        Results(found).raise_for_errors()  # no broker can do it
    return Results(found)


async def list_one_groups_offsets(
    dispatcher: Dispatcher,
    group_id: object,
    group_coordinator_id: int | None,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: float | None,
    *,
    require_stable: bool,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """See `AIOKafkaAdminClient.list_consumer_group_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    group = wire_string("group_id", group_id)
    asked = None if partitions is None else as_partitions(list(partitions))
    route: Route = CoordinatorOf(group, CoordinatorKind.GROUP)
    if group_coordinator_id is not None:
        route = ToNode(whole("group_coordinator_id", group_coordinator_id, most=INT32))
    stable = flag("require_stable", require_stable)
    offsets = await _list_one(dispatcher, group, asked, route, deadline, stable)
    return {
        tp: OffsetAndMetadata(-1, "") if committed is None else committed
        for tp, committed in offsets.raise_for_errors().items()
    }


async def _list_one(
    dispatcher: Dispatcher,
    group: str,
    partitions: list[TopicPartition] | None,
    route: Route,
    deadline: float,
    stable: bool,
) -> GroupOffsets:
    used = _OLDEST
    asked = {group: partitions}
    outcomes: Outcomes[str, GroupOffsets] = Outcomes([group], group_label, retriable=_retriable)

    def build(version: int, pending: list[str]) -> OffsetFetchRequest:
        nonlocal used
        used = version
        return fetch_request(
            {group: GroupQuestion(partitions)}, _NO_IDS, version, require_stable=stable
        )

    def read(response: OffsetFetchResponse, outcomes: Outcomes[str, GroupOffsets]) -> None:
        for group_id, answer in read_fetch(response, used, asked, _NO_IDS).items():
            if group_id == group:
                _report(_answered(group, answer), partitions, outcomes)

    oldest, feature = _OLDEST, None
    if partitions is None:
        oldest, feature = FETCH_ALL_FROM, "Listing all offsets of a group"
    if stable:
        oldest, feature = _STABLE_FROM, "require_stable"
    results = await dispatcher.settle(
        outcomes,
        OffsetFetchRequest,
        build,
        read,
        route,
        deadline,
        oldest=oldest,
        latest=NAMES_UNTIL,
        feature=feature,
    )
    return results.value(group)


def _retriable(error: KafkaError) -> bool:
    """Also retry for an open transaction, which ends soon; otherwise as for every request to a
    coordinator."""
    return of_coordinator(error) or isinstance(error, UnstableOffsetCommitError)


def _answered(group: str, answer: GroupAnswer) -> AnsweredGroup:
    found: dict[TopicPartition, PartitionOffset] = {
        tp: each
        if each is None or isinstance(each, int)
        else OffsetAndMetadata(each.offset, each.metadata, each.leader_epoch)
        for tp, each in answer.partitions.items()
    }
    return AnsweredGroup(group, answer.error_code, found, plain=False)


def _report(
    answer: AnsweredGroup,
    asked: list[TopicPartition] | None,
    outcomes: Outcomes[str, GroupOffsets],
) -> None:
    """Report the offset of each requested partition of a group."""
    group, code, partitions, plain = answer
    if outcomes.on_code(group, code):
        return
    if plain and asked is None:
        outcomes.on_value(group, Results(cast(dict[TopicPartition, OffsetAndMetadata], partitions)))
        return
    found: dict[TopicPartition, OffsetAndMetadata | KafkaError | None] = {}
    for tp in partitions if asked is None else asked:
        label = f"{group_label(group)}, {partition_label(tp)}"
        if tp not in partitions:
            found[tp] = KafkaProtocolError(f"{label}: the response omits it")
            continue
        committed = partitions[tp]
        if isinstance(committed, int):
            error = item_error(committed, label)
            if _retriable(error):
                outcomes.on_error(group, error)
                return
            found[tp] = error
        elif committed is not None or asked is not None:
            found[tp] = committed
    outcomes.on_value(group, Results(found))


def _asked(groups: object) -> dict[str, list[TopicPartition] | None]:
    """Check group ids, or a mapping of group ids to partitions (None: all of them)."""
    if isinstance(groups, Mapping):
        return {
            wire_string("group id", group): None if each is None else as_partitions(list(each))
            for group, each in groups.items()
        }
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise TypeError(f"`groups` must be group ids or a mapping of them, not {groups!r}")
    return {wire_string("group id", group): None for group in groups}


# --- changing


async def alter_group_offsets(
    dispatcher: Dispatcher,
    group_id: object,
    offsets: object,
    timeout_ms: float | None,
) -> Results[TopicPartition, None]:
    """See `AIOKafkaAdminClient.alter_consumer_group_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    group = wire_string("group_id", group_id)
    nothing = isinstance(offsets, Mapping) and not offsets  # such as those of a new group
    wanted = {} if nothing else offsets_to_commit(offsets)
    outcomes: Outcomes[TopicPartition, None] = Outcomes(
        wanted,
        lambda tp: f"{group_label(group)}, {partition_label(tp)}",
        retriable=may_settle,
    )

    def build(version: int, asked: list[TopicPartition]) -> OffsetCommitRequest:
        return commit_request(group, {tp: wanted[tp] for tp in asked}, None, _NO_IDS, version)

    def read(response: OffsetCommitResponse, outcomes: Outcomes[TopicPartition, None]) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                why = _HAS_MEMBERS if each.error_code in _OF_MEMBERS else None
                if not outcomes.on_code(tp, each.error_code, why):
                    outcomes.on_value(tp, None)

    return await dispatcher.settle(
        outcomes,
        OffsetCommitRequest,
        build,
        read,
        CoordinatorOf(group, CoordinatorKind.GROUP),
        deadline,
        oldest=_COMMIT_FROM,
        latest=NAMES_UNTIL,
    )


async def delete_group_offsets(
    dispatcher: Dispatcher,
    group_id: object,
    partitions: Iterable[TopicPartition],
    timeout_ms: float | None,
) -> Results[TopicPartition, None]:
    """See `AIOKafkaAdminClient.delete_consumer_group_offsets`."""
    deadline = dispatcher.deadline(timeout_ms)
    group = wire_string("group_id", group_id)
    asked = as_partitions(list(partitions))
    outcomes: Outcomes[TopicPartition, None] = Outcomes(
        asked,
        lambda tp: f"{group_label(group)}, {partition_label(tp)}",
        retriable=never,
        retries_refusal=of_coordinator,
    )

    def build(version: int, pending: list[TopicPartition]) -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    topic, [OffsetDeleteRequestPartition(number) for number in numbers]
                )
                for topic, numbers in by_topic(pending).items()
            ],
        )

    def read(response: OffsetDeleteResponse, outcomes: Outcomes[TopicPartition, None]) -> None:
        raise_of_group(group, response.error_code)
        for topic in response.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if not outcomes.on_code(tp, each.error_code):
                    outcomes.on_value(tp, None)

    return await dispatcher.settle(
        outcomes,
        OffsetDeleteRequest,
        build,
        read,
        CoordinatorOf(group, CoordinatorKind.GROUP),
        deadline,
        feature="Deleting offsets of a group",
    )
