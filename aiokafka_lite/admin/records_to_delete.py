"""`RecordsToDelete`: up to which offset to delete a partition's records."""

from __future__ import annotations

from aiokafka_lite._arguments import whole

__all__ = ["RecordsToDelete"]


class RecordsToDelete:
    """Deletes the records of a partition before an offset.

    Args:
        before_offset: The first offset to keep; -1: the high watermark, that is, delete all.

    Raises:
        IllegalArgumentError: `before_offset` is below -1.
        TypeError: It is not an int.
    """

    def __init__(self, before_offset: int) -> None:
        self.before_offset = whole("before_offset", before_offset, least=-1)

    def __repr__(self) -> str:
        return f"RecordsToDelete({self.before_offset})"
