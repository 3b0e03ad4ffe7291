"""ConsumerRecord, one record as the consumer returns it, and its type variables."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite._consumer_record_python import K, V

if TYPE_CHECKING:
    from aiokafka_lite._consumer_record_python import ConsumerRecord
else:
    ConsumerRecord = pick(
        "aiokafka_lite._consumer_record_native", "aiokafka_lite._consumer_record_python"
    ).ConsumerRecord

__all__ = ["ConsumerRecord", "K", "V"]
