"""Every decoder reads hostile bytes or raises KafkaProtocolError, with little memory."""

import random
import struct
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol import framing
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.messages.metadata import MetadataResponse
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.protocol.registry import API_MODULES, request_class, response_class
from tests.fuzz.costs import CPU_LIMIT, Costs
from tests.fuzz.protocol import DAMAGES, corpus, decode_hostile, run

SAMPLES = corpus()

decoders = st.sampled_from(
    [
        (message, version)
        for api_key in API_MODULES
        for message in (request_class(api_key), response_class(api_key))
        for version in range(message.min_version, message.max_version + 1)
    ]
)


@given(decoders, st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_random_bytes_raise_protocol_errors(decoder, raw: bytes) -> None:
    message, version = decoder
    try:
        message.decode(Reader(raw), version)
    except KafkaProtocolError:
        pass  # refused: one of the two allowed ends


@given(st.sampled_from(SAMPLES), st.sampled_from(DAMAGES), st.integers(0, 2**32))
@settings(max_examples=1500, deadline=None)
def test_damaged_messages_raise_protocol_errors(sample, damage, seed: int) -> None:
    chance = random.Random(seed)
    raw = bytes(damage(bytearray(sample[2]), chance))
    assert decode_hostile(sample, raw, chance, Costs()) in ("decoded", "refused")


def test_input_that_costs_too_much_fails_the_fuzzer() -> None:
    def blocks_the_loop() -> None:
        end = time.thread_time() + 2 * CPU_LIMIT
        while time.thread_time() < end:
            pass

    with pytest.raises(AssertionError, match=r"100 bytes took 2\d\.\d ms"):
        Costs().check(100, blocks_the_loop)


def test_input_that_allocates_too_much_fails_the_fuzzer() -> None:
    def check_often() -> None:
        costs = Costs()
        for _ in range(100):
            costs.check(100, lambda: bytes(200_000))

    with pytest.raises(AssertionError, match="100 bytes allocated"):
        check_often()


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_random_request_frames_raise_protocol_errors(raw: bytes) -> None:
    try:
        framing.decode_request(struct.pack(">hh", 3, 12) + raw)
    except KafkaProtocolError:
        pass  # refused: one of the two allowed ends


def test_every_prefix_of_every_sample_raises() -> None:
    for message, version, raw in SAMPLES[::7]:
        for size in range(len(raw)):
            with pytest.raises(KafkaProtocolError):
                message.decode(Reader(raw[:size]), version)


@pytest.mark.parametrize(
    ("message", "version", "raw"),
    [
        (MetadataResponse, 0, struct.pack(">i", 2**31 - 1) + b"\0" * 1000),
        (MetadataResponse, 12, bytes(4) + b"\xff\xff\xff\xff\x0f" + b"\0" * 1000),
        (FetchResponse, 4, bytes(4) + struct.pack(">i", 2**31 - 1) + b"\0" * 1000),
        (FetchResponse, 12, bytes(10) + b"\xff\xff\xff\xff\x07" + b"\0" * 1000),
    ],
)
def test_large_count_allocates_no_memory(message, version: int, raw: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(KafkaProtocolError):
            message.decode(Reader(raw), version)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_short_run_of_the_protocol_fuzzer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(3000, seed=1) == 0
    output = capsys.readouterr().out
    assert "3000 frames" in output
    assert "flipped_bits" in output
