"""Marks of acquired records, and the awaitable that each mark returns: native if compiled."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.share.records._record_marks_python import Acknowledgement, Marks, OutcomeCore
else:
    _picked = pick(
        "aiokafka_lite.share.records._record_marks_native",
        "aiokafka_lite.share.records._record_marks_python",
    )
    Acknowledgement = _picked.Acknowledgement
    Marks = _picked.Marks
    OutcomeCore = _picked.OutcomeCore

__all__ = ["Acknowledgement", "Marks", "OutcomeCore"]
