"""Producer ids, each assigned once in the life of a cluster."""

from typing import Final

from aiokafka_lite.testing.storage.journal import Journal

__all__ = ["ProducerIds"]

KIND: Final = "producer-id"  # in the journal
BLOCK: Final = 1000  # ids per journal entry, so that not every id is stored


class ProducerIds:
    """Assigns ids from 0 on; continues with the next block after a restart, as in Kafka.

    Args:
        journal: Stores the blocks in use.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = max((int(value["end"]) for _, value in journal.entries(KIND)), default=0)

    def take(self) -> int:
        """Return an unused id."""
        producer_id = self._next
        if producer_id % BLOCK == 0:  # if this fails, no id of the block is assigned
            self._journal.note(KIND, ("end",), {"end": producer_id + BLOCK})
        self._next += 1
        return producer_id
