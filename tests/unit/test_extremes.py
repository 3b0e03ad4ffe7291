"""Clients survive one extreme number in a response: some cases of `tests.fuzz.extremes`."""

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from tests.fuzz.extremes import Case, run
from tests.fuzz.fields import BITS, TOO_MANY_DIGITS, Place, candidates

INT64_MAX = 2**63 - 1
INT32_MAX, INT32_MIN = 2**31 - 1, -(2**31)
_PARTITIONS = "responses.partitions"
_HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT

CASES: list[tuple[str, ApiKey, str, str, int | str]] = [
    ("idempotent", ApiKey.METADATA, "topics.partitions.partition_index", "int32", -1),
    ("plain", ApiKey.PRODUCE, "responses.partition_responses.base_offset", "int64", INT64_MAX),
    ("transactional", ApiKey.INIT_PRODUCER_ID, "producer_epoch", "int16", -2),
    ("reader", ApiKey.FETCH, f"{_PARTITIONS}.records.batch_length", "int32", "+1000"),
    ("reader", ApiKey.FETCH, f"{_PARTITIONS}.records.base_offset", "int64", INT64_MAX),
    ("reader", ApiKey.LIST_OFFSETS, "topics.partitions.offset", "int64", -INT64_MAX),
    ("classic", ApiKey.SYNC_GROUP, "assignment.partition", "int32", -1),
    ("modern", _HEARTBEAT, "heartbeat_interval_ms", "int32", INT32_MIN),
    ("modern", _HEARTBEAT, "assignment.topic_partitions.partitions", "int32", -1),
    ("sasl", ApiKey.SASL_AUTHENTICATE, "session_lifetime_ms", "int64", 1),
    ("sasl", ApiKey.SASL_AUTHENTICATE, "auth_bytes.iterations", "digits", TOO_MANY_DIGITS),
]


@pytest.mark.parametrize(
    ("client", "api_key", "path", "kind", "value"),
    [pytest.param(*case, id=f"{case[0]}-{case[2]}-{case[4]}") for case in CASES],
)
async def test_client_survives_an_extreme_value_and_works_afterwards(
    client: str, api_key: ApiKey, path: str, kind: str, value: int | str
) -> None:
    place = Place(api_key, tuple(path.split(".")), BITS.get(kind, 0))
    outcome = await run(Case(client, None, place, value))
    assert outcome.lies > 0  # otherwise nothing was tested


def test_extreme_values_of_a_field() -> None:
    place = Place(ApiKey.METADATA, ("controller_id",), 32)
    values = candidates(place, 1)
    assert {INT32_MIN, -2, -1, 0, INT32_MAX - 1, INT32_MAX, "+1"} <= set(values)
    assert 1 not in values
