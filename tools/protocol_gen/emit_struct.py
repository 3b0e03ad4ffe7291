"""Writes one class: `__slots__`, `__init__`, `encode` and `decode`.

Consecutive fields with the same versions share one `if`, and consecutive fixed-size fields among
them are packed and unpacked by one layout.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from itertools import groupby

from tools.protocol_gen import types
from tools.protocol_gen.schema import Field, Message, Struct, Versions

WIDTH = 99
BASES = {"request": "Request", "response": "Response", "header": "Message", "data": "Message"}


class StructEmitter:
    """Emits the source of one struct.

    Args:
        message: The message it belongs to.
        struct: The struct, with its `python_name`.
        layouts: Collects the fused layouts used, by name.
    """

    def __init__(self, message: Message, struct: Struct, layouts: dict[str, str]) -> None:
        self.message = message
        self.struct = struct
        self.layouts = layouts
        self.within = struct.versions
        self.flexible = message.flexible & struct.versions
        self.plain = [item for item in struct.fields if not item.tagged]
        self.tagged = sorted(
            (item for item in struct.fields if item.tagged), key=lambda item: item.tag or 0
        )

    def source(self) -> str:
        is_message = self.struct is self.message.root
        base = BASES[self.message.kind] if is_message else "Struct"
        lines = [
            f"class {self.struct.python_name}({base}):",
            *_indent(self._docstring()),
            "",
            *_indent(self._slots()),
        ]
        if is_message:
            lines += ["", *_indent(self._class_variables())]
        for method in (self._init(), self._encode(), self._decode()):
            lines += ["", *_indent(method)]
        return "\n".join(lines) + "\n"

    # Head

    def _docstring(self) -> list[str]:
        message = self.message
        if self.struct is message.root:
            flexible = f", flexible from {message.flexible.low}" if message.flexible else ""
            head = f"{message.name}, versions {message.versions}{flexible}."
        else:
            head = f"Part of {message.name}, versions {self.within}."
        if not self.struct.fields:
            return [f'"""{head}"""']
        lines = [f'"""{head}', "", "Attributes:"]
        for item in self.struct.fields:
            kind = ("[]" if item.array else "") + item.element
            notes = [kind, *self._version_notes(item)]
            entry = f"{item.name}: {', '.join(notes)}. {_about(item)}".rstrip()
            lines += textwrap.wrap(
                entry, WIDTH - 4, initial_indent="    ", subsequent_indent="        "
            )
        return [*lines, '"""']

    def _version_notes(self, item: Field) -> Iterator[str]:
        if item.versions != self.within:
            yield f"versions {item.versions}"
        if item.tagged:
            yield f"tag {item.tag}"
        if item.nullable == item.versions:
            yield "nullable"
        elif item.nullable:
            yield f"nullable in {item.nullable}"

    def _slots(self) -> list[str]:
        names = [item.name for item in self.struct.fields]
        return [f"__slots__ = ({', '.join(repr(name) for name in names)}{',' * (len(names) == 1)})"]

    def _class_variables(self) -> list[str]:
        message = self.message
        flexible = str(message.flexible.low) if message.flexible else "NEVER"
        lines = [
            f'name: ClassVar[str] = "{message.api_name}"',
            f"api_key: ClassVar[int] = {message.api_key}",
            f"min_version: ClassVar[int] = {message.versions.low}",
            f"max_version: ClassVar[int] = {message.versions.high}",
            f"flexible_from: ClassVar[int] = {flexible}",
        ]
        if message.kind == "request":
            response = message.name.removesuffix("Request") + "Response"
            lines.append(f"response: ClassVar[type[{response}]]")
        return lines

    def _init(self) -> list[str]:
        if not self.struct.fields:
            body = ["def __init__(self) -> None:"]
        else:
            parameters = [types.parameter(item) for item in self.struct.fields]
            body = [
                "def __init__(",
                "    self,",
                *(f"    {parameter}," for parameter, _ in parameters),
                ") -> None:",
                *(f"    {assignment}" for _, assignment in parameters),
            ]
        return [*body, "    self.unknown_tagged_fields = {}"]

    def _flexible_line(self, body: list[str]) -> list[str]:
        if not any(re.search(r"\bflexible\b", line) for line in body):
            return []
        if not self.flexible:
            return ["flexible = False"]
        return [f"flexible = {types.condition(self.flexible, self.within) or True}"]

    def _groups(self) -> Iterator[tuple[Versions, list[Field]]]:
        for versions, items in groupby(self.plain, key=lambda item: item.versions):
            yield versions, list(items)

    # Encoding

    def _encode(self) -> list[str]:
        body: list[str] = []
        for versions, items in self._groups():
            when = types.condition(versions, self.within)
            lines = [line for run in _runs(items) for line in self._write_run(run)]
            if not when:
                body += lines
                continue
            body += [f"if {when}:", *_indent(lines)]
            checked = [item for item in items if not item.ignorable]
            for item in checked:
                body += [f"elif {types.is_set(item)}:", *_indent(self._refuse(item))]
        body += self._encode_tagged()
        return [
            "def encode(self, out: bytearray, version: int) -> None:",
            *_indent([*self._flexible_line(body), *body]),
        ]

    def _refuse(self, item: Field) -> list[str]:
        return [f'raise unsupported(self, "{item.name}", version)']

    def _write_run(self, run: list[Field]) -> list[str]:
        if len(run) > 1:
            values = ", ".join(f"self.{item.name}" for item in run)
            return [f"out += {self._layout(run)}.pack({values})"]
        return self._write(run[0], "out")

    def _layout(self, run: list[Field]) -> str:
        codes = [types.LAYOUT_CODES[item.element] for item in run]
        parts = []
        for code, group in groupby(codes):
            count = len(list(group))
            parts.append((f"{count}" if count > 1 else "") + types.LAYOUT_NAMES[code])
        name = "_" + "_".join(parts)
        self.layouts[name] = ">" + "".join(codes)
        return name

    def _write(self, item: Field, out: str) -> list[str]:
        """Statements that write one field to `out` in a version that has it."""
        value = f"self.{item.name}"
        lines: list[str] = []
        if item.nullable and not item.nullable.covers(item.versions):
            within = item.versions
            lines += [
                f"if {value} is None and {types.negation(item.nullable, within)}:",
                *_indent(self._refuse(item)),
            ]
        flexible = self._flexible_argument(item)
        if item.array:
            return lines + self._write_array(item, out, flexible)
        if item.struct is not None:
            if not item.nullable:
                return [*lines, f"{value}.encode({out}, version)"]
            return [
                *lines,
                f"if {value} is None:",
                f"    {out}.append(0xFF)",
                "else:",
                f"    {out}.append(1)",
                f"    {value}.encode({out}, version)",
            ]
        if item.element in types.SINGLE_LAYOUTS:
            return [f"{out} += {types.SINGLE_LAYOUTS[item.element]}.pack({value})"]
        if item.element == "uuid":
            return [f"{out} += {value}.bytes"]
        kind = "string" if item.element == "string" else "bytes"
        prefix = "nullable_" if item.nullable else ""
        return [*lines, f"write_{prefix}{kind}({out}, {value}, {flexible})"]

    def _write_array(self, item: Field, out: str, flexible: str) -> list[str]:
        value = f"self.{item.name}"
        lines = [f"write_array_length({out}, len({value}), {flexible})"]
        if item.struct is not None:
            element = _singular(item.name)
            lines += [f"for {element} in {value}:", f"    {element}.encode({out}, version)"]
        elif item.element == "string":
            lines += [f"for text in {value}:", f"    write_string({out}, text, {flexible})"]
        elif item.element == "uuid":
            lines += [f"for uuid in {value}:", f"    {out} += uuid.bytes"]
        else:
            lines.append(f"write_{item.element}s({out}, {value})")
        if not item.nullable:
            return lines
        return [
            f"if {value} is None:",
            f"    write_array_length({out}, -1, {flexible})",
            "else:",
            *_indent(lines),
        ]

    def _flexible_argument(self, item: Field) -> str:
        return "flexible" if item.flexible is None else "False"

    def _encode_tagged(self) -> list[str]:
        lines: list[str] = []
        for item in self.tagged:
            if not item.ignorable and types.condition(item.tagged, self.within):
                when = f"{types.negation(item.tagged, self.within)} and {types.is_set(item)}"
                lines += [f"if {when}:", *_indent(self._refuse(item))]
        refusal = [
            "if self.unknown_tagged_fields:",
            '    raise unsupported(self, "unknown_tagged_fields", version)',
        ]
        if not self.flexible:
            return lines + refusal
        writing: list[str] = []
        if self.tagged:
            writing.append("tagged: dict[int, bytearray] = {}")
        for item in self.tagged:
            when = types.condition(item.tagged, self.flexible)
            is_set = types.is_set(item)
            writing += [
                f"if {when} and {is_set}:" if when else f"if {is_set}:",
                f"    tagged[{item.tag}] = field = bytearray()",
                *_indent(self._write(item, "field")),
            ]
        known = ", tagged" if self.tagged else ""
        writing.append(f"write_tagged_fields(out, self.unknown_tagged_fields{known})")
        if not types.condition(self.flexible, self.within):
            return lines + writing
        return [*lines, "if flexible:", *_indent(writing), f"el{refusal[0]}", refusal[1]]

    # Decoding

    def _decode(self) -> list[str]:
        body: list[str] = []
        for versions, items in self._groups():
            when = types.condition(versions, self.within)
            lines = [line for run in _runs(items) for line in self._read_run(run)]
            if not when:
                body += lines
                continue
            defaults = [f"self.{item.name} = {types.default(item)}" for item in items]
            body += [f"if {when}:", *_indent(lines), "else:", *_indent(defaults)]
        body += self._decode_tagged()
        return [
            "@classmethod",
            "def decode(cls, reader: Reader, version: int) -> Self:",
            *_indent([*self._flexible_line(body), "self = cls.__new__(cls)", *body, "return self"]),
        ]

    def _read_run(self, run: list[Field]) -> list[str]:
        if len(run) > 1:
            targets = ", ".join(f"self.{item.name}" for item in run)
            return [f"{targets} = reader.unpack({self._layout(run)})"]
        return self._read(run[0])

    def _read(self, item: Field) -> list[str]:
        target = f"self.{item.name}"
        flexible = self._flexible_argument(item)
        if item.array:
            return self._read_array(item, flexible)
        if item.struct is not None:
            decoded = f"{item.struct.python_name}.decode(reader, version)"
            if item.nullable:
                if not item.nullable.covers(item.versions):
                    raise ValueError(f"{item.schema_name}: a struct nullable in some versions")
                decoded += " if reader.present() else None"
            return [f"{target} = {decoded}"]
        if item.element == "uuid":
            return [f"{target} = reader.uuid()"]
        if item.element in types.SINGLE_LAYOUTS:
            method = "boolean" if item.element == "bool" else item.element
            return [f"{target} = reader.{method}()"]
        kind = "bytes_" if item.element == "bytes" else item.element
        return [f"{target} = {self._maybe_null(item, kind, kind.rstrip('_'), flexible)}"]

    def _maybe_null(self, item: Field, plain: str, nullable: str, flexible: str) -> str:
        always = f"reader.{plain}({flexible})"
        if not item.nullable:
            return always
        maybe = f"reader.nullable_{nullable}({flexible})"
        when = types.condition(item.nullable, item.versions)
        return f"{maybe} if {when} else {always}" if when else maybe

    def _read_array(self, item: Field, flexible: str) -> list[str]:
        count = self._maybe_null(item, "array_length", "array_length", flexible)
        if item.struct is not None:
            inner = f"{item.struct.python_name}.decode(reader, version)"
            values = f"[{inner} for _ in range(count)]"
        elif item.element == "string":
            values = f"[reader.string({flexible}) for _ in range(count)]"
        elif item.element == "uuid":
            values = "[reader.uuid() for _ in range(count)]"
        else:
            values = f"reader.{item.element}s(count)"
        if item.nullable:
            values = f"None if count < 0 else {values}"
        return [f"count = {count}", f"self.{item.name} = {values}"]

    def _decode_tagged(self) -> list[str]:
        lines = [f"self.{item.name} = {types.default(item)}" for item in self.tagged]
        if not self.flexible:
            return [*lines, "self.unknown_tagged_fields = {}"]
        sometimes = bool(types.condition(self.flexible, self.within))
        if not self.tagged:
            value = "reader.tagged_fields()"
            if sometimes:
                value += " if flexible else {}"
            return [*lines, f"self.unknown_tagged_fields = {value}"]
        reading = ["for _ in range(reader.unsigned_varint()):", "    tag, end = reader.tag()"]
        for index, item in enumerate(self.tagged):
            when = types.condition(item.tagged, self.flexible)
            test = f"tag == {item.tag}" + (f" and {when}" if when else "")
            reading += [
                f"    {'if' if index == 0 else 'elif'} {test}:",
                *_indent(self._read(item), 2),
            ]
        reading += [
            "    else:",
            "        self.unknown_tagged_fields[tag] = reader.raw(end - reader.pos)",
            "    reader.expect_tag_end(tag, end)",
        ]
        lines.append("self.unknown_tagged_fields = {}")
        return [*lines, "if flexible:", *_indent(reading)] if sometimes else lines + reading


def _runs(items: list[Field]) -> Iterator[list[Field]]:
    """Groups of adjacent fixed-size fields; every other field alone."""
    for fixed, group in groupby(items, key=types.is_fixed):
        members = list(group)
        if fixed:
            yield members
        else:
            yield from ([member] for member in members)


def _indent(lines: list[str], levels: int = 1) -> list[str]:
    return [("    " * levels + line) if line else line for line in lines]


def _singular(name: str) -> str:
    """The name of one element of an array field."""
    if name.endswith("ies"):
        return name[:-3] + "y"
    return name[:-1] if name.endswith("s") else f"{name}_item"


def _about(item: Field) -> str:
    """The first sentence of the schema's description of the field."""
    text = " ".join(item.about.replace("\\", "\\\\").split())
    sentence = re.split(r"(?<=[a-z0-9)])\. ", text, maxsplit=1)[0].rstrip(".")
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""
