"""Test cases and their checks.

A case is a message object, a version and an expectation:

- `same`: this client's bytes equal Java's, and Java's bytes decode to the object;
- `tags`: the object has unknown tagged fields, which Java's JSON cannot express: Java decodes this
  client's bytes and encodes them unchanged;
- `absent`: a field is set that the version lacks: both reject it, or both omit it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka_lite.errors import UnsupportedVersionError
from aiokafka_lite.protocol.primitives import Reader
from tools.oracle import java
from tools.oracle.json_form import to_json
from tools.oracle.values import STYLES, Filler
from tools.protocol_gen import jars
from tools.protocol_gen.emit_module import by_module
from tools.protocol_gen.merge import messages
from tools.protocol_gen.schema import Field, Message, Struct

Ask = Callable[[str, Sequence[str]], list[str]]


@dataclass
class Case:
    message: Message
    version: int
    kind: str
    style: str
    value: Any
    extra: Field | None = None

    @property
    def release(self) -> str:
        """The judging release: the newest that has the version."""
        for release, versions in self.message.releases.items():
            if self.version in versions:
                return release
        raise LookupError(f"{self.message.name} {self.version}")

    def ours(self) -> bytes | None:
        """This client's bytes; None if encoding raises."""
        out = bytearray()
        try:
            self.value.encode(out, self.version)
        except UnsupportedVersionError:
            return None
        return bytes(out)

    def question(self) -> str:
        head = f"{self.message.name}\t{self.version}"
        if self.kind == "tags":
            return f"rewrite\t{head}\t{(self.ours() or b'').hex()}"
        form = to_json(self.message.root, self.value, self.version, self.extra)
        return f"write\t{head}\t{json.dumps(form, ensure_ascii=False)}"

    def __str__(self) -> str:
        extra = f" {self.extra.name}" if self.extra else ""
        return f"{self.message.name} v{self.version} {self.kind}/{self.style}{extra}"


def verdict(case: Case, answer: str) -> str | None:
    """The problem of a case; None if it is correct."""
    ours = case.ours()
    if answer.startswith("!"):
        if ours is None and case.kind == "absent":
            return None
        return f"Java refuses: {answer[2:300]}"
    if ours is None:
        return "we refuse, Java does not"
    theirs = bytes.fromhex(answer)
    if ours != theirs:
        return f"bytes differ\n  ours {ours.hex()}\n  Java {theirs.hex()}"
    if case.kind == "absent":
        return None
    reader = Reader(theirs)
    decoded = type(case.value).decode(reader, case.version)
    reader.expect_end()
    return None if decoded == case.value else f"decoded {decoded!r}\n  meant {case.value!r}"


def judge(cases: Sequence[Case], ask: Ask = java.ask) -> list[tuple[Case, str]]:
    """The failed cases, with their problems."""
    failed = []
    for release in jars.RELEASES:
        mine = [case for case in cases if case.release == release]
        answers = ask(release, [case.question() for case in mine])
        for case, answer in zip(mine, answers, strict=True):
            if (problem := verdict(case, answer)) is not None:
                failed.append((case, problem))
    return failed


def known_messages() -> list[Message]:
    """All messages that the generator writes."""
    return [message for members in by_module(messages()).values() for message in members]


def spoken(known: Iterable[Message]) -> list[tuple[Message, int]]:
    """Every message in every version."""
    return [
        (message, version)
        for message in known
        for version in range(message.versions.low, message.versions.high + 1)
    ]


def cases_of(message: Message, version: int, count: int, chance: random.Random) -> Iterator[Case]:
    """`count` cases or so of one message in one version: every edge, then random ones."""

    def case(kind: str, style: str) -> Case:
        filler = Filler(message, version, chance, style, unknown_tags=kind == "tags")
        return Case(message, version, kind, style, filler.message_value())

    yield from (case("same", style) for style in STYLES)
    left = max(1, count - len(STYLES))
    if version in message.flexible:
        tagged = max(1, left // 4)
        yield from (case("tags", "random") for _ in range(tagged))
        left -= tagged
    for _ in range(max(1, left // 4)):
        if (absent := _absent_case(message, version, chance)) is not None:
            yield absent
            left -= 1
    yield from (case("same", "random") for _ in range(left))


def _absent_case(message: Message, version: int, chance: random.Random) -> Case | None:
    """A random message with one field set, anywhere in it, that `version` lacks; None where
    there is no such field."""
    value = Filler(message, version, chance).message_value()
    case = Case(message, version, "absent", "random", value)
    judge_knows = message.releases[case.release]
    settable = [
        (holder, item)
        for struct, holder in _structs_in(message.root, value, version)
        for item in struct.fields
        if version not in item.versions and item.struct is None and item.versions & judge_knows
    ]
    if not settable:
        return None
    holder, case.extra = chance.choice(settable)
    other = Filler(message, case.extra.versions.high, chance, "maximum")
    setattr(holder, case.extra.name, other.field(case.extra, depth=0))
    return case


def _structs_in(struct: Struct, value: Any, version: int) -> Iterator[tuple[Struct, Any]]:
    """A struct's object and all those in it that `version` has."""
    yield struct, value
    for item in struct.fields:
        held = getattr(value, item.name)
        if item.struct is not None and held is not None and version in item.versions:
            for inner in held if item.array else [held]:
                yield from _structs_in(item.struct, inner, version)


def sample(known: Iterable[Message], count: int, seed: int) -> list[Case]:
    """About `count` cases spread evenly over all messages and versions, at least one of each."""
    chance = random.Random(seed)
    pairs = spoken(known)
    each = max(1, -(-count // len(pairs)))
    chosen: list[Case] = []
    for message, version in pairs:
        every = list(cases_of(message, version, max(each, 16), chance))
        chosen += chance.sample(every, min(each, len(every)))
    return chosen
