"""APIs that are offered, but rejected with UNSUPPORTED_VERSION.

Those of streams groups (KIP-1071), as in a cluster that has not enabled them (`streams.version` at
level 0); and those by which brokers store the states of share groups (KIP-932), because the
embedded broker keeps these states itself. No client sends them.

`NOT_ENABLED` lists them; the documentation is generated from it.
"""

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from aiokafka_lite.errors import BrokerResponseError, UnsupportedVersionError
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.registry import ApiKey, response_class
from aiokafka_lite.testing.context import RequestContext

__all__ = ["NOT_ENABLED", "handle"]

_Refuse = Callable[[Any, ModuleType, int], list[Any]]  # Any: each takes its own request class


def handle(request: Request, context: RequestContext) -> Response:
    code = UnsupportedVersionError.errno
    try:
        context.check()
    except BrokerResponseError as error:
        code = error.errno
    response: Callable[..., Response] = response_class(request.api_key)
    _, refuse = NOT_ENABLED[ApiKey(request.api_key)]
    if refuse is None:
        return response(error_code=code)
    refused = refuse(request, sys.modules[type(request).__module__], code)
    return response(**{"results" if refuse is _each_partition else "groups": refused})


def _each_id(request: Any, messages: ModuleType, code: int) -> list[Any]:
    return [messages.DescribedGroup(error_code=code, group_id=one) for one in request.group_ids]


def _each_partition(request: Any, messages: ModuleType, code: int) -> list[Any]:
    """Return the results of share coordinator states: ReadStateResult, WriteStateResult, ..."""
    prefix = type(request).__name__.partition("ShareGroupState")[0]
    summary = "Summary" if "Summary" in type(request).__name__ else ""
    result = getattr(messages, f"{prefix}State{summary}Result")
    return [
        result(
            topic_id=topic.topic_id,
            partitions=[
                messages.PartitionResult(partition=one.partition, error_code=code)
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]


NOT_ENABLED: Final[Mapping[ApiKey, tuple[str, _Refuse | None]]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ("share.version", _each_partition),
    ApiKey.READ_SHARE_GROUP_STATE: ("share.version", _each_partition),
    ApiKey.WRITE_SHARE_GROUP_STATE: ("share.version", _each_partition),
    ApiKey.DELETE_SHARE_GROUP_STATE: ("share.version", _each_partition),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ("share.version", _each_partition),
    ApiKey.STREAMS_GROUP_HEARTBEAT: ("streams.version", None),
    ApiKey.STREAMS_GROUP_DESCRIBE: ("streams.version", _each_id),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: ("streams.version", None),
}
"""The feature that each API belongs to, and how to build its error codes (None: top-level)."""
