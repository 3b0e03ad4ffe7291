"""Decodes many hostile frames with every decoder of the protocol.

    python -m tests.fuzz.protocol --frames 1000000 --seed 1

Frames begin as bytes that the Java client wrote (the golden corpus), are damaged in one of the ways
of `DAMAGES`, and are decoded as the original message or as a different one. A decoder may read them
or raise KafkaProtocolError; anything else fails the run, as does a frame whose decoding takes
longer, or allocates more, than `tests.fuzz.costs` allows for its size. The run prints what it
tried.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol import framing
from aiokafka_lite.protocol.message import Message, Request, Response
from aiokafka_lite.protocol.primitives import Reader
from tests.fuzz.costs import Costs, is_sanitized

CORPUS = Path(__file__).parents[1] / "golden" / "messages.jsonl"
GROWTH_LIMIT = 200 * 1024
"""KiB that the whole run may add to the process: frames are small, so their objects must be."""

Sample = tuple[type[Message], int, bytes]


def corpus() -> list[Sample]:
    """Messages as Java wrote them: class, version, bytes."""
    samples = []
    for line in CORPUS.read_text().splitlines():
        case = json.loads(line)
        module = import_module(f"aiokafka_lite.protocol.messages.{case['module']}")
        samples.append(
            (getattr(module, case["message"]), case["version"], bytes.fromhex(case["hex"]))
        )
    return samples


# Ways to damage bytes


def untouched(raw: bytearray, chance: random.Random) -> bytearray:
    return raw


def cut_short(raw: bytearray, chance: random.Random) -> bytearray:
    return raw[: chance.randrange(len(raw) + 1)]


def garbage_behind(raw: bytearray, chance: random.Random) -> bytearray:
    return raw + chance.randbytes(chance.randrange(1, 40))


def flipped_bits(raw: bytearray, chance: random.Random) -> bytearray:
    for _ in range(chance.randrange(1, 6) if raw else 0):
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    return raw


def absurd_length(raw: bytearray, chance: random.Random) -> bytearray:
    """Insert a length of any width, negative or enormous, somewhere."""
    lie = chance.choice(
        (
            struct.pack(">i", chance.choice((-1, -2, -(2**31), 2**31 - 1, 2**24))),
            struct.pack(">h", chance.choice((-1, -2, -(2**15), 2**15 - 1))),
            b"\xff\xff\xff\xff\x0f",
            b"\xff\xff\xff\xff\x7f",
            b"\x80\x80\x80\x80\x80\x80",
            b"\x00",
        )
    )
    place = chance.randrange(len(raw) + 1)
    raw[place : place + len(lie)] = lie
    return raw


def spliced(raw: bytearray, chance: random.Random) -> bytearray:
    """Copy a part of the frame elsewhere, perhaps repeatedly, so that nestable structures nest."""
    start, end = sorted(chance.randrange(len(raw) + 1) for _ in range(2))
    place = chance.randrange(len(raw) + 1)
    return raw[:place] + raw[start:end] * chance.choice((1, 2, 50)) + raw[place:]


def removed(raw: bytearray, chance: random.Random) -> bytearray:
    start = chance.randrange(len(raw) + 1)
    del raw[start : start + chance.randrange(1, 9)]
    return raw


def random_bytes(raw: bytearray, chance: random.Random) -> bytearray:
    return bytearray(chance.randbytes(chance.choice((0, 1, 4, 16, 64, 300, 3000))))


def one_byte_repeated(raw: bytearray, chance: random.Random) -> bytearray:
    return bytearray([chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))]) * chance.choice((8, 64, 5000))


def long_array(raw: bytearray, chance: random.Random) -> bytearray:
    """Insert an array of many one-byte elements somewhere; each becomes an object."""
    count = chance.choice((100, 1000, 5000))
    more = count + 1
    flexible = bytes([more & 0x7F | 0x80, more >> 7]) if more > 0x7F else bytes([more])
    head = chance.choice((flexible, struct.pack(">i", count)))
    place = chance.randrange(len(raw) + 1)
    return raw[:place] + head + bytes([chance.choice((0, 1))]) * count


Damage = Callable[[bytearray, random.Random], bytearray]
DAMAGES: tuple[Damage, ...] = (
    untouched,
    cut_short,
    garbage_behind,
    flipped_bits,
    flipped_bits,
    absurd_length,
    absurd_length,
    spliced,
    removed,
    random_bytes,
    one_byte_repeated,
    long_array,
)


def decode(sample: Sample, raw: bytes, way: int) -> Message | None:
    """Decode in one of the three ways that bytes reach a decoder; None if it refuses them."""
    message, version, _ = sample
    decoded: Message
    try:
        if way == 0 and issubclass(message, Response):
            head = b"\0\0\0\1" + bytes(framing.response_header_version(message.api_key, version))
            _, decoded = framing.decode_response(head + raw, message, version)
        elif way == 1 and issubclass(message, Request):
            head = struct.pack(">hhi", message.api_key, version, 7)
            head += (b"", b"\xff\xff", b"\xff\xff\0")[
                framing.request_header_version(message.api_key, version)
            ]
            _, decoded = framing.decode_request(head + raw)
        else:
            reader = Reader(memoryview(raw) if way == 2 else raw)
            decoded = message.decode(reader, version)
            reader.expect_end()
    except KafkaProtocolError:
        return None
    return decoded


def decode_hostile(sample: Sample, raw: bytes, chance: random.Random, costs: Costs) -> str:
    """Decode in one of the ways that bytes reach a decoder; return the result.

    A decoded message must be writable, and the written one must be read as the same.
    """
    message, version, _ = sample
    way = chance.randrange(3)
    decoded = costs.check(len(raw), partial(decode, sample, raw, way))
    if decoded is None:
        return "refused"
    written, again = bytearray(), bytearray()
    decoded.encode(written, version)
    message.decode(Reader(written), version).encode(again, version)
    if written != again:
        raise AssertionError(f"{decoded!r} is written as {written.hex()}, then {again.hex()}")
    return "decoded"


def run(frames: int, seed: int) -> int:
    chance = random.Random(seed)
    samples = corpus()
    tried: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    messages: set[tuple[str, int]] = set()
    costs, total = Costs(is_sanitized()), 0
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(frames):
        sample = chance.choice(samples)
        damage = chance.choice(DAMAGES)
        raw = bytes(damage(bytearray(sample[2]), chance))
        if chance.random() < 0.1:
            sample = chance.choice(samples)
        try:
            end = decode_hostile(sample, raw, chance, costs)
        except Exception:
            traceback.print_exc()
            name, version = sample[0].__name__, sample[1]
            print(f"FAILED: frame {number} of seed {seed}: {damage.__name__}, {name} {version}")
            print(f"bytes: {raw.hex()}")
            return 1
        total += len(raw)
        tried[damage.__name__] += 1
        ended[end] += 1
        messages.add((sample[0].__name__, sample[1]))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    seconds = time.monotonic() - started
    print(f"protocol fuzz: seed {seed}, {frames} frames, {total} bytes, {seconds:.0f} s")
    print(f"  decoders: {len(messages)} messages and versions of {len(samples)} samples")
    print("  damages: " + ", ".join(f"{name} {count}" for name, count in sorted(tried.items())))
    print("  ended: " + ", ".join(f"{name} {count}" for name, count in sorted(ended.items())))
    print(f"  a frame: {costs}; the process grew by {grown} KiB")
    if grown > GROWTH_LIMIT:
        print(f"FAILED: memory grew by {grown} KiB")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.protocol")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    return run(options.frames, seed)


if __name__ == "__main__":
    sys.exit(main())
