"""Commits and fetches a group's offsets through its coordinator.

Consumers use it to commit and resume, as members of the group or from outside; the admin client
uses it to read all committed offsets of a group. It tracks no membership and no position: the
caller passes the identity to commit with.

A `CommitCall` or `FetchCall` is made attempt by attempt, and its caller owns the loop:

    while not call.done:
        connection = await call.connect()
        identity = ...  # check it here: nothing is awaited before the request is sent
        await call.attempt(connection, identity)

Non-obvious:

- Retriable errors are retried until the deadline, only for the partitions that are not completed.
  Java treats some of its own retriable codes as unexpected and fails; this store retries all of
  them.
- `attempt` sends its request before it suspends. So an identity and an assignment that the caller
  checks after `connect` still hold when the request is sent.
- A commit takes topic ids from the metadata once, when it begins. If a topic is recreated
  meanwhile, the offsets of the old one are not committed for the new one.
- Commits use a separate connection: behind a JoinGroup, a commit would wait for the whole
  rebalance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.retry import Attempts, CoordinatorOf
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
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest
from aiokafka_lite.protocol.messages.offset_fetch import OffsetFetchRequest
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommitCall", "Committed", "FetchCall", "OffsetStore"]


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

    def begin_commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
        *,
        missing_topics_may_come: bool = True,
    ) -> CommitCall:
        """Begin a commit.

        Args:
            offsets: The offsets; if empty, the call is done already.
            deadline: Loop time after which nothing is retried.
            missing_topics_may_come: True if a topic or partition that is unknown to the coordinator
                may be new; False if it must have been deleted.
        """
        return CommitCall(self._cluster, self.group_id, offsets, deadline, missing_topics_may_come)

    async def fetch(
        self,
        partitions: Collection[TopicPartition] | None,
        *,
        require_stable: bool,
        deadline: float,
    ) -> dict[TopicPartition, Committed]:
        """Fetch the group's committed offsets, not as a member; see `begin_fetch`.

        Returns:
            By partition; omits partitions without a committed offset and those that do not exist.

        Raises:
            KafkaError: As for `FetchCall.attempt`.

        Cancellation: safe.
        """
        call = self.begin_fetch(partitions, require_stable=require_stable, deadline=deadline)
        await call.complete()
        return call.found

    def begin_fetch(
        self,
        partitions: Collection[TopicPartition] | None,
        *,
        require_stable: bool,
        deadline: float,
    ) -> FetchCall:
        """Begin a fetch of the group's committed offsets.

        Args:
            partitions: Partitions to fetch; None: all that have a committed offset.
            require_stable: Wait for open transactions that may change an offset. Brokers before
                2.5 do not support this.
            deadline: Loop time after which nothing is retried.
        """
        return FetchCall(self._cluster, self.group_id, partitions, require_stable, deadline)


class _Call(ABC):
    """A request for a group's offsets, made attempt by attempt.

    Args:
        cluster: The group's cluster.
        group_id: The group's name.
        deadline: Loop time after which nothing is retried.
        name: The request's name.

    Attributes:
        done: True once an attempt has completed the call.
    """

    def __init__(self, cluster: Cluster, group_id: str, deadline: float, name: str) -> None:
        self.done = False
        self._cluster = cluster
        self._group_id = group_id
        self._attempts = Attempts(cluster, CoordinatorOf(group_id), deadline, name)

    async def connect(self) -> Connection:
        """Connect to the coordinator; after a failed attempt, pause first.

        Raises:
            KafkaTimeoutError: The deadline passed; its cause is the last error.
            KafkaError: The coordinator cannot be found, and a retry cannot help.

        Cancellation: safe.
        """
        return await self._attempts.connect(Purpose.COMMIT)

    @abstractmethod
    async def attempt(self, connection: Connection, identity: CommitIdentity | None) -> None:
        """Send one request, before this suspends. It sets `done`, unless the error is retriable."""

    async def complete(self, identity: CommitIdentity | None = None) -> None:
        """Make attempts until one completes the call, all with the same identity.

        Raises:
            KafkaError: As for `connect` and `attempt`.
        """
        while not self.done:
            await self.attempt(await self.connect(), identity)

    def _sort(
        self,
        failed: Mapping[TopicPartition, KafkaError],
        ids: TopicIds,
        missing_topics_may_come: bool,
    ) -> KafkaError | None:
        """Return the first retriable error of the partitions, if no error is lasting.

        Raises:
            KafkaError: The first lasting error.
        """
        retriable: KafkaError | None = None
        lasting: KafkaError | None = None
        refused: set[str] = set()
        for tp, error in failed.items():
            if isinstance(error, TopicAuthorizationFailedError):
                refused.add(tp.topic)
            elif self._may_pass(tp.topic, error, ids, missing_topics_may_come):
                retriable = retriable or self._noted(error)
            elif isinstance(error, GroupAuthorizationFailedError):
                lasting = lasting or GroupAuthorizationFailedError(self._group_id)
            else:
                lasting = lasting or error
        if refused:
            lasting = lasting or TopicAuthorizationFailedError(*sorted(refused))
        if lasting is not None:
            raise lasting
        return retriable

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
        where = f"{tp.topic}-{tp.partition} in group {self._group_id}"
        return KafkaProtocolError(f"the coordinator's response omits {where}")

    def _noted(self, error: KafkaError) -> KafkaError:
        """Return the error; drops a coordinator that timed out, as Java does."""
        if isinstance(error, RequestTimedOutError):
            self._cluster.coordinators.forget(CoordinatorKind.GROUP, self._group_id)
        return error


class CommitCall(_Call):
    """One commit of offsets.

    Args:
        cluster, group_id, deadline: As for `_Call`.
        offsets, missing_topics_may_come: As for `OffsetStore.begin_commit`.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
        missing_topics_may_come: bool,
    ) -> None:
        super().__init__(cluster, group_id, deadline, OffsetCommitRequest.name)
        self.done = not offsets
        self._pending = dict(offsets)
        self._missing_topics_may_come = missing_topics_may_come
        names = {tp.topic for tp in offsets}
        self._ids = TopicIds.of(cluster.metadata, names)
        self._latest = None if self._ids.cover(names) else COMMIT_NAMES_UNTIL

    async def attempt(self, connection: Connection, identity: CommitIdentity | None) -> None:
        """Commit the offsets that are not committed yet: one request, sent before this suspends.

        After a retriable error, the call is not done.

        Args:
            connection: As `connect` returned it.
            identity: The member that commits; None: the application assigned the partitions
                manually, which the coordinator accepts if the group has no members.

        Raises:
            KafkaTimeoutError: The deadline passed; its cause is the last error. Some partitions may
                be committed.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Access is denied; the
                latter names the topics.
            RebalanceInProgressError, IllegalGenerationError, UnknownMemberIdError,
            FencedInstanceIdError, StaleMemberEpochError: The identity is not valid now. The next
                attempt may use another one.
            OffsetMetadataTooLargeError, InvalidCommitOffsetSizeError: Metadata is too large.
            UnknownTopicIdError: A topic was deleted and recreated under its name.
            KafkaError: Any other lasting error. Partitions without an error are still committed.

        Cancellation: stops the wait; a sent request may still be carried out.
        """
        question = CommitQuestion(self._group_id, self._pending, identity, self._ids)
        version = connection.version_of(OffsetCommitRequest, self._latest, OLDEST)
        response = await self._attempts.response(connection.send(question, version))
        if response is not None:
            self._on_response(response)

    def _on_response(self, response: CommitAnswer) -> None:
        pending = self._pending
        if response.stored and pending.keys() <= response.all_stored(self._ids):
            self.done = True
            return
        failed: dict[TopicPartition, KafkaError] = {}
        for tp, code in response.codes(self._ids):
            if code and tp in pending:
                failed[tp] = for_code(code)(f"{tp} of group {self._group_id}")
            else:
                pending.pop(tp, None)
        left_out = [tp for tp in pending if tp not in failed]
        if left_out:
            raise self._left_out(left_out[0])
        error = self._sort(failed, self._ids, self._missing_topics_may_come)
        if error is not None:
            self._attempts.fail(error)
        self.done = error is None


class FetchCall(_Call):
    """One fetch of committed offsets.

    Args:
        cluster, group_id, deadline: As for `_Call`.
        partitions, require_stable: As for `OffsetStore.begin_fetch`.

    Attributes:
        found: The offsets by partition, without partitions that have none or do not exist; complete
            once the call is done.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        require_stable: bool,
        deadline: float,
    ) -> None:
        super().__init__(cluster, group_id, deadline, OffsetFetchRequest.name)
        self.found: dict[TopicPartition, Committed] = {}
        self._require_stable = require_stable
        self._pending = None if partitions is None else dict.fromkeys(partitions)
        self.done = partitions is not None and not self._pending
        self._ids = TopicIds({})
        if partitions is not None:
            self._ids = TopicIds.of(cluster.metadata, {tp.topic for tp in partitions})

    async def attempt(self, connection: Connection, identity: CommitIdentity | None) -> None:
        """Fetch the offsets that are not known yet: one request, sent before this suspends.

        After a retriable error, or if the coordinator does not know a topic id, the call is not
        done.

        Args:
            connection: As `connect` returned it.
            identity: The member of a KIP-848 group that asks, which is rejected if its epoch is
                stale; None: not a member, never rejected as stale.

        Raises:
            KafkaTimeoutError: The deadline passed; its cause is the last error.
            GroupAuthorizationFailedError, TopicAuthorizationFailedError: Access is denied; the
                latter names the topics.
            StaleMemberEpochError, UnknownMemberIdError: The identity is not valid now. The next
                attempt may use another one.
            UnsupportedVersionError: Brokers before 0.10.2 cannot return all partitions.
            KafkaError: Any other lasting error.

        Cancellation: safe.
        """
        pending = self._pending
        by_id = pending is not None and self._ids.cover({tp.topic for tp in pending})
        version = connection.version_of(
            OffsetFetchRequest,
            None if by_id else FETCH_NAMES_UNTIL,
            FETCH_ALL_FROM if pending is None else OLDEST,
        )
        asked = {self._group_id: GroupQuestion(pending, identity)}
        request = fetch_request(asked, self._ids, version, require_stable=self._require_stable)
        response = await self._attempts.response(connection.send(request, version))
        if response is None:
            return
        result = read_fetch(response, version, [self._group_id], self._ids).get(self._group_id)
        if result is None:
            raise KafkaProtocolError(f"the coordinator's response omits group {self._group_id}")
        error = self._on_result(result, by_id)
        if error is not None:
            self._attempts.fail(error)
            return
        # The coordinator does not know the ids of the remaining topics: ask by name.
        self._ids = TopicIds({})
        self.done = not pending

    def _on_result(self, result: GroupAnswer, by_id: bool) -> KafkaError | None:
        """Record a result; partitions with an unknown topic id stay pending.

        Returns:
            The error to retry, if there is one; or that of the group, retriable or not.

        Raises:
            KafkaError: A lasting error of a partition.
        """
        if result.error_code:
            return self._noted(for_code(result.error_code)(self._group_id))
        pending = self._pending
        failed: dict[TopicPartition, KafkaError] = {}
        left_out = set(pending or ())
        for tp, answer in result.partitions.items():
            if pending is not None and tp not in pending:
                continue
            left_out.discard(tp)
            if isinstance(answer, int):
                error = for_code(answer)(f"{tp} of group {self._group_id}")
                if isinstance(error, UnknownTopicIdError) and by_id:
                    self._cluster.request_update()
                    continue
                # Old brokers also return it for partitions without a committed offset.
                if not isinstance(error, UnknownTopicOrPartitionError):
                    failed[tp] = error
                    continue
            elif answer is not None:
                self.found[tp] = answer
            if pending is not None:
                del pending[tp]
        if left_out:
            raise self._left_out(min(left_out))
        return self._sort(failed, TopicIds({}), True)
