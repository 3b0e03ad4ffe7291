"""The meaning of each response to a produce request: every code, with and without idempotence."""

import pytest

from aiokafka_lite.errors import (
    DeliveryTimeoutError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    kafka_errors,
)
from aiokafka_lite.producer.produce_errors import Reaction, delivery_timed_out, explain, reaction
from aiokafka_lite.structs import TopicPartition

ORDERS_1 = TopicPartition("orders", 1)
OF_SEQUENCES = {45, 46, 47, 59}
OF_THE_PRODUCER = {31, 35, 49, 53, 90}


@pytest.mark.parametrize("code", sorted(set(kafka_errors) - {0} - OF_SEQUENCES))
@pytest.mark.parametrize("numbered", [True, False])
def test_other_codes_are_retried_or_not_as_the_table_says(code: int, numbered: bool) -> None:
    error = kafka_errors[code]("x")
    expected = Reaction.RETRY if error.retriable else Reaction.FAIL
    if numbered and code in OF_THE_PRODUCER:
        expected = Reaction.FATAL
    assert reaction(error, numbered=numbered, oldest=True, fresh=True, count=1) is expected


@pytest.mark.parametrize(
    ("code", "oldest", "fresh", "expected"),
    [
        (45, True, True, Reaction.RENUMBER),
        (45, False, True, Reaction.RETRY),
        (45, True, False, Reaction.RETRY),
        (59, True, True, Reaction.RENUMBER),
        (59, False, True, Reaction.RETRY),
        (46, True, True, Reaction.STORED),
        (46, False, False, Reaction.STORED),
        (47, True, True, Reaction.RENEW),
        (47, True, False, Reaction.RETRY),
    ],
)
def test_codes_about_numbers(code: int, oldest: bool, fresh: bool, expected: Reaction) -> None:
    error = kafka_errors[code]("x")
    assert reaction(error, numbered=True, oldest=oldest, fresh=fresh, count=1) is expected


@pytest.mark.parametrize("code", sorted(OF_SEQUENCES))
def test_sequence_errors_without_sequence_numbers_are_failures(code: int) -> None:
    error = kafka_errors[code]("x")
    assert reaction(error, numbered=False, oldest=True, fresh=False, count=1) is Reaction.FAIL


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KafkaConnectionError("x"), Reaction.RETRY), (KafkaProtocolError("x"), Reaction.FAIL)],
)
def test_connection_errors_map_to_reactions(error: KafkaError, expected: Reaction) -> None:
    assert reaction(error, numbered=True, oldest=True, fresh=True, count=1) is expected


def test_an_error_names_the_records_and_the_remedy() -> None:
    told = explain(MessageSizeTooLargeError("x"), ORDERS_1, 5000, 3, may_be_stored=False)
    assert type(told) is MessageSizeTooLargeError
    assert "3 record(s), 5000 bytes, to partition 1 of topic 'orders'" in str(told)
    assert "max.message.bytes" in str(told)


@pytest.mark.parametrize(
    ("may_be_stored", "text"), [(True, "MAY have been written"), (False, "were not written")]
)
def test_a_timeout_states_attempts_and_last_error(may_be_stored: bool, text: str) -> None:
    last = NotEnoughReplicasError("too few")
    error = delivery_timed_out(
        ORDERS_1, 3, 120.0, attempts=4, may_be_stored=may_be_stored, last_error=last
    )
    assert type(error) is DeliveryTimeoutError
    assert error.__cause__ is last
    for part in (text, "120 s", "4 attempt(s)", "'orders'", "too few"):
        assert part in str(error)
