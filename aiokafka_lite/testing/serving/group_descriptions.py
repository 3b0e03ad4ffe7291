"""What the descriptions of consumer groups and share groups have in common."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol
from uuid import UUID

from aiokafka_lite.errors import TopicAuthorizationFailedError
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource

__all__ = ["add_authorized_operations", "check_described_topics", "named_partitions"]


class Described(Protocol):
    """The description of a group."""

    error_code: int
    group_id: str
    authorized_operations: int


def add_authorized_operations(groups: Iterable[Described], context: RequestContext) -> None:
    """Add the client's allowed operations to the descriptions without errors."""
    for group in groups:
        if not group.error_code:
            group.authorized_operations = context.authorized_operations(
                Resource.GROUP, group.group_id
            )


def check_described_topics(names: Iterable[str], context: RequestContext) -> None:
    """Check that the client may describe the topics in a description.

    Raises:
        TopicAuthorizationFailedError
    """
    for name in names:
        if not context.allows(Operation.DESCRIBE, Resource.TOPIC, name):
            raise TopicAuthorizationFailedError(
                "The group has described topic(s) that the client is not authorized to describe."
            )


def named_partitions(
    partitions: Mapping[UUID, Iterable[int]], names: Mapping[UUID, str]
) -> Iterator[tuple[UUID, str, list[int]]]:
    """Yield id, name and sorted partitions of each topic that exists."""
    for topic_id, numbers in partitions.items():
        if topic_id in names:
            yield topic_id, names[topic_id], sorted(numbers)
