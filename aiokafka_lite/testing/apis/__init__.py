"""The APIs that the embedded broker serves: one module each, imported when a broker starts.

A module is named like its message module in ``protocol.messages`` and has

    VERSIONS = (first, last)                                  the versions it serves
    def handle(request, context) -> response | Delayed | None

An API that is not in ``SERVED`` is not offered by ApiVersions, and a request of it ends the
connection, as on a real broker.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.context import Answer, RequestContext

__all__ = ["SERVED", "Api", "load_apis"]

SERVED: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
)


class Api(NamedTuple):
    """One API: the versions it is served in, and what answers it."""

    key: ApiKey
    versions: tuple[int, int]
    handle: Callable[[Any, RequestContext], Answer]  # Any: each takes its own request class


def load_apis() -> dict[int, Api]:
    """Import every served API; by api key."""
    apis = {}
    for key in SERVED:
        module = import_module(f"{__name__}.{key.name.lower()}")
        apis[int(key)] = Api(key, module.VERSIONS, module.handle)
    return apis
