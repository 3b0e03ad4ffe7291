"""The interfaces of `abc`: required methods and defaults."""

import pytest

from aiokafka_lite.abc import AbstractTokenProvider, ConsumerRebalanceListener
from aiokafka_lite.structs import TopicPartition


def test_listener_must_implement_both_methods() -> None:
    class Half(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            pass

    with pytest.raises(TypeError, match="on_partitions_assigned"):
        Half()  # type: ignore[abstract]


async def test_lost_partitions_call_on_revoked_by_default() -> None:
    class Listener(ConsumerRebalanceListener):
        def __init__(self) -> None:
            self.revoked: set[TopicPartition] = set()

        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            self.revoked |= revoked

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            pass

    listener = Listener()
    waiting = listener.on_partitions_lost({TopicPartition("t", 0)})
    assert waiting is not None
    await waiting
    assert listener.revoked == {TopicPartition("t", 0)}


async def test_token_provider_must_implement_token() -> None:
    class Provider(AbstractTokenProvider):
        async def token(self) -> str:
            return "abc"

    assert await Provider().token() == "abc"
    assert Provider().extensions() == {}
    with pytest.raises(TypeError, match="token"):
        AbstractTokenProvider()  # type: ignore[abstract]
