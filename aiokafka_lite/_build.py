"""The choice between a native module and its pure-Python twin.

Every hot path exists twice: `_x_native` (Cython) and `_x_python`, the readable specification. The
public module `x` calls `pick` to import one of the two and re-exports its names:

    if TYPE_CHECKING:
        from ._x_python import Thing
    else:
        Thing = pick("aiokafka_lite.room._x_native", "aiokafka_lite.room._x_python").Thing

Environment, read once when the package is imported:
    AIOKAFKA_LITE_PURE=1: use the twins, even if native modules were compiled.
    AIOKAFKA_LITE_REQUIRE_NATIVE=1: raise ImportError for a native module that was not compiled.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

_PURE: Final = os.environ.get("AIOKAFKA_LITE_PURE") == "1"
_REQUIRE_NATIVE: Final = os.environ.get("AIOKAFKA_LITE_REQUIRE_NATIVE") == "1"

NATIVE: Final[bool] = not _PURE and find_spec("aiokafka_lite._consumer_record_native") is not None
"""True if this process runs the native hot paths (the lowest one stands for all)."""

BUILD: Final = "native" if NATIVE else "pure Python"
"""`NATIVE` as text, for logs and for `aiokafka_lite.__build__`."""


def pick(native_module: str, twin_module: str) -> ModuleType:
    """Import the native module, or its twin if none was compiled or AIOKAFKA_LITE_PURE=1 is set.

    There is no fallback for a native module that exists but fails to load (built for another
    interpreter, a missing symbol): its ImportError reaches the caller.

    Args:
        native_module: Full dotted name of the Cython module.
        twin_module: Full dotted name of the pure-Python module that defines the same names.

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
