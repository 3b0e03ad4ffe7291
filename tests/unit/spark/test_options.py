"""A reader's options: precedence, defaults and error messages."""

import logging
import pickle
import re

import pytest

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.data_loss import SourceStateError
from aiokafka_lite.spark.limits import AtEnd, AtOffsets, AtTime, AtTimes
from aiokafka_lite.spark.options import TABLE, ReadOptions, includes_headers
from aiokafka_lite.spark.partition_offsets import EARLIEST, LATEST, SpecificOffsets
from aiokafka_lite.spark.selection import Selection, java_pattern
from aiokafka_lite.structs import TopicPartition

KAFKA = {"kafka.bootstrap.servers": "k:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(**options: str) -> ReadOptions:
    return ReadOptions.parse({**KAFKA, "subscribe": "t", **options}, streaming=False)


def stream(**options: str) -> ReadOptions:
    return ReadOptions.parse({**KAFKA, "subscribe": "t", **options}, streaming=True)


def refused(options: dict[str, str], words: str, *, streaming: bool = False) -> None:
    with pytest.raises(KafkaConfigurationError, match=words):
        ReadOptions.parse(options, streaming=streaming)


# Which topics


def test_one_of_three_strategies() -> None:
    refused(KAFKA, "One of the following options must be specified for Kafka source: subscribe, ")
    both = {**KAFKA, "subscribe": "a", "assign": '{"a":[0]}'}
    refused(both, "Only one of the following options can be specified for Kafka source")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("subscribe", " , ", "No topics to subscribe to"),
        ("subscribePattern", " ", "Pattern to subscribe is empty"),
        ("assign", "a", "No topicpartitions to assign"),
        ("assign", "{}", "No topicpartitions to assign"),
        ("assign", '{"a":1}', "Expected e.g."),
        ("subscribePattern", "(", "regular expression"),
        ("subscribePattern", r"\p{Alpha}", "regular expression"),
        ("subscribePattern", "[a-z&&[^b]]", "regular expression"),
    ],
)
def test_an_empty_strategy_is_an_error(name: str, text: str, words: str) -> None:
    refused({**KAFKA, name: text}, re.escape(words))


def test_topics_are_those_between_the_commas() -> None:
    assert batch(subscribe=" b, a,,b").selection == Selection(topics=("a", "b"))


def test_a_selection_contains_only_existing_partitions() -> None:
    there = {"b": [1, 0], "a": [0]}
    assert Selection(topics=("a", "b")).chosen(there) == [
        TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("b", 1)
    ]  # fmt: skip
    assigned = Selection(partitions=(TopicPartition("b", 1), TopicPartition("b", 7)))
    assert assigned.chosen(there) == [TopicPartition("b", 1)]
    assert assigned.names == ("b",)
    found = Selection(pattern=java_pattern("^b"))
    assert found.names is None
    assert found.chosen({**there, "ab": [0]}) == [TopicPartition("b", 0), TopicPartition("b", 1)]


def test_a_pattern_is_searched_for_as_in_java() -> None:
    assert java_pattern("mid").search("a-mid-b")
    assert not java_pattern("^mid$").search("a-mid-b")
    assert java_pattern(r"\Qa.b\E+").search("xa.bb")
    assert not java_pattern(r"\Qa.b\E").search("axb")
    assert java_pattern(r"^(?<kind>x|y)-\1\z").search("x-x")
    assert java_pattern(r"\\Qa").search(r"\Qa")  # a backslash that is itself quoted


# Start and end


def test_defaults_depend_on_the_kind_of_query() -> None:
    assert batch().starting == AtEnd(EARLIEST)
    assert batch().ending == AtEnd(LATEST)
    assert stream().starting == AtEnd(LATEST)


def test_timestamps_override_offsets() -> None:
    offsets = {"startingOffsets": '{"t":{"0":5}}'}
    times = {"startingOffsetsByTimestamp": '{"t":{"0":1000}}'}
    time = {"startingTimestamp": " 2000 "}
    assert stream(**offsets).starting == AtOffsets(SpecificOffsets({T0: 5}, {}))
    assert stream(**offsets, **times).starting == AtTimes({T0: 1000}, or_latest=False)
    assert stream(**offsets, **times, **time).starting == AtTime(2000, or_latest=False)


def test_the_timestamp_strategy_decides_about_times_without_records() -> None:
    options = {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "LATEST"}
    assert stream(**options).starting == AtTime(7, or_latest=True)
    assert batch(endingTimestamp="7").ending == AtTime(7, or_latest=True)
    wrong = {**KAFKA, "subscribe": "t", "startingoffsetsbytimestampstrategy": "soon"}
    refused(wrong, "startingOffsetsByTimestampStrategy")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"startingOffsets": '{"t":"latest"}'}, "startingOffsets for t can't be latest"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest"),
        ({"endingOffsets": '{"t":{"1":-2}}'}, "ending offset for t-1 can't be earliest"),
        ({"startingTimestamp": "today"}, "Expected a single long value, got today"),
        ({"endingTimestamp": "-7"}, "Expected a time since 1970"),
    ],
)
def test_invalid_batch_options_are_errors(options: dict[str, str], words: str) -> None:
    refused({**KAFKA, "subscribe": "t", **options}, re.escape(words))


def test_a_batch_must_not_end_before_it_begins() -> None:
    with pytest.raises(SourceStateError, match="UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"):
        batch(startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"0":6}}')
    with pytest.raises(SourceStateError, match="UNRESOLVED_START_TIMESTAMP_GREATER"):
        batch(startingOffsetsByTimestamp='{"t":{"0":7}}', endingOffsetsByTimestamp='{"t":{"0":6}}')
    with pytest.raises(SourceStateError, match="MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START"):
        batch(startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"1":8}}')
    assert batch(startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"0":-1}}')


@pytest.mark.parametrize("name", ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    refused(
        {**KAFKA, "subscribe": "t", name: "7"}, "not valid in streaming queries", streaming=True
    )


# The rest


def test_names_are_taken_in_any_case() -> None:
    options = ReadOptions.parse(
        {"KAFKA.BOOTSTRAP.SERVERS": "k:9092", "SubScribe": "t", "MINPARTITIONS": "4"},
        streaming=False,
    )
    assert options.min_partitions == 4
    assert options.consumer["bootstrap_servers"] == "k:9092"
    assert includes_headers({"IncludeHeaders": "TRUE"}) is True
    assert includes_headers({}) is False


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("minPartitions", "0", "minPartitions must be positive"),
        ("minPartitions", "many", "'minPartitions' should be a whole number, not 'many'"),
        ("maxRecordsPerPartition", "-1", "maxRecordsPerPartition must be positive"),
        ("maxOffsetsPerTrigger", "1e3", "'maxOffsetsPerTrigger' should be a whole number"),
        ("failOnDataLoss", "no", "'failOnDataLoss' should be true or false, not 'no'"),
        ("maxTriggerDelay", "soon", "'maxTriggerDelay' should be a time such as"),
        ("fetchOffset.retryIntervalMs", "-1", "not less than 0"),
    ],
)
def test_values_are_checked_by_name(name: str, text: str, words: str) -> None:
    refused({**KAFKA, "subscribe": "t", name: text}, re.escape(words), streaming=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("100ms", 0.1), ("50s", 50), ("2h", 7200), ("7", 0.007), ("1 D", 86_400)],
)
def test_times_are_written_as_in_spark(text: str, seconds: float) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay == pytest.approx(seconds)


def test_the_least_of_a_trigger_is_not_more_than_the_most() -> None:
    options = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}
    with pytest.raises(KafkaConfigurationError, match=r"\(10\) is higher than .*\(9\)"):
        stream(**options)
    with pytest.raises(KafkaConfigurationError, match=r"minPartitions\(4\) is higher than"):
        batch(minPartitions="4", maxTasks="3")


def test_misspelled_options_are_errors_and_unknown_ones_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(KafkaConfigurationError, match="did you mean 'maxOffsetsPerTrigger'"):
        stream(maxOffsetPerTrigger="7")
    with caplog.at_level(logging.WARNING, logger="aiokafka_lite.spark"):
        batch(wholly_other="7", topic="out", maxOffsetsPerTrigger="7")
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "Kafka source has no option 'wholly_other'; ignoring it",
        "maxOffsetsPerTrigger option ignored in batch queries",
    ]


def test_a_group_id_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="aiokafka_lite.spark"):
        options = batch(**{"kafka.group.id": "g", "groupIdPrefix": "p"})
    assert "group_id" not in options.consumer
    assert "kafka.group.id" in caplog.text


def test_options_can_be_pickled() -> None:
    options = stream(subscribe="t", startingOffsets='{"t":{"0":1,"1":2}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_table_documents_every_option() -> None:
    assert len({option.key for option in TABLE}) == len(TABLE)
    for option in TABLE:
        assert option.meaning.endswith(".")
        if option.default and not option.default.startswith("latest (") and not option.ours:
            option.convert(option.name, option.default)  # as a user could write it
