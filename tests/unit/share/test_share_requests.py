"""What a ShareFetch response may contain: its offsets are hostile until they are checked."""

from __future__ import annotations

import asyncio
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.messages.share_fetch import AcquiredRecords
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.share.share_requests import (
    MOST_OF_PARTITION,
    MOST_OF_RESPONSE,
    acquired_ranges,
)

pytestmark = pytest.mark.unhurried

LAST = 2**63 - 1
PATIENCE = 30.0


def test_ranges_become_ascending_and_disjoint() -> None:
    acquired = [AcquiredRecords(5, 9, 1), AcquiredRecords(0, 5, 2), AcquiredRecords(0, 5, 2)]
    assert acquired_ranges(acquired) == [(0, 5, 2), (6, 9, 1)]
    assert acquired_ranges([AcquiredRecords(LAST, LAST, 1)]) == [(LAST, LAST, 1)]


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [(-1, 0, 1), (5, 4, 1), (-(2**63), LAST, 1), (0, 0, -1), (0, LAST, 1), (LAST, 0, 1)],
)
def test_impossible_ranges_are_refused(first: int, last: int, count: int) -> None:
    with pytest.raises(KafkaProtocolError, match=f"{first} to {last}"):
        acquired_ranges([AcquiredRecords(first, last, count)])


def test_the_number_of_offsets_is_limited() -> None:
    most = [AcquiredRecords(0, MOST_OF_PARTITION - 1, 1)]
    assert acquired_ranges(most) == [(0, MOST_OF_PARTITION - 1, 1)]
    assert acquired_ranges(most, MOST_OF_RESPONSE)
    more = [AcquiredRecords(0, 9, 1), AcquiredRecords(2**40, 2**40 + MOST_OF_PARTITION, 1)]
    for acquired, limit in ((more, MOST_OF_PARTITION), (most, 5), (most, 0)):
        with pytest.raises(KafkaProtocolError, match="too many offsets"):
            acquired_ranges(acquired, limit)


_offsets = st.one_of(
    st.integers(-(2**63), LAST), st.integers(0, 100), st.integers(LAST - 100, LAST)
)


@given(st.lists(st.tuples(_offsets, _offsets, st.integers(-1, 10)), max_size=20))
def test_ranges_are_within_what_the_broker_acquired(ranges) -> None:
    try:
        found = acquired_ranges([AcquiredRecords(*each) for each in ranges])
    except KafkaProtocolError:
        return
    assert all(0 <= first <= last for first, last, _ in found)
    assert all(one.last < two.first for one, two in pairwise(found))
    assert sum(last + 1 - first for first, last, _ in found) <= MOST_OF_PARTITION
    assert {each.first for each in found} | {each.last for each in found} <= {
        bound + more for first, last, _ in ranges for bound in (first, last) for more in (0, 1)
    }


@pytest.mark.parametrize(
    "acquired",
    [
        [(0, LAST, 1)],
        [(0, 2**40, 1)],
        [(-(2**63), 0, 1)],
        [(7, 3, 1)],
        [(0, 0, -32768)],
    ],
)
async def test_a_read_raises_the_error_of_impossible_offsets(cluster, make, acquired) -> None:
    cluster.produce("jobs", b"0", partition=0)

    def edit(response) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.acquired_records:
                    partition.acquired_records = [AcquiredRecords(*each) for each in acquired]

    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        fault = cluster.control(ApiKey.SHARE_FETCH, times=None, after_handling=True, edit=edit)
        tracemalloc.start()
        try:
            with pytest.raises(KafkaProtocolError, match="The broker acquired"):
                await consumer.getone()
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()
        fault.remove()
        record = await consumer.getone()
        assert (record.value, record.delivery_count) >= (b"0", 2)
        assert await record.accept() is None


async def test_offsets_far_apart_take_little_memory(cluster, make) -> None:
    """The broker acquires offsets that it has no records of: they are released."""
    cluster.produce("jobs", b"0", partition=0)
    extra = [AcquiredRecords(number * 2**32, number * 2**32, 1) for number in range(1, 1000)]
    extra.append(AcquiredRecords(LAST, LAST, 1))

    def edit(response) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.acquired_records:
                    partition.acquired_records += extra

    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        cluster.control(ApiKey.SHARE_FETCH, after_handling=True, edit=edit)
        tracemalloc.start()
        try:
            record = await consumer.getone()
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()
        assert record.value == b"0"
