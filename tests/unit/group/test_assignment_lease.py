"""The lease of a read: what ends it, and for which partitions."""

import copy
import gc
import pickle

from aiokafka_lite.group.assignment_lease import AssignmentLease, ConsumerGroupMetadata, LeaseBook
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.structs import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))
MEMBER = GroupMetadata("kitchen", 3, "me", None)


def test_a_new_lease_holds_for_every_partition() -> None:
    lease = LeaseBook().renew()
    assert lease.whole
    assert lease.broken_for([A, B]) is None


def test_a_partition_given_up_breaks_the_lease_for_that_partition() -> None:
    book = LeaseBook()
    lease = book.renew()
    book.on_given_up([A])
    assert lease.broken_for([B, C]) is None
    error = lease.broken_for([A, B])
    assert error is not None
    assert "orders-0" in str(error)
    assert "orders-1" not in str(error)


def test_a_position_read_again_breaks_the_lease() -> None:
    book = LeaseBook()
    lease = book.renew()
    book.on_reread([B])
    assert lease.broken_for([A]) is None
    assert "fetched again" in str(lease.broken_for([B]))


def test_a_broken_lease_never_heals_and_the_next_read_gets_a_new_one() -> None:
    book = LeaseBook()
    first = book.renew()
    book.on_given_up([A])
    second = book.renew()
    assert second is not first
    assert second.broken_for([A]) is None
    assert first.broken_for([A]) is not None


def test_a_whole_lease_is_shared_by_the_reads() -> None:
    book = LeaseBook()
    assert book.renew() is book.renew() is book.current


def test_every_lease_that_is_held_is_broken() -> None:
    book = LeaseBook()
    first = book.renew()
    book.on_given_up([A])
    second = book.renew()
    book.on_given_up([B])
    assert first.broken_for([B]) is not None
    assert second.broken_for([B]) is not None
    assert second.broken_for([A]) is None


def test_an_unreferenced_lease_is_forgotten() -> None:
    book = LeaseBook()
    for _ in range(100):
        book.on_given_up([A])
        book.renew()
    gc.collect()
    assert len(book._leases) == 1


def test_leased_metadata_equals_and_unpacks_as_the_plain_one() -> None:
    leased = ConsumerGroupMetadata.leased(MEMBER, AssignmentLease())
    assert leased == MEMBER
    assert tuple(leased) == ("kitchen", 3, "me", None)
    assert leased.generation == 3


def test_a_copy_keeps_the_lease_and_a_pickle_drops_it() -> None:
    lease = AssignmentLease()
    leased = ConsumerGroupMetadata.leased(MEMBER, lease)
    assert copy.copy(leased).lease is lease
    assert copy.deepcopy(leased).lease is lease
    restored = pickle.loads(pickle.dumps(leased))
    assert restored == MEMBER
    assert type(restored) is GroupMetadata
