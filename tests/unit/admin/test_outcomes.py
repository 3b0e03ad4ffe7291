"""The outcomes of a call's items: which stay pending, which fail, and with which error."""

import pytest

from aiokafka_lite.admin.core.item_outcomes import Outcomes, item_error
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.errors import (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    NotControllerError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    UnknownError,
)


def outcomes_of(*items: str) -> Outcomes[str, int]:
    return Outcomes(items, lambda item: f"topic {item!r}")


def test_a_retriable_error_keeps_only_its_item_pending() -> None:
    outcomes = outcomes_of("a", "b", "c", "a")
    asked = outcomes.begin()
    assert asked == ["a", "b", "c"]
    outcomes.on_value("a", 1)
    assert outcomes.on_code("b", NotControllerError.errno)
    assert outcomes.on_code("c", InvalidTopicError.errno, "too long")
    assert isinstance(outcomes.end(asked), NotControllerError)
    assert outcomes.pending == ["b"]
    assert not outcomes.was_interrupted("b")

    asked = outcomes.begin()
    assert asked == ["b"]
    assert not outcomes.on_code("b", 0)
    outcomes.on_value("b", 2)
    assert outcomes.end(asked) is None
    results = outcomes.results()
    assert list(results) == ["a", "b", "c"]
    assert results.valid() == {"a": 1, "b": 2}
    assert str(results["c"]) == "[Error 17] InvalidTopicError: topic 'c': too long"


def test_an_item_that_the_response_leaves_out_fails() -> None:
    outcomes = outcomes_of("a", "b")
    asked = outcomes.begin()
    outcomes.on_value("a", 1)
    assert outcomes.end(asked) is None
    with pytest.raises(KafkaProtocolError, match="topic 'b': the response omits it"):
        outcomes.results().value("b")


def test_items_that_were_not_requested_are_ignored() -> None:
    outcomes = outcomes_of("a")
    asked = outcomes.begin()
    outcomes.on_value("other", 1)
    outcomes.on_value("a", 1)
    outcomes.on_code("a", 17)
    assert outcomes.end(asked) is None
    assert dict(outcomes.results()) == {"a": 1}


def test_a_failure_without_any_answer_is_raised() -> None:
    outcomes = outcomes_of("a", "b")
    outcomes.begin()
    outcomes.on_failure(["a", "b"], KafkaConnectionError("gone"))
    assert outcomes.pending == ["a", "b"]
    outcomes.fail_pending(KafkaTimeoutError("timed out"))
    with pytest.raises(KafkaTimeoutError):
        outcomes.results()


def test_a_lasting_failure_of_a_request_fails_its_items_only() -> None:
    outcomes = outcomes_of("a", "b")
    outcomes.on_failure(["a"], ClusterAuthorizationFailedError("no"))
    assert outcomes.pending == ["b"]
    outcomes.begin()
    outcomes.on_value("b", 2)
    outcomes.end(["b"])
    results = outcomes.results()
    assert isinstance(results["a"], ClusterAuthorizationFailedError)
    assert results["b"] == 2


def test_the_deadline_names_each_items_last_error() -> None:
    outcomes = outcomes_of("a", "b", "c")
    asked = outcomes.begin()
    outcomes.on_code("a", NotControllerError.errno)
    outcomes.on_code("b", ThrottlingQuotaExceededError.errno, "slow down")
    outcomes.on_value("c", 3)
    outcomes.end(asked)
    outcomes.fail_pending(KafkaTimeoutError("CreateTopics timed out"))
    errors = outcomes.results().errors()
    assert isinstance(errors["a"], KafkaTimeoutError)
    assert isinstance(errors["a"].__cause__, NotControllerError)
    assert "topic 'a': timed out: [Error 41]" in str(errors["a"])
    assert isinstance(errors["b"], ThrottlingQuotaExceededError)


def test_a_quota_is_no_reason_once_a_later_request_may_have_been_carried_out() -> None:
    outcomes = outcomes_of("a")
    asked = outcomes.begin()
    outcomes.on_code("a", ThrottlingQuotaExceededError.errno, "slow down")
    outcomes.end(asked)
    outcomes.begin()
    outcomes.fail_pending(KafkaTimeoutError("CreateTopics timed out"))
    error = outcomes.results()["a"]
    assert isinstance(error, KafkaTimeoutError)
    assert isinstance(error.__cause__, ThrottlingQuotaExceededError)


def test_a_request_without_a_response_is_remembered_for_its_items() -> None:
    outcomes = outcomes_of("a", "b")
    outcomes.begin(["a"])
    outcomes.begin(["a", "b"])
    assert outcomes.was_interrupted("a")
    assert not outcomes.was_interrupted("b")


def test_a_call_decides_which_item_errors_it_retries() -> None:
    outcomes: Outcomes[str, int] = Outcomes(["a"], str, retriable=lambda error: False)
    asked = outcomes.begin()
    outcomes.on_code("a", NotControllerError.errno)
    assert outcomes.end(asked) is None
    assert isinstance(outcomes.results()["a"], NotControllerError)


def test_the_text_of_an_item_error() -> None:
    assert str(item_error(36, "topic 'a'")).startswith(
        "[Error 36] TopicAlreadyExistsError: topic 'a': "
    )
    unknown = item_error(9999, "topic 'a'", "new in 9.0")
    assert type(unknown) is UnknownError
    assert "topic 'a': error code 9999: new in 9.0" in str(unknown)


def test_results_raise_the_first_error_and_note_the_others() -> None:
    first, second = TopicAlreadyExistsError("a"), InvalidTopicError("b")
    outcomes: dict[str, int | KafkaError] = {"a": first, "c": 1, "b": second}
    results = Results(outcomes)
    for _ in range(2):  # the stored error stays as it is
        with pytest.raises(TopicAlreadyExistsError) as raised:
            results.raise_for_errors()
        assert raised.value is not first
        assert raised.value.__notes__ == ["also: [Error 17] InvalidTopicError: b"]
    assert results.valid() == {"c": 1}
    assert results.errors() == {"a": first, "b": second}
    assert results.value("c") == 1
    assert Results({"x": 1}).raise_for_errors() == {"x": 1}


def test_a_request_refused_as_a_whole_was_not_carried_out() -> None:
    outcomes = outcomes_of("a")
    outcomes.on_refused(outcomes.begin())
    outcomes.begin()
    assert not outcomes.was_interrupted("a")
    outcomes.on_value("a", 1)
    assert outcomes.end(["a"]) is None
