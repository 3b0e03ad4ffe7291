"""Unsupported APIs with reasons: those that are always rejected, and those that are not offered.

`docs/embedded-broker.md` is generated from it; a test checks that it is complete.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.apis import NOT_ENABLED

__all__ = ["NOT_OFFERED", "REFUSED"]

_PLUGIN: Final = (
    "only with `collect_metrics`: a real broker does not offer it without a plugin either"
)
_SHARE: Final = "only brokers send it; the embedded broker keeps share states in memory"
_STREAMS: Final = "streams groups are not enabled (`streams.version` 0)"
_TOKENS: Final = "no secret key for delegation tokens is configured, which is the default"
_VOTERS: Final = "the set of controllers is static (`kraft.version` 0)"

REFUSED: Final[Mapping[ApiKey, str]] = MappingProxyType(
    {
        **{
            ApiKey(key): _STREAMS if "STREAMS" in ApiKey(key).name else _SHARE
            for key in NOT_ENABLED
        },
        ApiKey.CREATE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.RENEW_DELEGATION_TOKEN: _TOKENS,
        ApiKey.EXPIRE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: _TOKENS,
        ApiKey.ADD_RAFT_VOTER: _VOTERS,
        ApiKey.REMOVE_RAFT_VOTER: _VOTERS,
    }
)
"""Offered and always rejected, as by a real broker with default configuration, except for the
states of share groups, which a real broker serves to other brokers."""

NOT_OFFERED: Final[Mapping[ApiKey, str]] = MappingProxyType(
    {
        ApiKey.CONTROLLED_SHUTDOWN: "only brokers of releases with ZooKeeper send it",
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _PLUGIN,
        ApiKey.PUSH_TELEMETRY: _PLUGIN,
    }
)
"""Not offered by ApiVersions; a request closes the connection."""
