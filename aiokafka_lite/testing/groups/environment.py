"""The environment of groups: the cluster's clock, topics, journal and configurations."""

from collections.abc import Callable, Mapping
from uuid import UUID

from aiokafka_lite.testing.clock import Clock
from aiokafka_lite.testing.storage.journal import Journal
from aiokafka_lite.testing.topics import Topic

__all__ = ["Environment"]


class Environment:
    """Shared by all groups of a cluster.

    Attributes:
        clock: The clock and its timers.
        journal: Stores state across restarts.
        topics: The cluster's topics by name.
        new_uuid: Returns a UUID for a member id.
        config: Returns the value of an integer broker configuration.
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
