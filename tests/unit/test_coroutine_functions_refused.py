"""Serializers, deserializers and partitioners that are coroutine functions are refused at once."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer


async def function(*_: Any) -> bytes:
    return b""


class Serializer:
    async def __call__(self, value: Any) -> bytes:
        return b""

    async def method(self, value: Any) -> bytes:
        return b""


GIVEN: list[Callable[..., Any]] = [
    function,
    functools.partial(function, 1),
    Serializer(),
    Serializer().method,
]
OPTIONS = [
    (AIOKafkaProducer, "key_serializer"),
    (AIOKafkaProducer, "value_serializer"),
    (AIOKafkaProducer, "partitioner"),
    (AIOKafkaConsumer, "key_deserializer"),
    (AIOKafkaConsumer, "value_deserializer"),
    (functools.partial(AIOKafkaShareConsumer, group_id="g"), "key_deserializer"),
    (functools.partial(AIOKafkaShareConsumer, group_id="g"), "value_deserializer"),
]


@pytest.mark.parametrize("given", GIVEN, ids=["function", "partial", "object", "method"])
@pytest.mark.parametrize(("client", "option"), OPTIONS)
async def test_coroutine_function_is_refused(
    client: Callable[..., Any], option: str, given: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError, match=f"`{option}` should be a plain function, not the cor"):
        client(**{option: given})
