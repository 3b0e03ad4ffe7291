"""Converts columns to Arrow's views: writes 16 bytes per field, and does not copy the data."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite.record.columnar._arrow_views_python import Views

if TYPE_CHECKING:
    from aiokafka_lite.record.columnar._arrow_views_python import byte_views, known_stamps
else:
    _picked = pick(
        "aiokafka_lite.record.columnar._arrow_views_native",
        "aiokafka_lite.record.columnar._arrow_views_python",
    )
    byte_views = _picked.byte_views
    known_stamps = _picked.known_stamps

__all__ = ["Views", "byte_views", "known_stamps"]
