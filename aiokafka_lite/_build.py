"""The one place that chooses between a native module and its pure-Python twin.

Every hot path exists twice: `_x_native` (Cython) and `_x_python`, the readable specification. A
face module `x` asks `pick` which of the two this process runs and re-exports its names:

    if TYPE_CHECKING:
        from ._x_python import Thing
    else:
        Thing = pick("aiokafka_lite.room._x_native", "aiokafka_lite.room._x_python").Thing

Environment, read once when the package is imported:
    AIOKAFKA_LITE_PURE=1: the twins, whatever was compiled.
    AIOKAFKA_LITE_REQUIRE_NATIVE=1: a native module that was not compiled is an ImportError.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_PURE: Final = os.environ.get("AIOKAFKA_LITE_PURE") == "1"
_REQUIRE_NATIVE: Final = os.environ.get("AIOKAFKA_LITE_REQUIRE_NATIVE") == "1"

NATIVE: Final[bool] = not _PURE and find_spec("aiokafka_lite._consumer_record_native") is not None
"""Whether this process runs the native hot paths (the lowest one stands for all)."""

BUILD: Final = "native" if NATIVE else "pure Python"
"""The same in words, for logs and for `aiokafka_lite.__build__`."""


def pick(native_module: str, twin_module: str) -> ModuleType:
    """Import the native module, or its twin where none was compiled or the twins are asked for.

    A native module that exists but does not load (built for another interpreter, a missing
    symbol) is not papered over: its ImportError reaches the caller.

    Args:
        native_module: Full dotted name of the Cython module.
        twin_module: Full dotted name of the pure-Python module with the same names in it.

    Raises:
        ImportError: The native module is missing although AIOKAFKA_LITE_REQUIRE_NATIVE=1.
    """
    if _PURE:
        return import_module(twin_module)
    try:
        return import_module(native_module)
    except ModuleNotFoundError as error:
        if error.name != native_module or _REQUIRE_NATIVE:
            raise
    return import_module(twin_module)
