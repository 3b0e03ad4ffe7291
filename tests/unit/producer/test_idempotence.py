"""Producer ids and sequence numbers: the table of the state machine."""

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.producer.idempotence import ProducerIdentity, Sequences, checked_stamp
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried


def known() -> ProducerIdentity:
    identity = ProducerIdentity(wanted=True)
    identity.on_assigned(7, 0)
    return identity


def test_an_unwanted_id_is_settled_and_numbers_nothing() -> None:
    identity = ProducerIdentity(wanted=False)
    assert identity.settled
    assert not identity.numbering
    identity.on_assigned(7, 0)
    assert not identity.numbering


def test_a_wanted_id_is_waited_for() -> None:
    identity = ProducerIdentity(wanted=True)
    assert not identity.settled
    identity.on_assigned(7, 3)
    assert (identity.settled, identity.numbering) == (True, True)
    assert (identity.producer_id, identity.epoch) == (7, 3)
    identity.renew()
    assert not identity.settled
    identity.on_assigned(8, 0)
    assert identity.producer_id == 8


def test_a_cluster_without_ids_is_done_without() -> None:
    identity = ProducerIdentity(wanted=True)
    identity.on_unavailable()
    assert identity.settled
    assert not identity.numbering


def test_numbers_count_records_and_wrap_as_java_s_do() -> None:
    sequences = Sequences(known())
    assert [sequences.take(5), sequences.take(1), sequences.take(2)] == [0, 5, 6]
    sequences.next_sequence = 2**31 - 2
    assert sequences.take(5) == 2**31 - 2
    assert sequences.take(1) == 3


def test_a_refusal_begins_a_new_epoch() -> None:
    sequences = Sequences(known())
    sequences.take(5)
    sequences.on_stored((7, 0), 0)
    assert sequences.confirmed
    assert not sequences.stale
    sequences.on_refused()
    assert sequences.stale
    sequences.restart()
    assert sequences.stamp == (7, 1)
    assert sequences.take(1) == 0
    assert not sequences.stale
    assert not sequences.confirmed, "one batch at a time again"
    sequences.on_stored((7, 0), 0)
    assert not sequences.confirmed, "that was of the epoch before"


@pytest.mark.parametrize("behind", [10, 2**31 - 2])
def test_only_a_number_taken_since_a_doubt_ends_it(behind: int) -> None:
    sequences = Sequences(known())
    sequences.next_sequence = behind
    before = sequences.take(5)
    sequences.on_stored((7, 0), before)
    sequences.doubt()
    assert not sequences.confirmed
    sequences.on_stored((7, 0), before)
    assert not sequences.confirmed, "that may have been the partition before"
    since = sequences.take(1)
    sequences.on_stored((7, 0), since)
    assert sequences.confirmed


def test_restarting_without_a_reason_changes_nothing() -> None:
    sequences = Sequences(known())
    sequences.take(5)
    sequences.restart()
    assert sequences.take(1) == 5


def test_a_new_producer_id_is_requested_when_epochs_run_out() -> None:
    identity = known()
    sequences = Sequences(identity)
    sequences.stamp = (sequences.producer_id, 2**15 - 1)
    sequences.on_refused()
    assert not identity.settled
    sequences.restart()
    assert sequences.stale, "not before the id is there"
    identity.on_assigned(9, 0)
    sequences.restart()
    assert sequences.stamp == (9, 0)
    assert sequences.take(3) == 0


def test_a_renewed_producer_id_restarts_every_sequence() -> None:
    identity = known()
    one, other = Sequences(identity), Sequences(identity)
    other.take(4)
    identity.renew()
    assert not one.stale
    identity.on_assigned(9, 2)
    assert one.stale
    assert other.stale
    other.restart()
    assert other.stamp == (9, 2)
    assert other.take(1) == 0


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1), (-(2**63), -(2**15))])
def test_a_negative_id_or_epoch_is_refused(producer_id: int, epoch: int) -> None:
    with pytest.raises(KafkaProtocolError, match="invalid producer id"):
        checked_stamp(producer_id, epoch)
    assert checked_stamp(0, 0) == (0, 0)


@pytest.mark.parametrize("transactional_id", [None, "teller"])
@pytest.mark.parametrize(("field", "value"), [("producer_id", -1), ("producer_epoch", -2)])
async def test_no_batch_is_sent_with_an_impossible_producer_id(
    transactional_id: str | None, field: str, value: int
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:

        def edit(response: InitProducerIdResponse) -> None:
            setattr(response, field, value)

        fault = cluster.control(ApiKey.INIT_PRODUCER_ID, times=2, after_handling=True, edit=edit)
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=transactional_id,
            retry_backoff_ms=1,
        )
        async with producer:
            if transactional_id is None:
                await producer.send_and_wait("orders", b"value")
            else:
                async with producer.transaction():
                    await producer.send_and_wait("orders", b"value")
            identity = producer._sender._identity
            assert identity.numbering
            assert (identity.producer_id >= 0, identity.epoch >= 0) == (True, True)
        assert fault.hits == 2
        assert [record.value for record in cluster.records("orders")] == [b"value"]
