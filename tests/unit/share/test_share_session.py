"""Epochs and partitions of a share session."""

from uuid import UUID

from aiokafka_lite.share.share_session import LAST_EPOCH, PartitionId, ShareSession

ONE, TWO = PartitionId(UUID(int=1), 0), PartitionId(UUID(int=1), 1)


def test_a_session_opens_with_epoch_0_and_names_changes_only() -> None:
    session = ShareSession()
    session.wanted = frozenset({ONE, TWO})
    assert not session.open
    assert session.next_fetch() == (0, {ONE, TWO}, frozenset())
    session.on_success()
    assert session.open
    assert session.next_fetch() == (1, frozenset(), frozenset())
    session.on_success()
    session.wanted = frozenset({TWO})
    assert session.next_fetch() == (2, frozenset(), {ONE})
    session.on_success()
    session.wanted = frozenset({ONE, TWO})
    assert session.next_fetch() == (3, {ONE}, frozenset())


def test_an_acknowledgement_takes_an_epoch_and_changes_no_partition() -> None:
    session = ShareSession()
    session.wanted = frozenset({ONE})
    session.next_fetch()
    session.on_success()
    session.wanted = frozenset({ONE, TWO})
    assert session.epoch == 1
    session.on_success()  # of an acknowledgement
    assert session.next_fetch() == (2, {TWO}, frozenset())


def test_after_a_reset_a_new_session_names_everything() -> None:
    session = ShareSession()
    session.wanted = frozenset({ONE})
    session.next_fetch()
    session.on_success()
    session.next_fetch()
    session.reset()
    assert session.next_fetch() == (0, {ONE}, frozenset())


def test_the_epoch_after_the_largest_is_1() -> None:
    session = ShareSession()
    session.next_fetch()
    session.on_success()
    session._epoch = LAST_EPOCH
    session.on_success()
    assert session.epoch == 1
