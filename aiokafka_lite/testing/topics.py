"""A topic and its partitions: leader, leader epoch, ISR and log.

Replicas are only names: each partition has one log, which every leader of it serves. So killing a
broker loses no acknowledged records.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import (
    FencedLeaderEpochError,
    InvalidTopicError,
    NotEnoughReplicasError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.configs.topic_configs import TOPIC_DEFAULTS
from aiokafka_lite.testing.log.batch_checks import check_batch, check_size, last_sequence
from aiokafka_lite.testing.log.open_transactions import EndMarker
from aiokafka_lite.testing.log.partition_log import PartitionLog
from aiokafka_lite.testing.log.producer_state import AppendedBatch, ProducerTable
from aiokafka_lite.testing.watchers import Watchers

__all__ = ["NO_LEADER", "Partition", "Topic", "check_topic_name"]

NO_LEADER: Final = -1
ANY_EPOCH: Final = -1
ALL_IN_SYNC: Final = -1  # acks=all
FAR_FUTURE: Final = 2**63 - 1  # ms

LEVELS: Final = ("gzip", "lz4", "zstd")  # codecs with a compression level
NO_LEVEL: Final = "-1"

MAX_TOPIC_NAME: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


def check_topic_name(name: str) -> None:
    """Check a topic name like Kafka.

    Raises:
        InvalidTopicError: The name is empty, '.', '..', longer than 249 characters, or contains
            characters other than ASCII letters, digits, '.', '_' and '-'.
    """
    if name in ("", ".", ".."):
        raise InvalidTopicError(f"Topic name is invalid: {name!r} is not allowed")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicError(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length"
            f" {MAX_TOPIC_NAME}"
        )
    if not _LEGAL_NAME.fullmatch(name):
        raise InvalidTopicError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII"
            " alphanumerics, '.', '_' and '-'"
        )


class Partition:
    """One partition of a topic.

    Attributes:
        leader: Node id, or `NO_LEADER` while every replica is down.
        leader_epoch: Grows by one at every leader change and never decreases.
        replicas: Node ids, the preferred leader first.
        isr: Node ids of the in-sync replicas.
        watchers: Notified after every append and every leader change.
    """

    __slots__ = (
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "producers",
        "replicas",
        "topic",
        "watchers",
    )

    def __init__(self, topic: "Topic", index: int, replicas: Sequence[int]) -> None:
        self.topic = topic
        self.index = index
        self.replicas = list(replicas)
        self.isr = list(replicas)
        self.leader = self.replicas[0]
        self.leader_epoch = 0
        self.log = PartitionLog()
        self.log.begin_epoch(self.leader_epoch)
        self.producers = ProducerTable()
        self.watchers = Watchers()

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        acks: int,
        now_ms: int,
        *,
        verified: bool = False,
    ) -> AppendedBatch:
        """Check a client's v2 batch and append it, or recognise it as one already appended.

        Args:
            batch: Exactly the bytes of the batch.
            header: Its decoded header.
            acks: The request's acks; -1 (all) requires `min.insync.replicas`.
            now_ms: The broker's current time, in ms since the epoch.
            verified: True if the coordinator confirmed that the partition is in the transaction.

        Returns:
            Its base offset, and its log append time (-1 if the records keep their own times).

        Raises:
            BrokerResponseError: The batch is rejected; nothing was appended.
            RecordsRefused: The batch is rejected because of single records.
        """
        topic = self.topic
        if acks == ALL_IN_SYNC:
            self._check_in_sync()
        check_batch(batch, header, topic.max_message_bytes)
        batch, header = self._as_stored(batch, header, now_ms)
        if header.producer_id >= 0:
            duplicate = self.producers.check(header, verified=verified)
            if duplicate is not None:
                return duplicate
        append_time = now_ms if topic.log_append_time else None
        base_offset = self.log.append(batch, header, self.leader_epoch, append_time)
        timestamp = header.max_timestamp if append_time is None else append_time
        if header.producer_id >= 0:
            self.producers.on_append(header, base_offset, timestamp)
        self.watchers.notify()
        return AppendedBatch(
            header.base_sequence,
            last_sequence(header),
            base_offset,
            -1 if append_time is None else append_time,
        )

    def _as_stored(
        self, batch: memoryview, header: BatchHeader, now_ms: int
    ) -> tuple[memoryview, BatchHeader]:
        """Return the batch to store: if necessary, decode and check it, or change it."""
        topic = self.topic
        earliest, latest = 0, FAR_FUTURE
        if not topic.log_append_time:
            earliest = now_ms - topic.timestamp_before_max
            latest = now_ms + topic.timestamp_after_max
        codec = header.codec if topic.codec is None else topic.codec
        if not (topic.reads_records or header.max_timestamp > latest or codec != header.codec):
            return batch, header
        # Decoding is rare: import late.
        from aiokafka_lite.testing.log.batch_rewriting import recompressed, with_max_timestamp
        from aiokafka_lite.testing.log.record_checks import check_records

        largest = check_records(
            batch, header.record_count, earliest, latest, need_keys=topic.is_compacted
        )
        if largest != header.max_timestamp:
            batch = with_max_timestamp(batch, largest)
            header = BatchHeader.read(batch)
        if topic.codec is not None and codec != header.codec:
            batch = recompressed(batch, header, topic.codec, topic.compression_level)
            header = BatchHeader.read(batch)
            check_size(header, topic.max_message_bytes)
        return batch, header

    def append_marker(
        self,
        producer_id: int,
        epoch: int,
        marker: EndMarker,
        transaction_version: int,
        now_ms: int,
    ) -> None:
        """Append the coordinator's marker that ends a transaction in this partition.

        Args:
            producer_id: The producer of the transaction.
            epoch: The marker's producer epoch.
            marker: The outcome, and the coordinator's epoch.
            transaction_version: From 2 on, the epoch must be new.
            now_ms: The broker's current time, in ms since the epoch.

        Raises:
            NotEnoughReplicasError: Fewer replicas are in sync than `min.insync.replicas`.
            InvalidProducerEpoch, TransactionCoordinatorFenced: A newer epoch has written already.
        """
        from aiokafka_lite.testing.log.control_batches import marker_batch  # rare: import late

        self._check_in_sync()
        self.producers.check_marker(
            producer_id, epoch, marker.coordinator_epoch, transaction_version
        )
        batch = marker_batch(producer_id, epoch, marker, now_ms)
        append_time = now_ms if self.topic.log_append_time else None
        offset = self.log.append(batch, BatchHeader.read(batch), self.leader_epoch, append_time)
        self.producers.on_marker(producer_id, epoch, marker, offset, now_ms)
        self.watchers.notify()

    @property
    def last_stable_offset(self) -> int:
        """The start of the first open transaction, or else the high watermark."""
        undecided = self.producers.transactions.first_undecided
        if undecided is None:
            return self.log.high_watermark
        # If the log start is later, Kafka uses the start of the batch that contains it.
        return max(undecided, self.log.batch_start(self.log.start_offset))

    def aborted_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted transactions that overlap
        `first <= offset < end`, in the order of their markers."""
        return self.producers.transactions.aborted_between(first, end)

    def restore_producers(self) -> None:
        """Rebuild the producer state from the log, after a restart or a truncation."""
        self.producers.restore(self.log.batches())

    def _check_in_sync(self) -> None:
        needed = self.topic.min_insync_replicas
        if self.topic.caps_min_insync_replicas:
            needed = min(needed, len(self.replicas))
        if len(self.isr) < needed:
            raise NotEnoughReplicasError(
                f"the size of the current ISR {self.isr} is insufficient to satisfy the min.isr"
                f" requirement of {needed} for {self}"
            )

    def check_epoch(self, leader_epoch: int) -> None:
        """Check a client's leader epoch (KIP-320).

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError: The client's epoch is older, or newer.
                -1 matches any epoch.
        """
        if leader_epoch not in (ANY_EPOCH, self.leader_epoch):
            detail = f"{self} is in leader epoch {self.leader_epoch}, not {leader_epoch}"
            if leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(detail)
            raise UnknownLeaderEpochError(detail)

    def delete_before(self, offset: int) -> None:
        """Move the log start to `offset`, or to the log end if that is smaller."""
        if offset > self.log.start_offset:
            self.log.delete_before(offset)
            self.watchers.notify()

    def apply_retention(self, now_ms: int) -> None:
        """Delete batches beyond the topic's retention time or size."""
        from aiokafka_lite.testing.log.retention import first_retained  # only by call: import late

        retention_ms = int(self.topic.config("retention.ms"))
        retention_bytes = int(self.topic.config("retention.bytes"))
        offset = first_retained(self.log, now_ms, retention_ms, retention_bytes)
        if offset > self.log.start_offset:
            self.log.delete_before(offset, forget=True)
            self.watchers.notify()

    def compact(self, now_ms: int) -> None:
        """Compact the log up to the last stable offset."""
        from aiokafka_lite.testing.log.compaction import LastRecord, compact  # by call: import late

        log, transactions = self.log, self.producers.transactions
        producers = {}
        for producer_id, producer in self.producers.all().items():
            last = producer.batches[-1].last_offset if producer.batches else None
            producers[producer_id] = LastRecord(last, producer.epoch)
        end = self.last_stable_offset
        lag_ms = int(self.topic.config("min.compaction.lag.ms"))
        for header in map(BatchHeader.read, log.batches() if lag_ms else ()):
            if now_ms - header.max_timestamp < lag_ms:
                end = min(end, header.base_offset)
        left = compact(
            list(log.batches()),
            end=end,
            now_ms=now_ms,
            delete_retention_ms=int(self.topic.config("delete.retention.ms")),
            aborted=transactions.aborted,
            producers=producers,
        )
        log.rewrite(left.batches)
        transactions.aborted = left.aborted

    def truncate(self, to_offset: int) -> int:
        """Truncate the log, as an unclean leader election does, and start a new leader epoch.

        Args:
            to_offset: Removes the batch that contains this offset, and everything after it.

        Returns:
            The new log end offset.
        """
        end = self.log.truncate(to_offset)
        self.restore_producers()
        self.lead(self.leader)
        return end

    def shrink_isr(self, nodes: Collection[int]) -> None:
        """Remove nodes from the ISR; acks=all fails below `min.insync.replicas`.

        Raises:
            ValueError: The leader is among the nodes.
        """
        if self.leader in nodes:
            raise ValueError(f"broker {self.leader} leads {self}, so it cannot leave the ISR")
        self.isr = [node for node in self.isr if node not in nodes]
        self.watchers.notify()

    def expand_isr(self, nodes: Collection[int]) -> None:
        """Return nodes to the ISR if they are replicas."""
        self.isr = [node for node in self.replicas if node in self.isr or node in nodes]
        self.watchers.notify()

    def lead(self, leader: int) -> None:
        """Make a node (or `NO_LEADER`) the leader in a new epoch."""
        self.leader = leader
        self.leader_epoch += 1
        if leader != NO_LEADER:
            self.log.begin_epoch(self.leader_epoch)
        self.watchers.notify()

    def on_node_down(self, node_id: int) -> None:
        """Remove a killed broker from the ISR unless it is the last one; elect another leader."""
        if len(self.isr) > 1 and node_id in self.isr:
            self.isr.remove(node_id)
        if self.leader == node_id:
            in_sync = [replica for replica in self.replicas if replica in self.isr]
            self.lead(in_sync[0] if in_sync[0] != node_id else NO_LEADER)

    def on_node_up(self, node_id: int, alive: Collection[int]) -> None:
        """Handle a restarted broker: elect it if there is no leader; all running replicas are in
        sync again."""
        if self.leader == NO_LEADER and node_id in self.isr:
            self.lead(node_id)
        if self.leader != NO_LEADER:
            self.isr = [replica for replica in self.replicas if replica in alive]
            self.watchers.notify()  # a marker may wait for enough replicas

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index}"


class Topic:
    """A topic. A topic created again after deletion is a new one, with another id.

    Args:
        name: A valid name.
        topic_id: A unique id.
        configs: Its own configurations, already validated.
        check_records: Decode every appended batch and reject invalid records.
        defaults: The defaults of its configurations.
        caps_min_insync_replicas: True if a partition never needs more in-sync replicas than it
            has replicas, as in Kafka since 3.7.
    """

    __slots__ = (
        "_check_records",
        "_defaults",
        "caps_min_insync_replicas",
        "codec",
        "compression_level",
        "configs",
        "is_compacted",
        "is_internal",
        "log_append_time",
        "max_message_bytes",
        "min_insync_replicas",
        "name",
        "partitions",
        "reads_records",
        "timestamp_after_max",
        "timestamp_before_max",
        "topic_id",
    )

    def __init__(
        self,
        name: str,
        topic_id: UUID,
        configs: Mapping[str, str],
        *,
        check_records: bool = False,
        defaults: Mapping[str, str] = TOPIC_DEFAULTS,
        caps_min_insync_replicas: bool = True,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = name in INTERNAL_TOPICS
        self.partitions: list[Partition] = []
        self._check_records = check_records
        self._defaults = defaults
        self.caps_min_insync_replicas = caps_min_insync_replicas
        self.configure(configs)

    def configure(self, configs: Mapping[str, str]) -> None:
        """Replace the topic's own configurations by validated ones, effective immediately."""
        self.configs = dict(configs)
        # Parsed here, because every append reads them.
        self.log_append_time = self.config("message.timestamp.type") == "LogAppendTime"
        self.max_message_bytes = int(self.config("max.message.bytes"))
        self.codec, self.compression_level = self._compression()
        self.min_insync_replicas = int(self.config("min.insync.replicas"))
        self.timestamp_before_max = int(self.config("message.timestamp.before.max.ms"))
        self.timestamp_after_max = int(self.config("message.timestamp.after.max.ms"))
        self.is_compacted = "compact" in self.config("cleanup.policy")
        self.reads_records = (
            self._check_records or self.is_compacted or self.timestamp_before_max != FAR_FUTURE
        )

    def _compression(self) -> tuple[Compression | None, int | None]:
        """Return the codec of stored batches and its level; None for the producer's codec."""
        name = self.config("compression.type")
        if name == "producer":
            return None, None
        codec = Compression.NONE if name == "uncompressed" else Compression.named(name)
        level = self.config(f"compression.{name}.level") if name in LEVELS else NO_LEVEL
        return codec, None if level == NO_LEVEL else int(level)

    def config(self, name: str) -> str:
        """Return the effective value: the topic's own, or else the brokers'."""
        own = self.configs.get(name)
        return self._defaults[name] if own is None else own

    def partition(self, index: int) -> Partition:
        """Return the partition with a number.

        Raises:
            UnknownTopicOrPartitionError: It does not exist.
        """
        if not 0 <= index < len(self.partitions):
            raise UnknownTopicOrPartitionError(f"{self.name} has no partition {index}")
        return self.partitions[index]

    def leader_of(self, index: int) -> tuple[int, int]:
        """Return (node id, epoch) of a partition's leader, or (-1, -1) for an unknown partition."""
        if not 0 <= index < len(self.partitions):
            return (NO_LEADER, -1)
        partition = self.partitions[index]
        return (partition.leader, partition.leader_epoch)

    def add_partition(self, replicas: Sequence[int]) -> Partition:
        partition = Partition(self, len(self.partitions), replicas)
        self.partitions.append(partition)
        return partition
