"""The parts of the consumer that a leader link needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.share.acknowledgement import Failures
from aiokafka_lite.share.acquired_records import Item
from aiokafka_lite.share.leaders.opening import Opening
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.cluster.metadata import LeaderHint

__all__ = ["Claimant", "LeadersOptions", "LinkOptions", "LinkOwner"]


class LinkOptions(Protocol):
    """The consumer's options that a link needs; durations are in seconds."""

    @property
    def group_id(self) -> str: ...
    @property
    def log_name(self) -> str: ...
    @property
    def request_timeout(self) -> float: ...
    @property
    def fetch_max_wait(self) -> float: ...
    @property
    def fetch_min_bytes(self) -> int: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def max_poll_records(self) -> int: ...
    @property
    def record_limit(self) -> bool: ...


class LeadersOptions(LinkOptions, Protocol):
    """The options that all links together need."""

    @property
    def retry_backoff(self) -> Backoff: ...


class Claimant(Protocol):
    """A link, as its owner sees it.

    Attributes:
        claimed: Records that the fetch in flight may acquire.
        fetched_at: Loop time of the last fetch.
    """

    claimed: int
    fetched_at: float

    @property
    def able(self) -> bool:
        """True if it could fetch now."""

    def fetches_any(self, partitions: Collection[TopicPartition]) -> bool:
        """True if it fetches from any of these partitions."""

    def lacks_any(self, partitions: Collection[TopicPartition]) -> bool:
        """True if it fetches from any of these partitions that its session does not contain yet."""


class LinkOwner(Protocol):
    """The consumer that a link works for."""

    @property
    def member_id(self) -> str:
        """The id of the member in its group."""

    @property
    def opening(self) -> Opening:
        """The partitions that a start waits for."""

    def claim(self, link: Claimant) -> tuple[int, bool]:
        """Return how many records the link may acquire now, and True if it should not wait long
        for them, because other leaders are waiting for their turn."""

    def on_items(self, items: Sequence[Item], tp: TopicPartition) -> None:
        """Records were acquired. `begin` follows."""

    def begin(self) -> None:
        """Handle the records that arrived since the last call, if handlers wait for them: at
        once, or soon if a task calls this."""

    def on_fetched(self, size: int, latency: float) -> None:
        """A fetch was answered."""

    def on_fetch_ended(self, link: Claimant) -> None:
        """The link returned its claim, with or without an answer: another link may claim."""

    def on_turn_passed(self) -> None:
        """A link acknowledges without a fetch: meanwhile, other links may claim."""

    def on_lock_timeout(self, seconds: float) -> None:
        """A broker reported how long it locks records."""

    def on_hints(self, hints: Sequence[LeaderHint]) -> None:
        """A broker reported new leaders."""

    def on_stale_metadata(self) -> None:
        """A broker's error means that the metadata is out of date."""

    def on_failure(self, error: KafkaError) -> None:
        """A read must raise this error."""

    def on_acknowledged(self, count: int, failed: bool) -> None:
        """Acknowledgements have a result."""

    def on_unseen_failure(self, tp: TopicPartition, failures: Failures) -> None:
        """Acknowledgements that the application does not await have failed."""

    def on_lost(self, tp: TopicPartition | None, count: int, why: str) -> None:
        """Locks expired before the application acknowledged the records."""
