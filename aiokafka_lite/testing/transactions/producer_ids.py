"""Producer ids, each given once in the life of a cluster."""

from typing import Final

from aiokafka_lite.testing.storage.journal import Journal

__all__ = ["ProducerIds"]

KIND: Final = "producer-id"  # in the journal
BLOCK: Final = 1000  # ids that are noted at once, so that not every one is written down


class ProducerIds:
    """Counts from 0; after a restart it goes on with the next block, as Kafka's brokers do.

    Args:
        journal: Remembers which blocks were begun.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = max((int(value["end"]) for _, value in journal.entries(KIND)), default=0)

    def take(self) -> int:
        """An id that no producer has had."""
        producer_id = self._next
        self._next += 1
        if producer_id % BLOCK == 0:
            self._journal.note(KIND, ("end",), {"end": producer_id + BLOCK})
        return producer_id
