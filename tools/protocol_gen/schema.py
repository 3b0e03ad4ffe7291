"""The schemas as typed objects: the JSON, merged over two releases and resolved.

Every field gets its *effective* versions: the intersection of its own versions with those of its
struct and its message. A common struct that is used in several places has the hull of their
versions.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, field
from typing import Any

NEVER = 32767


@dataclass(frozen=True, order=True)
class Versions:
    """An inclusive range of versions; empty when low > high."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text is None or text in ("none", ""):
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), NEVER)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def hull(self, other: Versions) -> Versions:
        if not self or not other:
            return self or other
        return Versions(min(self.low, other.low), max(self.high, other.high))

    def covers(self, other: Versions) -> bool:
        return not other or (self.low <= other.low and other.high <= self.high)

    def __str__(self) -> str:
        if not self:
            return "none"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NO_VERSIONS = Versions(1, 0)


@dataclass
class Field:
    """One field.

    Attributes:
        schema_name: As in the JSON: "ThrottleTimeMs".
        element: The type, without the brackets of an array: "int32", "string", a struct's name.
        struct: The struct, if the element is one.
        versions: Effective versions in which the field is there.
        nullable: Versions in which it may be null.
        tagged: Versions in which it is a tagged field.
    """

    schema_name: str
    element: str
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: Any
    ignorable: bool
    about: str
    struct: Struct | None = None
    flexible: Versions | None = None

    @property
    def name(self) -> str:
        return snake_case(self.schema_name)

    @property
    def json_name(self) -> str:
        """The name in Java's JSON converters."""
        return self.schema_name[0].lower() + self.schema_name[1:]

    @property
    def is_struct(self) -> bool:
        return self.struct is not None and not self.array


@dataclass
class Struct:
    name: str
    fields: list[Field]
    versions: Versions = NO_VERSIONS
    python_name: str = ""


@dataclass
class Message:
    """A request, a response, a header or a data schema."""

    name: str
    kind: str
    api_key: int
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    root: Struct
    structs: list[Struct] = field(default_factory=list)
    releases: dict[str, Versions] = field(default_factory=dict)
    unstable: bool = False

    @property
    def api_name(self) -> str:
        return re.sub("(Request|Response)$", "", self.name) if self.api_key >= 0 else self.name


def snake_case(name: str) -> str:
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return parts + "_" if keyword.iskeyword(parts) else parts


def load(raw: dict[str, Any]) -> Message:
    """A message from its (merged) JSON."""
    versions = Versions.parse(raw["validVersions"])
    flexible = Versions.parse(raw.get("flexibleVersions")) & versions
    structs: dict[str, Struct] = {}
    for common in raw.get("commonStructs", ()):
        structs[common["name"]] = Struct(common["name"], [])
    for common in raw.get("commonStructs", ()):
        structs[common["name"]].fields = [_field(f, structs) for f in common["fields"]]
    root = Struct(raw["name"], [_field(f, structs) for f in raw.get("fields", ())])
    _resolve(root, versions, seen=())
    message = Message(
        name=raw["name"],
        kind=raw["type"],
        api_key=raw.get("apiKey", -1),
        versions=versions,
        flexible=flexible,
        listeners=tuple(raw.get("listeners") or ()),
        root=root,
        structs=_in_order(root),
        unstable=bool(raw.get("latestVersionUnstable")),
    )
    for struct in [*message.structs, root]:
        _narrow(struct)
    for struct in message.structs:
        _refuse_empty(struct, flexible)
    return message


def _field(raw: dict[str, Any], structs: dict[str, Struct]) -> Field:
    kind = raw["type"]
    array = kind.startswith("[]")
    element = kind.removeprefix("[]")
    struct = None
    if element[0].isupper():
        if "fields" in raw:
            structs.setdefault(element, Struct(element, []))
            structs[element].fields = [_field(f, structs) for f in raw["fields"]]
        struct = structs[element]
    flexible = raw.get("flexibleVersions")
    return Field(
        schema_name=raw["name"],
        element=element,
        array=array,
        versions=Versions.parse(raw["versions"]),
        nullable=Versions.parse(raw.get("nullableVersions")),
        tagged=Versions.parse(raw.get("taggedVersions")),
        tag=None if raw.get("tag") is None else int(raw["tag"]),
        default=raw.get("default"),
        ignorable=bool(raw.get("ignorable")),
        about=raw.get("about", ""),
        struct=struct,
        flexible=None if flexible is None else Versions.parse(flexible),
    )


def _resolve(struct: Struct, versions: Versions, seen: tuple[str, ...]) -> None:
    """The versions in which each struct is used: the hull of the effective versions of its
    users."""
    if struct.name in seen:
        raise ValueError(f"{struct.name} contains itself: decoding would recurse without a bound")
    struct.versions = struct.versions.hull(versions)
    for item in struct.fields:
        if item.struct is not None and (inner := item.versions & versions):
            _resolve(item.struct, inner, (*seen, struct.name))


def _narrow(struct: Struct) -> None:
    """Effective versions of every field; fields that no supported version has are dropped."""
    for item in struct.fields:
        item.versions &= struct.versions
        item.nullable &= item.versions
        item.tagged &= item.versions
    struct.fields = [item for item in struct.fields if item.versions]


def _refuse_empty(struct: Struct, flexible: Versions) -> None:
    """If a struct had no bytes in some version, an array's count could not be checked."""
    for version in range(struct.versions.low, struct.versions.high + 1):
        held = any(
            version in item.versions and version not in item.tagged for item in struct.fields
        )
        if not held and version not in flexible:
            raise ValueError(f"{struct.name} takes no bytes in version {version}")


def _in_order(root: Struct) -> list[Struct]:
    """The structs below `root`, each after those that it holds."""
    ordered: list[Struct] = []

    def visit(struct: Struct) -> None:
        for item in struct.fields:
            inner = item.struct
            if inner is not None and inner.versions and inner not in ordered:
                visit(inner)
                ordered.append(inner)

    visit(root)
    return [struct for struct in ordered if struct.versions]
