"""Makes `import aiokafka` import aiokafka_lite, for libraries that import aiokafka themselves.

A finder in front of all others gives `aiokafka.x` the module object of `aiokafka_lite.x`, so that
each class and each exception exists once under both names. (An entry in `sys.modules` alone would
load submodules twice, and `except` would miss their exceptions.)

The root module `aiokafka` is a separate object, because libraries check `aiokafka.__version__`: it
is the version of the aiokafka release whose API this package has.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

__all__ = ["install_as_aiokafka", "uninstall_as_aiokafka"]

ALIAS: Final = "aiokafka"
HERE: Final = "aiokafka_lite"
VERSION: Final = "0.14.0"
"""The aiokafka release whose public API this package has."""

MODULES: Final = frozenset(
    {
        "abc",
        "admin",
        "admin.client",
        "admin.config_resource",
        "admin.new_partitions",
        "admin.new_topic",
        "admin.records_to_delete",
        "client",
        "consumer",
        "consumer.consumer",
        "coordinator",
        "coordinator.assignors",
        "coordinator.assignors.abstract",
        "coordinator.assignors.range",
        "coordinator.assignors.roundrobin",
        "coordinator.assignors.sticky",
        "coordinator.assignors.sticky.sticky_assignor",
        "coordinator.protocol",
        "errors",
        "helpers",
        "partitioner",
        "producer",
        "producer.message_accumulator",
        "producer.producer",
        "structs",
    }
)
"""aiokafka's modules that exist here."""


def install_as_aiokafka() -> None:
    """Make `import aiokafka` import this package, in the whole process. Not in aiokafka.

    Call it before anything imports aiokafka:

        import aiokafka_lite

        aiokafka_lite.install_as_aiokafka()

        from faststream.kafka import KafkaBroker

    `aiokafka.errors.KafkaError` is then the class `aiokafka_lite.errors.KafkaError`; likewise for
    every public module. aiokafka's internal modules do not exist; importing one raises
    ModuleNotFoundError. `aiokafka.__version__` is "0.14.0", the release whose API this is, and
    `aiokafka.__aiokafka_lite_version__` is this package's own. A second call does nothing.

    `python -m aiokafka_lite.as_aiokafka -m program` does the same for a program that you cannot
    edit. Subprocesses are not affected.

    Raises:
        RuntimeError: aiokafka itself is already imported.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    imported = sorted(name for name in sys.modules if _is_alias(name))
    if imported:
        raise RuntimeError(
            f"aiokafka is already imported ({imported[0]}): call install_as_aiokafka() before "
            "the first import of aiokafka, or of a library that imports it"
        )
    sys.meta_path.insert(0, _Finder())


def uninstall_as_aiokafka() -> None:
    """Undo `install_as_aiokafka`, for tests. Not in aiokafka.

    Modules that imported names from `aiokafka` keep them.
    """
    finders = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    for finder in finders:
        sys.meta_path.remove(finder)
    if finders:
        for name in [name for name in sys.modules if _is_alias(name)]:
            del sys.modules[name]


def _is_alias(name: str) -> bool:
    return name == ALIAS or name.startswith(f"{ALIAS}.")


class _Root(ModuleType):
    """The module `aiokafka`: the names of aiokafka_lite, and aiokafka's version."""

    def __init__(self) -> None:
        super().__init__(ALIAS, import_module(HERE).__doc__)
        self.__path__: list[str] = []  # a package, whose submodules only the finder finds
        self.__version__ = VERSION
        self.__aiokafka_lite_version__ = import_module(HERE).__version__

    def __getattr__(self, name: str) -> object:
        try:
            return getattr(import_module(HERE), name)
        except AttributeError:
            raise AttributeError(f"module {ALIAS!r} has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(import_module(HERE))})

    @property
    def __all__(self) -> list[str]:
        return list(import_module(HERE).__all__)


class _Loader(Loader):
    """Returns a module of aiokafka_lite, and keeps its own `__spec__` and `__loader__`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._own = {name: getattr(module, name, None) for name in _SET_BY_IMPORT}
        return module

    def exec_module(self, module: ModuleType) -> None:
        for name, value in self._own.items():
            setattr(module, name, value)


_SET_BY_IMPORT: Final = ("__spec__", "__loader__", "__package__", "__path__")


class _RootLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Root()

    def exec_module(self, module: ModuleType) -> None:
        """The module is complete."""


class _Finder(MetaPathFinder):
    """Finds `aiokafka` and its public modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_alias(fullname):
            return None
        if fullname == ALIAS:
            return ModuleSpec(ALIAS, _RootLoader(), is_package=True)
        name = fullname.removeprefix(f"{ALIAS}.")
        if name not in MODULES:
            raise ModuleNotFoundError(
                f"{fullname} is not available: aiokafka_lite is installed as aiokafka, and has "
                "its public modules only (see docs/ecosystem.md)",
                name=fullname,
            )
        return ModuleSpec(fullname, _Loader(f"{HERE}.{name}"))
