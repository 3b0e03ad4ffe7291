"""Builds the native hot paths; the rest of the build configuration is in pyproject.toml.

Every native module has a pure-Python twin, so a machine without a C compiler still gets a working
package: a module that cannot be compiled is left out, and the build reports it. Set
AIOKAFKA_LITE_REQUIRE_NATIVE=1 (as the test suite does) to make that an error, or
AIOKAFKA_LITE_NO_NATIVE=1 to build none. AIOKAFKA_LITE_COMPILER_FLAGS replaces the compiler's flags.
"""

import logging
import os
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

REQUIRE_NATIVE = os.environ.get("AIOKAFKA_LITE_REQUIRE_NATIVE") == "1"
NO_NATIVE = os.environ.get("AIOKAFKA_LITE_NO_NATIVE") == "1"
# -g0: most Python builds request debugging information, which triples the size of a wheel.
COMPILER_FLAGS = [] if os.name == "nt" else ["-O3", "-g0", "-Wno-unused-function"]
if "AIOKAFKA_LITE_COMPILER_FLAGS" in os.environ:
    COMPILER_FLAGS = os.environ["AIOKAFKA_LITE_COMPILER_FLAGS"].split()


def has_compiler() -> bool:
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return os.name == "nt" or shutil.which(command.split()[0]) is not None


def native_modules() -> list[Extension]:
    if NO_NATIVE:
        return []
    if not has_compiler():
        if REQUIRE_NATIVE:
            raise SystemExit(
                "AIOKAFKA_LITE_REQUIRE_NATIVE=1 is set, but there is no C compiler: install one, "
                "or unset the variable to use the pure-Python twins"
            )
        print("aiokafka_lite: no C compiler found: the pure-Python twins will be used (slower)")
        return []
    from Cython.Build import cythonize

    root = Path(__file__).parent
    extensions = [
        Extension(
            str(path.relative_to(root).with_suffix("")).replace(os.sep, "."),
            [str(path.relative_to(root))],
            extra_compile_args=COMPILER_FLAGS,
        )
        for path in sorted((root / "aiokafka_lite").rglob("*.pyx"))
    ]
    modules = cythonize(extensions, build_dir="build/cython", language_level=3, quiet=True)
    for module in modules:  # cythonize returns new objects without our attributes
        module.optional = not REQUIRE_NATIVE
    return modules


class BuildNative(build_ext):
    def run(self) -> None:
        super().run()
        for extension in self.extensions:
            built = Path(self.get_ext_fullpath(extension.name))
            if built.exists():
                self.announce(f"aiokafka_lite: {extension.name}: compiled", level=logging.INFO)
            else:
                state = "NOT compiled: its pure-Python twin is used"
                self.announce(f"aiokafka_lite: {extension.name}: {state}", level=logging.WARNING)


setup(ext_modules=native_modules(), cmdclass={"build_ext": BuildNative})
