"""Builds the native hot paths; the rest of the build configuration is in pyproject.toml.

Every native module has a pure-Python twin, so a machine without a C compiler still gets a working
package: a module that cannot be compiled is left out, and the build reports it. Set
AIOKAFKA_LITE_REQUIRE_NATIVE=1 (as the test suite does) to make that an error, or
AIOKAFKA_LITE_NO_NATIVE=1 to build none. AIOKAFKA_LITE_COMPILER_FLAGS replaces the compiler's flags.

With SOURCE_DATE_EPOCH, two builds of the same sources are identical: setuptools uses it for the
wheel, and `SourceArchive` for the sdist. Compilers get relative paths and write no debugging
information, so the output does not depend on the build folder.
"""

import logging
import os
import shutil
import sys
import sysconfig
import tarfile
from gzip import GzipFile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

REQUIRE_NATIVE = os.environ.get("AIOKAFKA_LITE_REQUIRE_NATIVE") == "1"
NO_NATIVE = os.environ.get("AIOKAFKA_LITE_NO_NATIVE") == "1"
COMPILE_NOTHING = ("dist_info", "egg_info", "sdist")  # commands; running Cython takes half a minute
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
    root = Path(__file__).parent
    extensions = [
        Extension(
            str(path.relative_to(root).with_suffix("")).replace(os.sep, "."),
            [str(path.relative_to(root))],
            extra_compile_args=COMPILER_FLAGS,
        )
        for path in sorted((root / "aiokafka_lite").rglob("*.pyx"))
    ]
    if sys.argv[1:2] and sys.argv[1] in COMPILE_NOTHING:
        return extensions
    from Cython.Build import cythonize

    modules = cythonize(extensions, build_dir="build/cython", language_level=3, quiet=True)
    for module in modules:  # cythonize returns new objects without our attributes
        module.optional = not REQUIRE_NATIVE
    return modules


class BuildNative(build_ext):
    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()  # C compilers, each in a process of its own

    def run(self) -> None:
        super().run()
        for extension in self.extensions:
            built = Path(self.get_ext_fullpath(extension.name))
            if built.exists():
                self.announce(f"aiokafka_lite: {extension.name}: compiled", level=logging.INFO)
            else:
                state = "NOT compiled: its pure-Python twin is used"
                self.announce(f"aiokafka_lite: {extension.name}: {state}", level=logging.WARNING)


class SourceArchive(sdist):
    def make_archive(self, base_name, format, root_dir=None, base_dir=None, owner=None, group=None):
        """Write the archive; SOURCE_DATE_EPOCH makes it independent of times, owners and umask."""
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None or format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)

        def normalized(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime = int(epoch)
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        path = Path(root_dir or ".", f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            path.open("wb") as out,
            GzipFile("", "wb", fileobj=out, mtime=int(epoch)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=normalized)  # sorted by name
        return str(path)


setup(ext_modules=native_modules(), cmdclass={"build_ext": BuildNative, "sdist": SourceArchive})
