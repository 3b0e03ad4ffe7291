"""What groups live in: the cluster's time, its topics, its memory and its configurations."""

from collections.abc import Callable, Mapping
from uuid import UUID

from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.storage.journal import Journal
from aiokafka_lite.testing.topics import Topic

__all__ = ["Environment"]


class Environment:
    """Shared by all groups of a cluster.

    Attributes:
        clock: The time, and timers.
        journal: What remembers over a restart.
        topics: The cluster's topics by name.
        new_uuid: Where member ids come from.
        config: The value of a broker configuration that is a number.
    """

    __slots__ = ("clock", "config", "journal", "new_uuid", "topics")

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        topics: Mapping[str, Topic],
        new_uuid: Callable[[], UUID],
        config: Callable[[str], int],
    ) -> None:
        self.clock = clock
        self.journal = journal
        self.topics = topics
        self.new_uuid = new_uuid
        self.config = config
