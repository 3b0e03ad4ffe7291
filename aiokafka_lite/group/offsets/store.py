"""A group's committed offsets: written to and read from its coordinator, whoever asks.

Consumers commit and resume by it, as members of the group or from outside of it; the admin client
reads all that a group has committed. It knows of no membership and no position: as whom to commit
it is told.

Non-obvious:

- What passes is tried again until the deadline; only the partitions that are not through yet are
  asked about again. Java gives up at some codes of its own retriable ones, as unexpected; here all
  of those are tried again.
- A topic's id is taken from the metadata when a commit begins, and kept: when the topic is made
  again meanwhile, its old offsets are not committed for the new one.
- Commits have a connection of their own: one that waited behind a JoinGroup would wait for the
  whole rebalance.
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
"""As whom: a member, what tells it anew for each attempt (and may raise a KafkaError instead), or
None for nobody of the group."""


class OffsetStore:
    """The committed offsets of one group.

    Args:
        cluster: Where its coordinator is.
        group_id: The group's name.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
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
        """Commit offsets, trying again as long as what is wrong may pass.

        Args:
            offsets: Nothing is asked if there are none.
            identity: The member that commits; None: the application assigned the partitions by
                hand, which the coordinator accepts if the group has no members.
            deadline: Loop time after which no more is tried.
            missing_topics_may_come: Whether a topic or partition that the coordinator does not
                know is one that it has not heard of yet, rather than one that was deleted.

        Raises:
            KafkaTimeoutError: The deadline came; its cause says what was wrong. Some partitions
                may be committed.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: With the topics refused.
            RebalanceInProgressError, IllegalGenerationError, UnknownMemberIdError,
            FencedInstanceIdError, StaleMemberEpochError: Of the member.
            OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError: One of the texts.
            UnknownTopicIdError: A topic was deleted, and made again under its name.
            KafkaError: Any other lasting error. Those partitions that it is not about are
                committed all the same.

        Cancellation: stops the wait; a request that was sent is carried out.
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
                lasting = KafkaProtocolError(f"the coordinator did not answer for {untold[0]}")
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
        """What the group has committed.

        Args:
            partitions: None: all that it has committed for.
            require_stable: Wait for open transactions that may change an offset. Brokers before
                2.5 cannot tell.
            identity: The member of KIP-848's kind that asks, which is refused when its epoch is
                old; None: nobody of the group, who is not.
            deadline: Loop time after which no more is tried.

        Returns:
            By partition; those that nothing was committed for, or that do not exist, are missing.

        Raises:
            KafkaTimeoutError: The deadline came; its cause says what was wrong.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: With the topics refused.
            StaleMemberEpochError, UnknownMemberIdError: Of the member.
            UnsupportedVersionError: A broker before 0.10.2 cannot tell of all partitions.
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
            # What is left has an id that is not known there, or not any more: ask by its name.
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
        """One question; takes from `pending` what is answered."""
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
                raise KafkaProtocolError(f"the coordinator did not answer for {self.group_id}")
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
        """Note what was answered; partitions whose id is not known stay pending.

        Returns:
            The passing and the lasting error to go on with, if any.
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
                # Old brokers say so of what was never committed, too.
                if not isinstance(error, UnknownTopicOrPartitionError):
                    failed[tp] = error
                    continue
            elif answer is not None:
                found[tp] = answer
            if pending is not None:
                del pending[tp]
        if untold:
            return None, KafkaProtocolError(f"the coordinator did not answer for {min(untold)}")
        return self._sort(failed, TopicIds({}), True)

    def _sort(
        self,
        failed: Mapping[TopicPartition, KafkaError],
        ids: TopicIds,
        missing_topics_may_come: bool,
    ) -> tuple[KafkaError | None, KafkaError | None]:
        """The first passing and the first lasting error among those of partitions."""
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

    def _noted(self, error: KafkaError) -> KafkaError:
        """The error, after forgetting a coordinator that has run out of time, as Java does."""
        if isinstance(error, RequestTimedOutError):
            self._cluster.coordinators.forget(CoordinatorKind.GROUP, self.group_id)
        return error
