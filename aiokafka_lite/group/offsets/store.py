"""Commits and fetches a group's offsets through its coordinator.

Consumers use it to commit and resume, as members of the group or from outside; the admin client
uses it to read all committed offsets of a group. It tracks no membership and no position: the
caller passes the identity to commit with.

Non-obvious:

- Retriable errors are retried until the deadline, only for the partitions that are not completed.
  Java treats some of its own retriable codes as unexpected and gives up; here all are retried.
- A commit takes topic ids from the metadata once, when it begins. If a topic is recreated
  meanwhile, the offsets of the old one are not committed for the new one.
- Commits use a separate connection: behind a JoinGroup, a commit would wait for the whole
  rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from aiokafka_lite.cluster.broker import PerVersion, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import CoordinatorOf, call
from aiokafka_lite.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    KafkaProtocolError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka_lite.group.membership import CommitIdentity
from aiokafka_lite.group.offsets.commit_codec import CommitAnswer, CommitQuestion
from aiokafka_lite.group.offsets.messages import (
    COMMIT_NAMES_UNTIL,
    FETCH_ALL_FROM,
    FETCH_NAMES_UNTIL,
    OLDEST,
    Committed,
    GroupAnswer,
    GroupQuestion,
    TopicIds,
    fetch_request,
    read_fetch,
)
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest
from aiokafka_lite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Committed", "Identity", "OffsetStore"]

Identity: TypeAlias = CommitIdentity | Callable[[], CommitIdentity | None] | None
"""The identity to commit with: a member, a function that returns it for each attempt (and may raise
a KafkaError), or None if the caller is not a member."""


class OffsetStore:
    """The committed offsets of one group.

    Args:
        cluster: The group's cluster.
        group_id: The group's name.

    Attributes:
        group_id: The same.
        client_id: The client's id; log lines begin with it.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self.client_id = cluster.client_id
        self._cluster = cluster
        self._route = CoordinatorOf(group_id)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: Identity,
        deadline: float,
        *,
        missing_topics_may_come: bool = True,
    ) -> None:
        """Commit offsets, with retries of retriable errors.

        Args:
            offsets: The offsets; if empty, no request is sent.
            identity: The member that commits; None: the application assigned the partitions
                manually, which the coordinator accepts if the group has no members.
            deadline: Loop time after which nothing is retried.
            missing_topics_may_come: True if a topic or partition that the coordinator does not know
                may be new to it; False if it must have been deleted.

        Raises:
            KafkaTimeoutError: The deadline passed; its cause is the last error. Some partitions may
                be committed.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Access is denied; the
                latter names the topics.
            RebalanceInProgressError, IllegalGenerationError, UnknownMemberIdError,
            FencedInstanceIdError, StaleMemberEpochError: The identity is not valid now.
            OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError: Metadata is too large.
            UnknownTopicIdError: A topic was deleted and recreated under its name.
            KafkaError: Any other lasting error. Partitions without an error are still committed.

        Cancellation: stops the wait; a sent request may still be carried out.
        """
        pending = dict(offsets)
        if not pending:
            return
        names = {tp.topic for tp in pending}
        ids = TopicIds.of(self._cluster.metadata, names)
        lasting: KafkaError | None = None

        def build(version: int) -> CommitQuestion:
            member = identity() if callable(identity) else identity
            return CommitQuestion(self.group_id, pending, member, ids)

        def check(response: CommitAnswer) -> None:
            nonlocal lasting
            if response.stored and pending.keys() <= response.all_stored(ids):
                pending.clear()
                return
            failed: dict[TopicPartition, KafkaError] = {}
            for tp, code in response.codes(ids):
                if code and tp in pending:
                    failed[tp] = for_code(code)(f"{tp} of group {self.group_id}")
                else:
                    pending.pop(tp, None)
            untold = [tp for tp in pending if tp not in failed]
            if untold:
                lasting = self._left_out(untold[0])
                return
            passing, lasting = self._sort(failed, ids, missing_topics_may_come)
            if passing is not None and lasting is None:
                raise passing

        await call(
            self._cluster,
            PerVersion(OffsetCommitRequest, build),
            self._route,
            deadline,
            check=check,
            purpose=Purpose.COMMIT,
            latest=None if ids.cover(names) else COMMIT_NAMES_UNTIL,
            oldest=OLDEST,
        )
        if lasting is not None:
            raise lasting

    async def fetch(
        self,
        partitions: Collection[TopicPartition] | None,
        *,
        require_stable: bool,
        identity: Identity = None,
        deadline: float,
    ) -> dict[TopicPartition, Committed]:
        """Fetch the group's committed offsets.

        Args:
            partitions: Partitions to fetch; None: all that have a committed offset.
            require_stable: Wait for open transactions that may change an offset. Brokers before
                2.5 do not support this.
            identity: The member of a KIP-848 group that asks, which is rejected if its epoch is
                stale; None: not a member, never rejected as stale.
            deadline: Loop time after which nothing is retried.

        Returns:
            By partition; omits partitions without a committed offset and those that do not exist.

        Raises:
            KafkaTimeoutError: The deadline passed; its cause is the last error.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Access is denied; the
                latter names the topics.
            StaleMemberEpochError, UnknownMemberIdError: The identity is not valid now.
            UnsupportedVersionError: Brokers before 0.10.2 cannot return all partitions.
            KafkaError: Any other lasting error.

        Cancellation: safe.
        """
        if partitions is None:
            return await self._fetch(None, TopicIds({}), require_stable, identity, deadline)
        pending = dict.fromkeys(partitions)
        ids = TopicIds.of(self._cluster.metadata, {tp.topic for tp in pending})
        found: dict[TopicPartition, Committed] = {}
        while pending:
            told = await self._fetch(pending, ids, require_stable, identity, deadline)
            found.update(told)
            # The coordinator does not know the ids of the remaining topics: ask by name.
            ids = TopicIds({})
        return found

    async def _fetch(
        self,
        pending: dict[TopicPartition, None] | None,
        ids: TopicIds,
        require_stable: bool,
        identity: Identity,
        deadline: float,
    ) -> dict[TopicPartition, Committed]:
        """Send one request; removes answered partitions from `pending`."""
        found: dict[TopicPartition, Committed] = {}
        lasting: KafkaError | None = None
        by_id = pending is not None and ids.cover({tp.topic for tp in pending})
        spoken = OLDEST

        def build(version: int) -> OffsetFetchRequest:
            nonlocal spoken
            spoken = version
            member = identity() if callable(identity) else identity
            asked = {self.group_id: GroupQuestion(pending, member)}
            return fetch_request(asked, ids, version, require_stable=require_stable)

        def check(response: OffsetFetchResponse) -> None:
            nonlocal lasting
            told = read_fetch(response, spoken, [self.group_id], ids).get(self.group_id)
            if told is None:
                raise KafkaProtocolError(
                    f"the coordinator's response leaves out group {self.group_id}"
                )
            if told.error_code:
                raise self._noted(for_code(told.error_code)(self.group_id))
            passing, lasting = self._take(told, pending, found, by_id)
            if passing is not None and lasting is None:
                raise passing

        await call(
            self._cluster,
            PerVersion(OffsetFetchRequest, build),
            self._route,
            deadline,
            check=check,
            purpose=Purpose.COMMIT,
            latest=None if by_id else FETCH_NAMES_UNTIL,
            oldest=FETCH_ALL_FROM if pending is None else OLDEST,
        )
        if lasting is not None:
            raise lasting
        return found

    def _take(
        self,
        told: GroupAnswer,
        pending: dict[TopicPartition, None] | None,
        found: dict[TopicPartition, Committed],
        by_id: bool,
    ) -> tuple[KafkaError | None, KafkaError | None]:
        """Record a response; partitions with an unknown topic id stay pending.

        Returns:
            The retriable and the lasting error to continue with, if any.
        """
        failed: dict[TopicPartition, KafkaError] = {}
        untold = set(pending or ())
        for tp, answer in told.partitions.items():
            if pending is not None and tp not in pending:
                continue
            untold.discard(tp)
            if isinstance(answer, int):
                error = for_code(answer)(f"{tp} of group {self.group_id}")
                if isinstance(error, UnknownTopicIdError) and by_id:
                    self._cluster.request_update()
                    continue
                # Old brokers also return it for partitions without a committed offset.
                if not isinstance(error, UnknownTopicOrPartitionError):
                    failed[tp] = error
                    continue
            elif answer is not None:
                found[tp] = answer
            if pending is not None:
                del pending[tp]
        if untold:
            return None, self._left_out(min(untold))
        return self._sort(failed, TopicIds({}), True)

    def _sort(
        self,
        failed: Mapping[TopicPartition, KafkaError],
        ids: TopicIds,
        missing_topics_may_come: bool,
    ) -> tuple[KafkaError | None, KafkaError | None]:
        """The first retriable and the first lasting error of the partitions."""
        passing: KafkaError | None = None
        lasting: KafkaError | None = None
        refused: set[str] = set()
        for tp, error in failed.items():
            if isinstance(error, TopicAuthorizationFailedError):
                refused.add(tp.topic)
            elif self._may_pass(tp.topic, error, ids, missing_topics_may_come):
                passing = passing or self._noted(error)
            elif isinstance(error, GroupAuthorizationFailedError):
                lasting = lasting or GroupAuthorizationFailedError(self.group_id)
            else:
                lasting = lasting or error
        if refused:
            lasting = lasting or TopicAuthorizationFailedError(*sorted(refused))
        return passing, lasting

    def _may_pass(
        self, topic: str, error: KafkaError, ids: TopicIds, missing_topics_may_come: bool
    ) -> bool:
        if isinstance(error, UnknownTopicIdError | UnknownTopicOrPartitionError):
            known = self._cluster.metadata.topics.get(topic)
            made_again = (
                isinstance(error, UnknownTopicIdError)
                and known is not None
                and known.topic_id is not None
                and known.topic_id != ids.by_name.get(topic)
            )
            return missing_topics_may_come and not made_again
        return error.retriable

    def _left_out(self, tp: TopicPartition) -> KafkaProtocolError:
        where = f"{tp.topic}-{tp.partition} in group {self.group_id}"
        return KafkaProtocolError(f"the coordinator's response leaves out {where}")

    def _noted(self, error: KafkaError) -> KafkaError:
        """Return the error; forgets a coordinator that timed out, as Java does."""
        if isinstance(error, RequestTimedOutError):
            self._cluster.coordinators.forget(CoordinatorKind.GROUP, self.group_id)
        return error
