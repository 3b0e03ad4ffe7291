"""Documents the pure-Python twin of each native class (mkdocs.yml, extensions of mkdocstrings)."""

from __future__ import annotations

import re
from typing import Final

from griffe import Alias, Attribute, Class, Extension, GriffeLoader, Module, Object

_NAMES: Final = re.compile(r"^ +(?:[*\w]+,\s+)+[*\w]+: ", re.MULTILINE)


def _on_one_line(names: re.Match[str]) -> str:
    return re.sub(r"\n *", " ", names[0])


class Twins(Extension):
    """Follows the import that type checkers see, rather than the choice made at run time.

    A public module imports the twin under `TYPE_CHECKING` and otherwise assigns the same name from
    `pick(...)`; griffe keeps the assignment, which has no docstring and no methods. The same
    applies to a class that repeats an inherited method (`send = SendCalls.send`).
    """

    def on_object(self, *, obj: Object, loader: GriffeLoader, **unused: object) -> None:
        """Join a list of arguments that share a description: griffe expects it on one line."""
        if obj.docstring is not None:
            obj.docstring.value = _NAMES.sub(_on_one_line, obj.docstring.value)

    def on_package(self, *, pkg: Module, loader: GriffeLoader, **unused: object) -> None:
        """Replace these assignments in all modules of the package."""
        for module in (pkg, *self._below(pkg)):
            for name, path in module.imports.items():
                if isinstance(module.members.get(name), Attribute):
                    module.del_member(name)
                    module.set_member(name, Alias(name, path, parent=module))
            for cls in module.classes.values():
                if isinstance(cls, Class):
                    self._drop_repeated(cls)

    def _drop_repeated(self, cls: Class) -> None:
        bases = [str(base).partition("[")[0] for base in cls.bases]
        for name, member in list(cls.members.items()):
            if isinstance(member, Attribute) and str(member.value) in {
                f"{b}.{name}" for b in bases
            }:
                cls.del_member(name)

    def _below(self, module: Module) -> list[Module]:
        found = []
        for below in module.modules.values():
            if isinstance(below, Module):
                found += [below, *self._below(below)]
        return found
