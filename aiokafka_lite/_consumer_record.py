"""ConsumerRecord, one record as the consumer returns it: native if compiled."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite._consumer_record_python import ConsumerRecord
else:
    ConsumerRecord = pick(
        "aiokafka_lite._consumer_record_native", "aiokafka_lite._consumer_record_python"
    ).ConsumerRecord

__all__ = ["ConsumerRecord"]
