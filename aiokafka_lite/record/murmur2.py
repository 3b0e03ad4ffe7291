"""murmur2, the Java client's hash of record keys: native if compiled."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.record._murmur2_python import murmur2
else:
    murmur2 = pick(
        "aiokafka_lite.record._murmur2_native", "aiokafka_lite.record._murmur2_python"
    ).murmur2

__all__ = ["murmur2"]
