"""Generates requests that the schema allows but no client would send.

Every field of a version gets a value of its type: sometimes one from the same-named field of an
earlier answer (so that requests refer to what others began), sometimes a plain one, and sometimes
an absurd one: the smallest and largest numbers, invalid names, empty lists, the same element twice.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from random import Random
from types import NoneType
from typing import Any, Final, NamedTuple
from uuid import UUID

from aiokafka_lite.protocol.message import Request, Struct
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression

__all__ = ["RequestMaker"]

NAMES: Final = ("orders", "payments", "compact", "nobody", "g1", "g2", "t1", "t2", "0", "1")
ODD_NAMES: Final = (
    *("", ".", "..", "a/b", "x" * 249, "x" * 250, "x" * 32_000, "naïve", "\0", "*", "a*", "\u2028"),
    *("__consumer_offsets", "__transaction_state", "__cluster_metadata", "(", "[a-", "(a+)+$"),
    *("range", "uniform", "roundrobin", "consumer", "Stable", "Ongoing", "User:*", "User:alice"),
    *("127.0.0.1", "user", "client-id", "ip", "cleanup.policy", "retention.ms", "segment.bytes"),
    *("compact", "-1", "9" * 40, "1e9", "metadata.version", "transaction.version", "SCRAM-SHA-256"),
    *("group.version", "kraft.version", "consumer.session.timeout.ms", "producer_byte_rate"),
    *("compression.type", "zstd", "message.timestamp.type", "LogAppendTime", "max.message.bytes"),
    *("request_percentage", "PLAIN", "true", "delete,compact", "classic", "INFO", "root"),
)
FITTING: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("group_id", "group", "groups", "groups_names"), ("g1", "g1", "g2")),
    **dict.fromkeys(("transactional_id", "transactional_ids"), ("t1", "t1", "t2")),
    "key": ("g1", "t1"),
    "coordinator_keys": ("g1", "t1"),
    "protocol_type": ("consumer",),
    "protocol_name": ("range",),
    "member_id": ("", "m1", "m2"),
    "group_instance_id": ("i1", "i2"),
    "instance_id": ("i1", "i2"),
    "server_assignor": ("range", "uniform"),
    "subscribed_topic_names": ("orders", "payments"),
    "subscribed_topic_regex": ("o.*", ".*"),
    **dict.fromkeys(("name", "topic", "topic_name"), ("orders", "payments", "compact")),
    "JoinGroupRequestProtocol.name": ("range",),
    "ConsumerGroupHeartbeatRequest.topic_partitions": (None, [], []),
    "member_epoch": (0, 0, -1, -2, 1, 2, 3),
    "generation_id": (1, 1, 2, 3, -1),
    "generation_id_or_member_epoch": (-1, 0, 1, 2),
    "session_timeout_ms": (6000, 10_000, 45_000),
    "rebalance_timeout_ms": (300, 5000, 60_000),
    "transaction_timeout_ms": (1000, 60_000),
    "max_wait_ms": (0, 500, 500),
    "min_bytes": (1, 1000, 10**6),
    "max_bytes": (1, 500, 10**6),
    "partition_max_bytes": (1, 500, 10**6),
    "current_leader_epoch": (-1, -1, 0, 1),
    "timestamp": (-1, -2, -3, -4, -5, -6, 5),
    "isolation_level": (0, 1),
    "replica_id": (-1, -1, -1, 1),
    "session_epoch": (0, 0, 1, 2, 3, -1),
    "share_session_epoch": (0, 0, 0, 1, 1, 2, 3, -1),
    "share_acquire_mode": (0, 1),
    "max_records": (1, 10, 500),
    "batch_size": (1, 10, 500),
    "first_offset": (0, 0, 1, 2, 3),
    "last_offset": (0, 1, 2, 3, 5),
    "acknowledge_types": (0, 1, 2, 3, 4),
    "acks": (-1, 1, 0),
    "timeout_ms": (0, 1000, 30_000),
    "num_partitions": (-1, 1, 3),
    "replication_factor": (-1, 1, 3),
    "producer_id": (-1,),
    "producer_epoch": (0, -1, 1),
    "base_sequence": (-1, 0, 1, 2, 3),
}
"""What sane clients put into fields, by their names."""
WIDTHS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_FIELD: Final = re.compile(r"^    (\w+): (.+?)\.(?: |$)", re.MULTILINE | re.DOTALL)
_VERSIONS: Final = re.compile(r"versions (\d+)(?:-(\d+))?")
_NULLABLE: Final = re.compile(r"nullable(?: in (\d+)(?:-(\d+))?)?")
INTEGERS: Final = (-1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 16, 100)
POOL: Final = 30  # values kept of each field's name


class _Field(NamedTuple):
    path: str
    name: str
    kind: str  # of one element
    is_list: bool
    versions: range
    nullable: range
    struct: type[Struct] | None


@cache
def _fields(message: type[Struct]) -> tuple[_Field, ...]:
    """What the generated docstring and annotations say about a class."""
    hints = typing.get_type_hints(message.__init__)
    fields = []
    for name, told in _FIELD.findall(inspect.getdoc(message) or ""):
        if name not in message.__slots__:
            continue
        told = " ".join(told.split())
        kind = told.split(",")[0]
        fields.append(
            _Field(
                f"{message.__name__}.{name}",
                name,
                kind.removeprefix("[]"),
                kind.startswith("[]"),
                _range(_VERSIONS.search(told), everywhere=True),
                _range(_NULLABLE.search(told), everywhere="nullable" in told),
                _struct_in(hints[name]),
            )
        )
    if {field.name for field in fields} != set(message.__slots__) - {"unknown_tagged_fields"}:
        raise LookupError(f"{message.__name__} does not tell all its fields")
    return tuple(fields)


def _range(told: re.Match[str] | None, *, everywhere: bool) -> range:
    if told is None or told[1] is None:
        return range(2**15) if everywhere else range(0)
    return range(int(told[1]), int(told[2] or told[1]) + 1)


def _struct_in(hint: Any) -> type[Struct] | None:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return hint
    for part in typing.get_args(hint):
        if part is not NoneType and (found := _struct_in(part)):
            return found
    return None


class RequestMaker:
    """Generates requests, partly from the values of earlier answers.

    Args:
        chance: Source of randomness.
        oddity: How often a value is absurd, from 0 to 1.
        fitting: Values for fields of a name, in place of those of `FITTING`.
    """

    def __init__(
        self, chance: Random, oddity: float, fitting: Mapping[str, tuple[Any, ...]] | None = None
    ) -> None:
        self._fitting = {**FITTING, **(fitting or {})}
        self._chance = chance
        self._oddity = oddity
        self._seen: dict[str, list[Any]] = defaultdict(list)

    def request(self, message: type[Request], version: int) -> Request:
        made = self._struct(message, version, depth=0)
        if not isinstance(made, Request):
            raise TypeError(f"{message.__name__} is no request")
        return made

    def learn(self, answer: Struct) -> None:
        """Keep the values of an answer for same-named fields."""
        for name in answer.__slots__:
            value = getattr(answer, name)
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, Struct):
                    self.learn(one)
                elif isinstance(one, int | str | UUID | bytes) and not isinstance(one, bool):
                    kept = self._seen[name]
                    if len(kept) < POOL:
                        kept.append(one)
                    else:
                        kept[self._chance.randrange(POOL)] = one

    def learn_value(self, name: str, *values: Any) -> None:
        """Keep values for fields with this name."""
        self._seen[name] += values

    def _struct(self, message: type[Struct], version: int, depth: int) -> Struct:
        made = message()
        for field in _fields(message):
            if version in field.versions and self._chance.random() > 0.05:  # else its default
                setattr(made, field.name, self._value(field, version, depth))
        return made

    def _value(self, field: _Field, version: int, depth: int) -> Any:
        fitting = self._fitting.get(field.path)
        if fitting is not None and self._chance.random() < 0.7:
            return self._chance.choice(fitting)
        if version in field.nullable and self._chance.random() < 0.2:
            return None
        if not field.is_list:
            return self._one(field, version, depth)
        odd = self._is_odd()
        most = (300 if odd and depth < 2 and field.struct is None else 3) if depth < 4 else 1
        count = self._chance.choice((1, 1, self._chance.randint(0, most)))
        made = [self._one(field, version, depth) for _ in range(count)]
        if made and odd:
            made += made[:1] * self._chance.randint(1, 3)  # the same again
        return made

    def _one(self, field: _Field, version: int, depth: int) -> Any:
        if field.struct is not None:
            return self._struct(field.struct, version, depth + 1)
        match field.kind:
            case "bool":
                return self._chance.random() < 0.5
            case "string":
                return self._string(field.name)
            case "uuid":
                return self._uuid()
            case "bytes":
                return self._bytes(field.name)
            case "records":
                return self._records()
            case "float64":
                return self._chance.choice((0.0, 1.0, -1.0, 0.5, 1e308, float("nan"), 2.0**63))
            case "uint16":
                return self._chance.choice((0, 1, 9092, 65_535))
            case width:
                return self._integer(field.name, WIDTHS[width])

    def _is_odd(self) -> bool:
        return self._chance.random() < self._oddity

    def _integer(self, name: str, bits: int) -> int:
        highest = 2 ** (bits - 1) - 1
        if self._is_odd():
            low, high = -highest - 1, highest
            million = min(10**6, highest)
            return self._chance.choice((low, low + 1, -2, -1, high, high - 1, high // 2, million))
        seen = [value for value in self._seen_as(name, int) if -highest <= value <= highest]
        if seen and self._chance.random() < 0.5:
            return int(self._chance.choice(seen))
        return int(self._chance.choice(self._fitting.get(name, INTEGERS)))

    def _string(self, name: str) -> str:
        if self._is_odd():
            return self._chance.choice(ODD_NAMES)
        seen = self._seen_as(name, str)
        if seen and self._chance.random() < 0.5:
            return str(self._chance.choice(seen))
        return str(self._chance.choice(self._fitting.get(name, NAMES)))

    def _uuid(self) -> UUID:
        seen = self._seen_as("topic_id", UUID)
        if not seen or self._is_odd():
            return UUID(int=self._chance.choice((0, 1, 2**128 - 1)))
        found = self._chance.choice(seen)
        return found if isinstance(found, UUID) else UUID(int=0)

    def _bytes(self, name: str) -> bytes:
        seen = self._seen_as(name, bytes)
        if seen and self._chance.random() < 0.4:
            return bytes(self._chance.choice(seen))
        size = self._chance.choice((0, 1, 7, 60, 3000))
        return self._chance.choice((bytes(size), self._chance.randbytes(size), b"\0\1\0\0\0\1\0\6"))

    def _seen_as(self, name: str, kind: type) -> list[Any]:
        return [value for value in self._seen[name] if isinstance(value, kind)]

    def _records(self) -> bytes:
        chance = self._chance
        made = b""
        for _ in range(chance.choice((0, 1, 1, 1, 2, 5))):
            builder = BatchBuilder(2**20)
            for _ in range(chance.randint(1, 4)):
                stamp = chance.choice((-1, 0, 5, 1_700_000_000_000, 2**40))
                key, value = chance.choice((None, b"k", b"l")), chance.choice((None, b"v"))
                builder.append(stamp, key, value, ())
            codec = chance.choice((Compression.NONE, Compression.GZIP))
            seal: dict[str, Any] = {}
            if chance.random() < 0.5:
                seal["producer_id"] = self._integer("producer_id", 64)
                seal["producer_epoch"] = self._integer("producer_epoch", 16)
                seal["base_sequence"] = self._integer("base_sequence", 32)
                seal["transactional"] = chance.random() < 0.4
            made += bytes(builder.seal(codec, **seal))
        if self._is_odd() and made:
            damaged = bytearray(made)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            made = bytes(damaged[: chance.randint(1, len(damaged))])
        return made
