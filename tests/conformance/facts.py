"""Converts responses to facts that two brokers must have in common, without random values.

Addresses, texts, paths and disk sizes are omitted. Ids that a broker chooses are replaced: member
ids, producer ids, topic ids and session ids become "#1", "#2" in their order of appearance, so that
a repeated id differs from a new one. Node ids become "a node". Lists have any order; if their items
have names, these identify a difference.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias
from uuid import UUID

from aiokafka_lite.protocol.message import Struct
from aiokafka_lite.record.header import CONTROL, LENGTH_END, LOG_APPEND_TIME, BatchHeader

__all__ = ["Fact", "Facts"]

Fact: TypeAlias = "str | int | float | bool | list[Fact] | dict[str, Fact] | None"

LEFT_OUT: Final = frozenset(
    {
        *("host", "port", "rack", "brokers", "node_endpoints", "endpoints"),  # where brokers are
        *("error_message", "batch_index_error_message", "status_message"),
        "acknowledge_error_message",  # texts
        *("throttle_time_ms", "finalized_features_epoch", "broker_epoch"),  # random
        *("log_dir", "total_bytes", "usable_bytes"),  # disks
    }
)
NODES: Final = frozenset(
    {
        *("node_id", "leader_id", "controller_id", "broker_id", "preferred_read_replica"),
        *("replica_nodes", "isr_nodes", "offline_replicas", "replicas", "isr"),
        *("adding_replicas", "removing_replicas", "eligible_leader_replicas", "last_known_elr"),
    }
)
IDS: Final = {
    **dict.fromkeys(("member_id", "leader"), "member"),  # JoinGroup's leader is a member id
    "producer_id": "producer",
    "session_id": "session",
    "cluster_id": "cluster",
    **dict.fromkeys(("salt", "server_nonce", "auth_bytes"), "secret"),
}
TIMES: Final = frozenset(
    {"log_append_time_ms", "transaction_start_time_ms", "last_timestamp", "commit_timestamp"}
)
"""Instants of the broker's own clock."""

NAMES: Final = (
    *("name", "topic", "topic_name", "resource_name", "group_id", "group", "transactional_id"),
    *("partition_index", "partition", "index", "api_key", "key", "group_instance_id", "user"),
    *("mechanism", "entity_name", "broker_id", "config_name", "member_id", "topic_id"),
    "producer_id",
)
"""Fields that distinguish the items of a list, the most specific first."""


class Facts:
    """Converts the responses of one broker to facts, in order.

    Args:
        blank: True to replace all ids by "#", which gives lists a stable order.
    """

    def __init__(self, *, blank: bool = False) -> None:
        self._blank = blank
        self._seen: dict[str, dict[object, str]] = {}

    def of(self, value: object, field: str = "") -> Fact:
        """The facts of a value; `field` is the name of its field."""
        if isinstance(value, Struct):
            names = [name for name in value.__slots__ if name not in LEFT_OUT]
            return {name: self.of(getattr(value, name), name) for name in names}
        if isinstance(value, Mapping):
            return {str(key): self.of(item, str(key)) for key, item in value.items()}
        if isinstance(value, tuple):  # of a scenario's own notes: its order is meant
            return [self.of(item, field) for item in value]
        if isinstance(value, list | set | frozenset):
            return self._of_list(list(value), field)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._of_bytes(bytes(value), field)
        return self._of_scalar(value, field)

    def _of_list(self, items: list[object], field: str) -> Fact:
        ordered = sorted(items, key=lambda item: repr(Facts(blank=True).of(item, field)))
        name = _telling_name(ordered)
        if name is None:
            return [self.of(item, field) for item in ordered]
        return {str(self.of(getattr(item, name), name)): self.of(item) for item in ordered}

    def _of_bytes(self, data: bytes, field: str) -> Fact:
        if field in IDS:
            return self._numbered(IDS[field], data) if data else "nothing"
        if field == "records":
            return self._of_records(data)
        if len(data) <= 64:
            return repr(data)
        return f"{len(data)} bytes, sha1 {hashlib.sha1(data).hexdigest()[:8]}"

    def _of_scalar(self, value: object, field: str) -> Fact:
        if isinstance(value, UUID):
            return self._numbered("uuid", value) if value.int else "no uuid"
        if isinstance(value, int) and not isinstance(value, bool):
            if field in NODES:
                return "a node" if value >= 0 else int(value)
            if field in TIMES:
                return "a time" if value >= 0 else int(value)
            if field in IDS:
                return (
                    self._numbered(IDS[field], value)
                    if value > 0 or (value == 0 and IDS[field] == "producer")
                    else int(value)
                )
            return int(value)
        if isinstance(value, str):
            return self._numbered(IDS[field], value) if value and field in IDS else value
        if value is None or isinstance(value, bool | float):
            return value
        return repr(value)

    def _numbered(self, kind: str, value: object) -> str:
        if self._blank:
            return f"{kind} #"
        seen = self._seen.setdefault(kind, {})
        return seen.setdefault(value, f"{kind} #{len(seen) + 1}")

    def _of_records(self, data: bytes) -> Fact:
        """Every batch's header, its records by their digest; what follows them by its size."""
        batches: list[Fact] = []
        at = 0
        while len(data) - at >= 61 and data[at + 16] == 2:
            header = BatchHeader.read(data, at)
            if at + header.size > len(data):
                break
            batches.append(self._of_batch(header, data[at + 61 : at + header.size]))
            at += header.size
        if at < len(data):
            offset = int.from_bytes(data[at : at + 8], "big")
            batches.append(f"{len(data) - at} bytes more, from offset {offset}")
        return batches

    def _of_batch(self, header: BatchHeader, records: bytes) -> Fact:
        fields = dict(zip(header._fields, header, strict=True))
        del fields["crc"], fields["batch_length"]
        facts: dict[str, Fact] = {name: self.of(item, name) for name, item in fields.items()}
        if header.attributes & (CONTROL | LOG_APPEND_TIME):
            facts["max_timestamp"] = "a time"
            if header.attributes & CONTROL:
                facts["base_timestamp"] = "a time"
                # Key: version, type (0 abort, 1 commit); the value holds a coordinator's epoch.
                facts["records"] = f"marker {records[5:9].hex()}"
                return facts
        facts["records"] = self._of_bytes(records, "")
        facts["size"] = LENGTH_END + header.batch_length
        return facts


def _telling_name(items: list[object]) -> str | None:
    """The field that identifies each item of a list of structs, if there is one."""
    if not items or not isinstance(items[0], Struct):
        return None
    for name in NAMES:
        values = [getattr(item, name, None) for item in items]
        if None not in values and "" not in values and len(set(values)) == len(values):
            return name
    return None
