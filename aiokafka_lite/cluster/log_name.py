"""A client's name in the log, with the attributes (`extra`) of its lines.

A name is a str, so that it is passed on like any other; `log_extra` finds its attributes.
"""

from __future__ import annotations

from typing import Any, Self

from aiokafka_lite.structs import TopicPartition

__all__ = ["LogName", "log_extra"]


class LogName(str):
    """The beginning of each log line of a client.

    Args:
        text: The name.
        client_id: Of the client.
        group: Its group, or None.
        transactional_id: Of a producer, or None.

    Attributes:
        fields: The attributes of each log record.
    """

    fields: dict[str, object]

    def __new__(
        cls,
        text: str,
        *,
        client_id: str,
        group: str | None = None,
        transactional_id: str | None = None,
    ) -> Self:
        self = super().__new__(cls, text)
        self.fields = {"kafka_client_id": client_id}
        if group is not None:
            self.fields["kafka_group"] = group
        if transactional_id is not None:
            self.fields["kafka_transactional_id"] = transactional_id
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def log_extra(
    name: str, tp: TopicPartition | None = None, *, broker: int | None = None
) -> dict[str, object]:
    """Return the attributes of a line that begins with this name.

    Args:
        name: A `LogName`, or any other text, which has no attributes.
        tp: The partition that the line is about, or None.
        broker: Node id of the broker that it is about, or None.
    """
    fields = dict(name.fields) if isinstance(name, LogName) else {}
    if tp is not None:
        fields["kafka_topic"], fields["kafka_partition"] = tp
    if broker is not None:
        fields["kafka_broker"] = broker
    return fields
