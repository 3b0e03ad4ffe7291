"""CRC-32C (Castagnoli), from the crc32c package's native module.

Only that module is loaded, because the package reads its version through importlib.metadata, which
would take a quarter of this package's import time. For the same reason pathlib is not used.
"""

import os
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from typing import Final

Checksum = Callable[[bytes | bytearray | memoryview], int]


def _load() -> Checksum:
    package = find_spec("crc32c")
    folders = package.submodule_search_locations if package else None
    for folder in folders or ():
        for suffix in EXTENSION_SUFFIXES:
            path = os.path.join(folder, f"_crc32c{suffix}")
            # Its full name, so that a later `import crc32c` shares this module.
            spec = spec_from_file_location("crc32c._crc32c", path) if os.path.exists(path) else None
            if spec is not None and spec.loader is not None:
                module = module_from_spec(spec)
                spec.loader.exec_module(module)
                loaded: Checksum = module.crc32c
                return loaded
    from crc32c import crc32c as packaged  # another layout of the package

    checksum: Checksum = packaged
    return checksum


crc32c: Final[Checksum] = _load()
