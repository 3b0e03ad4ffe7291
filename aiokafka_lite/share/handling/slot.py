"""The slots of `run`, and the tally of their records: native if compiled."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.share.handling._slot_python import Slot, Tally
else:
    _picked = pick(
        "aiokafka_lite.share.handling._slot_native", "aiokafka_lite.share.handling._slot_python"
    )
    Slot = _picked.Slot
    Tally = _picked.Tally

__all__ = ["Slot", "Tally"]
