"""Passes acquired records through the application's interceptors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, cast

from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.reading.record_interceptors import Interceptors
from aiokafka_lite.share.acquired_records import Item
from aiokafka_lite.share.records.offset_states import ACCEPT
from aiokafka_lite.share.share_record import ShareRecord

__all__ = ["intercepted", "intercepted_at_delivery"]

log: Final = logging.getLogger(__name__)

Record = ShareRecord[Any, Any]


def intercepted(interceptors: Interceptors, items: Sequence[Item], log_name: str) -> list[Item]:
    """Pass the items of one partition through the interceptors; return those that remain.

    A record that an interceptor leaves out is accepted, as a consumer's position moves past it.
    """
    kept: list[Item] = []
    run: list[Record] = []
    for item in items:
        if isinstance(item, BaseException):
            kept += _intercept(interceptors, run, log_name)
            kept.append(item)
            run = []
        else:
            run.append(item)
    kept += _intercept(interceptors, run, log_name)
    return kept


def intercepted_at_delivery(
    interceptors: Interceptors, records: Sequence[Record], log_name: str
) -> list[Record]:
    """The same for records of several partitions that a read is about to return."""
    kept: list[Item] = []
    for _, run in groupby(records, key=lambda record: (record.topic, record.partition)):
        kept += _intercept(interceptors, list(run), log_name)
    return cast(list[Record], kept)


def _intercept(interceptors: Interceptors, records: list[Record], log_name: str) -> Sequence[Item]:
    if not records:
        return []
    left_out = {id(record): record for record in records}
    kept: list[Item] = []
    for changed in interceptors.on_consume(list(records)):
        record = left_out.pop(id(changed), None)
        if record is None:
            log.error(
                "%s: on_consume() returned a record that it did not receive, and that has "
                "no lock; the records are delivered unchanged",
                log_name,
                extra=log_extra(log_name),
            )
            return records
        kept.append(record)
    for record in left_out.values():
        record._marks.mark_undecided(record.offset, record.offset, ACCEPT)
    return kept
