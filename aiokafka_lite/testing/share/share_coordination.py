"""The share groups' state in a cluster: stored states, share partitions, share sessions. No I/O.

A share partition belongs to the leader of its partition; it is made on first use, and again when
the leader or the stored state has changed.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.configs.group_configs import GroupConfigs
from aiokafka_lite.testing.features import Features
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.groups.group_registry import Groups
from aiokafka_lite.testing.share.dead_letters import DeadLetters
from aiokafka_lite.testing.share.embedded_share_group import ShareGroup
from aiokafka_lite.testing.share.in_flight_records import InFlightRecords
from aiokafka_lite.testing.share.kept_states import UNKNOWN_OFFSET, KeptStates, StateKey
from aiokafka_lite.testing.share.share_partition import SharePartition
from aiokafka_lite.testing.share.share_sessions import ShareSession, ShareSessionCache
from aiokafka_lite.testing.share.share_settings import ShareSettings
from aiokafka_lite.testing.storage.journal import Journal
from aiokafka_lite.testing.topics import Partition

__all__ = ["ShareCoordination"]

FIRST_STATE_EPOCH: Final = 0
FIRST_OFFSET: Final = 0


class ShareCoordination:
    """The share groups of a cluster.

    Args:
        nodes: The brokers' ids.
        clock: The cluster's clock.
        journal: Stores states across restarts.
        brokers: The configurations of the brokers.
        configs: The configurations of groups.
        features: The cluster's features.
        groups: The groups of all kinds.
        dead_letters: Writes dead letters.

    Attributes:
        sessions: The share sessions of each broker.
        states: The stored states.
    """

    def __init__(
        self,
        nodes: Iterable[int],
        clock: Clock,
        journal: Journal,
        brokers: BrokerConfigs,
        configs: GroupConfigs,
        features: Features,
        groups: Groups,
        dead_letters: DeadLetters,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._brokers = brokers
        self._configs = configs
        self._features = features
        self._groups = groups
        self._dead_letters = dead_letters
        self._partitions: dict[StateKey, SharePartition] = {}
        self.states = KeptStates(journal)
        self.sessions = {
            node_id: ShareSessionCache(lambda: brokers.integer("group.share.max.share.sessions"))
            for node_id in nodes
        }

    # Groups

    def settings_of(self, group_id: str) -> ShareSettings:
        """Return the settings of a group."""
        return ShareSettings(group_id, self._brokers, self._configs, self._features)

    def new_group(self, group_id: str) -> ShareGroup:
        """Return a new group that is not yet registered."""
        return ShareGroup(
            group_id,
            self._groups.offsets_of(group_id),
            self._groups.environment,
            self.settings_of(group_id),
            self.initialize,
        )

    def recall(self) -> None:
        """Restore the groups in the journal, without members."""
        for (group_id, *_), remembered in list(self._journal.entries("group")):
            if remembered["kind"] == ShareGroup.kind:
                group = self.new_group(str(group_id))
                group.recall(remembered)
                self._groups.put(group)

    def initialize(self, group_id: str, topic_id: UUID, count: int) -> None:
        """Make the states of a topic's partitions exist.

        As in Kafka, partitions that are added to a topic of the group begin at offset 0, whatever
        `share.auto.offset.reset` says: the group receives the records that were written before a
        member learned of the partitions.
        """
        keys = [(group_id, topic_id, index) for index in range(count)]
        missing = [key for key in keys if self.states.get(key) is None]
        start = UNKNOWN_OFFSET if len(missing) == count else FIRST_OFFSET
        for key in missing:
            self.states.initialize(key, FIRST_STATE_EPOCH, start)

    def on_group_deleted(self, group: Group) -> None:
        """Delete the states of a deleted share group."""
        if isinstance(group, ShareGroup):
            self._forget(group_id=group.group_id)

    def on_topic_deleted(self, topic_id: UUID) -> None:
        """Delete the states of a deleted topic."""
        self._forget(topic_id=topic_id)

    # Share partitions

    def partition(self, group_id: str, partition: Partition) -> SharePartition | None:
        """Return a share partition; make it if the partition has a new leader.

        Returns:
            None if its state was never initialized, because no member has subscribed to the topic.
        """
        key = (group_id, partition.topic.topic_id, partition.index)
        known = self._partitions.get(key)
        if known is not None and known.is_current:
            return known
        self._close(key)
        kept = self.states.get(key)
        if kept is None:
            return None
        made = SharePartition(
            key,
            partition,
            kept,
            self.states,
            self.settings_of(group_id),
            self._clock,
            self._dead_letters,
        )
        self._partitions[key] = made
        return made

    def known_partition(self, group_id: str, topic_id: UUID, index: int) -> SharePartition | None:
        """Return a share partition if the current leader has made it."""
        known = self._partitions.get((group_id, topic_id, index))
        return known if known is not None and known.is_current else None

    def records_of(self, group_id: str) -> Iterator[tuple[UUID, int, InFlightRecords]]:
        """Yield topic id, number and records in flight of the group's partitions.

        They are those of the leader if it has made the share partition, or else the stored ones.
        """
        for topic_id, indexes in self.states.of_group(group_id).items():
            for index in sorted(indexes):
                known = self.known_partition(group_id, topic_id, index)
                kept = self.states.get((group_id, topic_id, index))
                if known is not None:
                    yield topic_id, index, known.records
                elif kept is not None and kept.start_offset != UNKNOWN_OFFSET:
                    records = InFlightRecords(kept.start_offset)
                    records.restore(kept.batches())
                    yield topic_id, index, records

    # Sessions

    def release(self, session: ShareSession) -> None:
        """Release the records that the member of a closed session holds in its partitions."""
        for topic_id, index in session.partitions:
            held = self.known_partition(session.key.group_id, topic_id, index)
            if held is not None:
                held.release(session.key.member_id)

    def on_disconnect(self, node_id: int, connection_id: int) -> None:
        """Close the session of a closed connection, and release its member's records.

        As in Kafka, a broker without sessions of a group drops the group's share partitions, with
        the acquisitions in them.
        """
        session, empty_group = self.sessions[node_id].on_disconnect(connection_id)
        if session is not None:
            self.release(session)
        if empty_group is not None:
            for key, held in list(self._partitions.items()):
                if key[0] == empty_group and held.partition.leader == node_id:
                    self._close(key)

    def on_node_down(self, node_id: int) -> None:
        """Forget the sessions of a killed broker; locks are lost with their leader."""
        self.sessions[node_id].clear()

    # Internals

    def _forget(self, group_id: str | None = None, topic_id: UUID | None = None) -> None:
        self.states.forget(group_id, topic_id)
        for key in list(self._partitions):
            if group_id in (None, key[0]) and topic_id in (None, key[1]):
                self._close(key)

    def _close(self, key: StateKey) -> None:
        known = self._partitions.pop(key, None)
        if known is not None:
            known.close()
