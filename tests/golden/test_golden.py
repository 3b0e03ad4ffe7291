"""The Java client's bytes, checked without Java: see tools/oracle/golden.py."""

import json
from collections import defaultdict
from importlib import import_module
from typing import Any

import pytest

from aiokafka_lite.protocol.message import Message
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.protocol.registry import API_MODULES
from tools.oracle.golden import CORPUS, plain


def corpus() -> dict[str, list[dict[str, Any]]]:
    cases = defaultdict(list)
    for line in CORPUS.read_text().splitlines():
        case = json.loads(line)
        cases[case["message"]].append(case)
    return cases


CASES = corpus()


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden_bytes_decode_and_encode_unchanged(name: str) -> None:
    for case in CASES[name]:
        module = import_module(f"aiokafka_lite.protocol.messages.{case['module']}")
        message: type[Message] = getattr(module, name)
        reader = Reader(bytes.fromhex(case["hex"]))
        decoded = message.decode(reader, case["version"])
        reader.expect_end()
        assert plain(decoded) == case["value"], (name, case["version"])
        out = bytearray()
        decoded.encode(out, case["version"])
        assert out.hex() == case["hex"], (name, case["version"])


def test_corpus_has_every_version_of_every_message() -> None:
    for module, name, _ in API_MODULES.values():
        for kind in ("Request", "Response"):
            message = getattr(
                import_module(f"aiokafka_lite.protocol.messages.{module}"), name + kind
            )
            known = {case["version"] for case in CASES[name + kind]}
            spoken = set(range(message.min_version, message.max_version + 1))
            assert known == spoken, name + kind
