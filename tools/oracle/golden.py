"""The golden corpus: bytes written by the Java client and their meaning, for machines without Java.

Each case is a line of JSON: the message, the version, Java's bytes in hex, and the fields that
differ from their defaults. The test decodes the bytes, compares, encodes and compares again.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from uuid import UUID

from aiokafka_lite.protocol.message import Struct
from tools.oracle import java, judge
from tools.protocol_gen import jars
from tools.protocol_gen.emit_module import module_name

CORPUS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "messages.jsonl"
SEED = 20_4_4
LONGEST = 140
"""Maximum bytes of a case, if a case of that size was drawn, so that the corpus stays small."""


def plain(value: Any) -> Any:
    """A message in plain JSON, without defaults."""
    if isinstance(value, Struct):
        blank = type(value)()
        described = {
            name: plain(getattr(value, name))
            for name in value.__slots__
            if getattr(value, name) != getattr(blank, name)
        }
        if value.unknown_tagged_fields:
            described["unknown_tagged_fields"] = {
                str(tag): field.hex() for tag, field in value.unknown_tagged_fields.items()
            }
        return described
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    return {"uuid": str(value)} if isinstance(value, UUID) else value


def _telling(cases: list[judge.Case]) -> judge.Case:
    """The most varied of the short cases, or the shortest case if none is short."""
    sized = [(len(case.ours() or b""), case) for case in cases]
    short = [case for size, case in sized if size <= LONGEST]
    if not short:
        return min(sized, key=lambda pair: pair[0])[1]
    return max(short, key=lambda case: len(set(case.ours() or b"")))


def rewrite() -> int:
    """Create a new corpus with Java, and check its cases."""
    chance = random.Random(SEED)
    cases = []
    for message, version in judge.spoken(judge.known_messages()):
        drawn = [
            case
            for case in judge.cases_of(message, version, 60, chance)
            if case.kind != "absent" and case.style == "random"
        ]
        cases.append(_telling([case for case in drawn if case.kind == "same"]))
        if version == message.versions.high and version in message.flexible:
            cases.append(_telling([case for case in drawn if case.kind == "tags"]))
    lines = []
    for release in jars.RELEASES:
        mine = [case for case in cases if case.release == release]
        answers = java.ask(release, [case.question() for case in mine])
        for case, answer in zip(mine, answers, strict=True):
            if problem := judge.verdict(case, answer):
                raise SystemExit(f"golden: {case}: {problem}")
            described = {
                "module": module_name(case.message),
                "message": case.message.name,
                "version": case.version,
                "kafka": release,
                "hex": answer,
                "value": plain(case.value),
            }
            lines.append(json.dumps(described, ensure_ascii=False, separators=(",", ":")))
    CORPUS.parent.mkdir(parents=True, exist_ok=True)
    CORPUS.write_text("\n".join(sorted(lines)) + "\n")
    print(f"golden: {len(lines)} cases, {CORPUS.stat().st_size} bytes in {CORPUS}")
    return 0
