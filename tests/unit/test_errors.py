"""The errors: Java's table of codes, aiokafka's names, and copies of exceptions."""

import copy
import pickle
from pathlib import Path

import pytest

from aiokafka_lite import errors
from aiokafka_lite.errors.table import AMBIGUOUS, CODES

JAVA = [
    line.split("\t")
    for line in (Path(__file__).parent / "kafka_errors.tsv").read_text().splitlines()
    if not line.startswith("#")
]
EXCEPTIONS = sorted(
    {
        value
        for name in errors.__all__
        if isinstance(value := getattr(errors, name), type)
        and issubclass(value, Exception)
        and not (issubclass(value, errors.BrokerResponseError) and not hasattr(value, "errno"))
    },
    key=lambda cls: cls.__name__,
)


@pytest.mark.parametrize("row", JAVA, ids=lambda row: row[1])
def test_codes_match_java(row: list[str]) -> None:
    code, name, _, retriable, invalid_metadata, message = row
    cls = errors.for_code(int(code))
    assert cls.errno == int(code)
    assert cls.message == name
    assert cls.retriable is (retriable == "1")
    assert cls.invalid_metadata is (invalid_metadata == "1")
    if message:
        assert cls.description == " ".join(message.split())


def test_codes_are_complete_and_exist_in_java() -> None:
    assert sorted(errors.kafka_errors) == sorted(int(row[0]) for row in JAVA) == sorted(CODES)


@pytest.mark.parametrize("code", [-2, 137, 32767])
def test_unknown_code_gives_the_unknown_error(code: int) -> None:
    assert errors.for_code(code) is errors.UnknownError


def test_duplicate_code_raises() -> None:
    with pytest.raises(TypeError, match="already belongs to OffsetOutOfRangeError"):
        type("Second", (errors.BrokerResponseError,), {}, code=1)


def test_subclass_keeps_the_code_of_its_parent() -> None:
    class Detailed(errors.UnknownTopicOrPartitionError):
        pass

    assert Detailed.errno == 3
    assert Detailed.retriable
    assert errors.for_code(3) is errors.UnknownTopicOrPartitionError


def test_ambiguous_errors() -> None:
    ambiguous = {code for code, (_, traits) in CODES.items() if traits & AMBIGUOUS}
    assert ambiguous == {-1, 3, 6, 7, 13, 15, 16, 20, 56}
    assert errors.KafkaConnectionError.ambiguous
    assert errors.DeliveryTimeoutError.ambiguous
    assert not errors.NotEnoughReplicasError.ambiguous


def test_errors_that_end_a_consumer() -> None:
    assert errors.FencedInstanceIdError.fatal_to_consumer
    assert not errors.ProducerFenced.fatal_to_consumer


@pytest.mark.parametrize("cls", EXCEPTIONS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("args", [(), ("a message",), ("two", 3)], ids=len)
def test_errors_can_be_copied_and_pickled(cls: type[Exception], args: tuple[object, ...]) -> None:
    error = cls(*args)
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is cls
        assert twin.args == error.args
        assert str(twin) == str(error)


def test_copies_keep_cause_and_attributes() -> None:
    error = errors.KafkaTimeoutError("too late")
    error.__cause__ = OSError("away")
    error.ambiguous = True
    try:
        raise error
    except errors.KafkaError:
        pass
    twin = copy.copy(error)
    assert twin.__cause__ is error.__cause__
    assert twin.ambiguous
    assert twin.__traceback__ is None


def test_copies_do_not_hide_the_context_that_they_are_raised_in() -> None:
    error = errors.KafkaTimeoutError("too late")
    assert not copy.copy(error).__suppress_context__
    try:
        raise error from None
    except errors.KafkaError:
        pass
    assert copy.copy(error).__suppress_context__


def test_text_of_errors() -> None:
    assert str(errors.KafkaTimeoutError()) == "KafkaTimeoutError"
    assert str(errors.KafkaTimeoutError("too late")) == "KafkaTimeoutError: too late"
    assert str(errors.RequestTimedOutError()) == "[Error 7] RequestTimedOutError"
    assert str(errors.RequestTimedOutError("x")) == "[Error 7] RequestTimedOutError: x"
    assert "max_poll_interval_ms" in str(errors.CommitFailedError())
    assert str(errors.CommitFailedError("mine")) == "CommitFailedError: mine"


def test_text_of_a_broker_cannot_forge_lines_of_a_log() -> None:
    error = errors.InvalidConfigurationError("no\nERROR forged \x1b[2J é")
    assert str(error) == r"[Error 40] InvalidConfigurationError: no\nERROR forged \x1b[2J é"
    assert error.args == ("no\nERROR forged \x1b[2J é",)


def test_configuration_errors_are_value_errors() -> None:
    assert issubclass(errors.KafkaConfigurationError, ValueError)
    assert issubclass(errors.IllegalArgumentError, ValueError)


def test_all_credential_errors_share_a_base_class() -> None:
    for code in (33, 34, 58):
        assert issubclass(errors.for_code(code), errors.AuthenticationFailedError)
    for code in (29, 30, 31, 53, 65):
        assert issubclass(errors.for_code(code), errors.AuthorizationError)


def test_every_aiokafka_error_exists_with_the_same_bases() -> None:
    theirs = pytest.importorskip("aiokafka.errors")
    for name in dir(theirs):
        cls = getattr(theirs, name)
        if not (isinstance(cls, type) and issubclass(cls, Exception)):
            continue
        ours = getattr(errors, name)
        parents = {parent.__name__ for parent in cls.__mro__}
        assert parents <= {parent.__name__ for parent in ours.__mro__}, name
        if isinstance(getattr(cls, "errno", None), int):
            assert ours.errno == cls.errno
    assert set(theirs.__all__) <= set(errors.__all__)
