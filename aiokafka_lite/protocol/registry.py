"""Maps an API key to its request and response classes, imported on first use.

Importing all messages takes tens of milliseconds, and a client uses a dozen. So no code imports
`messages` as a whole: it imports one module by name, or uses this registry.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.protocol.api_modules import API_MODULES
from aiokafka_lite.protocol.message import Request, Response

if TYPE_CHECKING:
    from aiokafka_lite.protocol.api_keys import ApiKey

__all__ = ["API_MODULES", "ApiKey", "api_name", "listeners", "request_class", "response_class"]


def _module(api_key: int) -> tuple[ModuleType, str]:
    try:
        module, name, _ = API_MODULES[api_key]
    except KeyError:
        raise UnsupportedVersionError(f"this client does not support {api_name(api_key)}") from None
    return import_module(f"aiokafka_lite.protocol.messages.{module}"), name


@cache
def request_class(api_key: int) -> type[Request]:
    """Return the request class of an API.

    Raises:
        UnsupportedVersionError: This client has no such API.
    """
    module, name = _module(api_key)
    found: type[Request] = getattr(module, f"{name}Request")
    return found


@cache
def response_class(api_key: int) -> type[Response]:
    """Return the response class of an API.

    Raises:
        UnsupportedVersionError: This client has no such API.
    """
    return request_class(api_key).response


def api_name(api_key: int) -> str:
    """Return Kafka's name for an API, or a name like "API 99" if it is unknown."""
    if api_key in API_MODULES:
        return API_MODULES[api_key][1]
    from aiokafka_lite.protocol.api_keys import ApiKey

    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API {api_key}"


def listeners(api_key: int) -> tuple[str, ...]:
    """Return the listeners of an API: "broker", "controller" or both; () if it is unknown."""
    return API_MODULES[api_key][2] if api_key in API_MODULES else ()


def __getattr__(name: str) -> object:
    if name != "ApiKey":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from aiokafka_lite.protocol.api_keys import ApiKey

    globals()[name] = ApiKey
    return ApiKey
