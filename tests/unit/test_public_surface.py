"""The public names, their parameters and defaults are those of tests/golden/public_surface.txt.

After an intended change of the public API, rewrite the file and review its diff:

    python tests/unit/test_public_surface.py
"""

import asyncio
import difflib
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_args, get_origin

from aiokafka_lite import __version__

SNAPSHOT: Final = Path(__file__).parents[1] / "golden" / "public_surface.txt"

MODULES: Final = (
    "aiokafka_lite",
    "aiokafka_lite.abc",
    "aiokafka_lite.admin",
    "aiokafka_lite.admin.config_resource",
    "aiokafka_lite.client",
    "aiokafka_lite.consumer",
    "aiokafka_lite.coordinator.assignors.abstract",
    "aiokafka_lite.coordinator.assignors.cooperative_sticky",
    "aiokafka_lite.coordinator.assignors.range",
    "aiokafka_lite.coordinator.assignors.roundrobin",
    "aiokafka_lite.coordinator.assignors.sticky.sticky_assignor",
    "aiokafka_lite.errors",
    "aiokafka_lite.helpers",
    "aiokafka_lite.oauth",
    "aiokafka_lite.otel",
    "aiokafka_lite.partitioner",
    "aiokafka_lite.producer",
    "aiokafka_lite.prometheus",
    "aiokafka_lite.share",
    "aiokafka_lite.structs",
    "aiokafka_lite.testing",
)
RETURNED: Final = (
    "aiokafka_lite.producer.batching.accumulator:Ack",
    "aiokafka_lite.producer.batching.batch_builder:BatchBuilder",
    "aiokafka_lite.read_process_write:TransactionBatch",
    "aiokafka_lite.share.batch_acknowledgement:BatchAcknowledgement",
)
"""Classes whose objects public methods return, although no public module names them."""
TWINS: Final = {
    "Acknowledgement": "aiokafka_lite.share.records._record_marks_python:Acknowledgement",
    "ConsumerRecord": "aiokafka_lite._consumer_record_python:ConsumerRecord",
    "ShareRecord": "aiokafka_lite._consumer_record_python:ConsumerRecord",
}
"""Python twins of native classes whose constructors have no signature."""
FACTS: Final = ("retriable", "invalid_metadata", "ambiguous", "fatal_to_consumer")


def snapshot() -> list[str]:
    """Return a line for each public module, class, parameter list and attribute."""
    lines: list[str] = []
    seen: dict[int, str] = {}
    for name in MODULES:
        module = import_module(name)
        lines += ["", f"module {name}"]
        for public in sorted(getattr(module, "__all__", None) or defined_in(module)):
            value = getattr(module, public)
            if inspect.isclass(value) and id(value) in seen:
                lines.append(f"    {public}: see {seen[id(value)]}")
            elif inspect.isclass(value):
                seen[id(value)] = f"{name}.{public}"
                lines += [f"    {line}" for line in class_lines(public, value)]
            elif alias := get_origin(value):
                lines.append(f"    type {public} = {alias.__name__}[{arguments_of(value)}]")
            elif callable(value):
                lines.append(f"    {kind_of(value)} {public}{parameters(value)}")
            else:
                lines.append(f"    {public}")
    lines += ["", "returned by methods"]
    for path in RETURNED:
        returned = named(path)
        lines += [f"    {line}" for line in class_lines(returned.__name__, returned, made=False)]
    return lines[1:]


def named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def defined_in(module: ModuleType) -> list[str]:
    return [
        public
        for public, value in vars(module).items()
        if not public.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def class_lines(name: str, cls: type, *, made: bool = True) -> Iterator[str]:
    """Yield the class, its constructor's parameters, and its public attributes and methods.

    For an error class, yield its bases, its code, and its class attributes.

    Args:
        made: True if applications call the constructor.
    """
    if issubclass(cls, BaseException):
        bases = ", ".join(base.__name__ for base in cls.__bases__)
        facts = [f"errno={cls.errno}"] if "errno" in vars(cls) else []
        facts += [fact for fact in FACTS if getattr(cls, fact, False) is True]
        yield " ".join([f"class {name}({bases})", *facts])
        return
    yield f"class {name}"
    own = [each for each in cls.__mro__ if each.__module__.startswith("aiokafka_lite")]
    made = made and not issubclass(cls, enum.Enum) and not getattr(cls, "_is_protocol", False)
    if made and any("__init__" in vars(each) or "__new__" in vars(each) for each in own):
        yield f"    {parameters(cls) or parameters(named(TWINS[name]))}"
    members = {
        member: inspect.getattr_static(cls, member)
        for each in own
        for member in vars(each)
        if not member.startswith("_")
    }
    for member, value in sorted(members.items()):
        if isinstance(value, staticmethod | classmethod):
            inner = value.__func__
            yield f"    {type(value).__name__} {kind_of(inner)} {member}{parameters(inner)}"
        elif isinstance(value, enum.Enum):
            yield f"    {member} = {value.value!r}"
        elif callable(value) and not inspect.isclass(value):
            yield f"    {kind_of(value)} {member}{parameters(value)}"
        else:
            yield f"    {member}"


def arguments_of(alias: object) -> str:
    """Return the arguments of a generic alias, without the modules of classes."""
    return ", ".join(
        re.sub(r"\b(?:\w+\.)+", "", each.__name__ if inspect.isclass(each) else str(each))
        for each in get_args(alias)
    )


def kind_of(function: object) -> str:
    if sys.version_info >= (3, 12):
        return "async def" if inspect.iscoroutinefunction(function) else "def"
    return "async def" if asyncio.iscoroutinefunction(function) else "def"


def parameters(function: Any) -> str | None:
    """Return names, kinds and defaults as in source code, without annotations; None if unknown."""
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            signature = inspect.signature(function, annotation_format=Format.FORWARDREF)
        else:
            signature = inspect.signature(function)
    except ValueError:  # a native constructor
        return None
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    written = str(signature.replace(parameters=bare, return_annotation=signature.empty))
    written = written.replace("(self, /", "(self").replace(__version__, "{version}")
    return re.sub(r"<(?:class '(?:\w+\.)*)?([\w.]+)(?:'|: \w+)>", r"\1", written)


def text() -> str:
    return "\n".join(line.rstrip() for line in snapshot()) + "\n"


def test_the_public_surface_is_the_stored_one() -> None:
    expected, found = SNAPSHOT.read_text().splitlines(), text().splitlines()
    difference = "\n".join(difflib.unified_diff(expected, found, "stored", "found", lineterm=""))
    assert not difference, f"write {SNAPSHOT.name} anew if this change is intended:\n{difference}"


if __name__ == "__main__":
    SNAPSHOT.write_text(text())
