"""Share and streams groups: offered, and refused with every error code of a response."""

import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.protocol.message import Struct
from aiokafka_lite.protocol.registry import ApiKey, request_class
from aiokafka_lite.testing.apis import NOT_ENABLED, SERVED
from aiokafka_lite.testing.apis.not_enabled import NOT_ENABLED as REFUSALS
from tests.unit.testing.raw import SocketlessBroker


def filled(api_key: int) -> Any:
    """A request with one item in each of its lists of groups, topics and partitions."""
    request: Any = request_class(api_key)()
    module = sys.modules[type(request).__module__]
    if "group_ids" in request.__slots__:
        request.group_ids = ["g"]
    if api_key == ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
        request.groups = [module.DescribeShareGroupOffsetsRequestGroup("g")]
    state = next((name for name in vars(module) if name.endswith("Data") and "State" in name), None)
    if state is not None:
        topic = getattr(module, state)(topic_id=UUID(int=5), partitions=[module.PartitionData()])
        request.topics = [topic]
    return request


def codes(value: object) -> Iterator[int]:
    if isinstance(value, Struct):
        for name in value.__slots__:
            inner = getattr(value, name)
            if name == "error_code":
                yield inner
            yield from codes(inner)
    elif isinstance(value, list):
        for item in value:
            yield from codes(item)


def test_the_tables_agree() -> None:
    assert NOT_ENABLED.keys() == REFUSALS.keys()
    for api_key, (first, last) in NOT_ENABLED.items():
        request = request_class(api_key)
        assert (first, last) == (request.min_version, request.max_version)
        assert SERVED[api_key] == (first, last)


@pytest.mark.parametrize("api_key", sorted(NOT_ENABLED))
def test_every_error_field_has_the_error(broker: SocketlessBroker, api_key: int) -> None:
    for version in range(NOT_ENABLED[api_key][0], NOT_ENABLED[api_key][1] + 1):
        found = set(codes(broker.ask(filled(api_key), version)))
        assert found == {UnsupportedVersionError.errno}


@pytest.mark.parametrize("api_key", sorted(NOT_ENABLED))
def test_a_fault_takes_precedence(broker: SocketlessBroker, api_key: int) -> None:
    broker.fail_next(ApiKey(api_key), 15)
    assert set(codes(broker.ask(filled(api_key), NOT_ENABLED[api_key][0]))) == {15}
