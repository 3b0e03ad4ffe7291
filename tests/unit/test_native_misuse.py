"""Misuse of native classes raises an exception and never crashes."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafka_lite.structs import TopicPartition
from tests.fuzz import native as fuzz

pytestmark = pytest.mark.skipif(not fuzz.native_modules(), reason="nothing was compiled")

ROOT = Path(__file__).parents[2]
MODULES = {module.__name__.rpartition("._")[2]: module for module in fuzz.native_modules()}


def test_random_misuse_crashes_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.native", "--programs", "400", "--seed", "20261122"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in MODULES.values():
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                for name in vars(kind):
                    method = getattr(kind, name)
                    # Names shared with twins, and static methods, accept any self.
                    if type(method).__name__ not in ("method_descriptor", "cyfunction"):
                        continue
                    yield f"{kind.__name__}.{name}", method


@pytest.mark.parametrize(("name", "method"), list(methods()))
@pytest.mark.parametrize("wrong", [5, b"x" * 400, "text", None, TopicPartition("orders", 0)])
def test_method_called_with_a_wrong_self_raises(
    name: str, method: Callable[..., Any], wrong: Any
) -> None:
    with pytest.raises(TypeError):
        method(wrong)
    with pytest.raises(TypeError):
        method(wrong, 1, b"key", b"value", ())


@pytest.mark.parametrize(
    "name",
    ["ack_native.Ack", "ack_native.Wait", "send_native.SendResult", "send_native.StoredResult"],
)
def test_internal_objects_cannot_be_created_directly(name: str) -> None:
    module, _, kind = name.partition(".")
    with pytest.raises(TypeError):
        getattr(MODULES[module], kind)()


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("ack_native.Ack", repr),
        ("ack_native.Ack", lambda ack: ack.done()),
        ("ack_native.Ack", lambda ack: next(ack.__await__())),
        ("ack_native.Ack", lambda ack: ack.add_done_callback(print)),
        ("ack_native.Wait", next),
        ("ack_native.Wait", lambda wait: wait.get_loop()),
        ("ack_native.Wait", lambda wait: wait.cancel()),
        ("send_native.StoredResult", next),
        ("accumulator_native.AppendCore", lambda core: core.append(1, *[None] * 5)),
        ("batches_native.BatchCore", lambda core: core.next_time()),
        ("consumer_record_native.ConsumerRecord", lambda record: record.topic),
    ],
)
def test_uninitialized_object_raises(name: str, use: Callable[[Any], Any]) -> None:
    module, _, attribute = name.partition(".")
    kind = getattr(MODULES[module], attribute)
    with pytest.raises((AttributeError, TypeError)):
        use(kind.__new__(kind))


@pytest.mark.parametrize(
    "name",
    [
        "ack_native.ProducerBatch",
        "accumulator_native.PartitionQueue",
        "accumulator_native.TopicQueues",
        "delivery_native.Chunk",
        "delivery_native.RecordStream",
        "frames_native.FrameReceiver",
        "batch_native.BatchBuilder",
        "record_set_native.RecordSet",
        "arrow_native.ArrowRows",
    ],
)
def test_classes_with_arguments_require_them(name: str) -> None:
    module, _, attribute = name.partition(".")
    kind = getattr(MODULES[module], attribute)
    with pytest.raises(TypeError):
        kind.__new__(kind)


def test_wait_accepts_one_callback() -> None:
    builder = MODULES["batch_native"].BatchBuilder(1000)
    where = TopicPartition("orders", 0)
    batch = MODULES["ack_native"].ProducerBatch(fuzz.Loop(), where, builder, None, 0.0)
    wait = batch.ack(0, 1).__await__()
    wait.add_done_callback(print, context=None)
    with pytest.raises(RuntimeError, match="one callback"):
        wait.add_done_callback(print, context=None)


def test_records_of_a_chunk_may_be_removed() -> None:
    records: list[Any] = [1, 2, 3]
    chunk = MODULES["delivery_native"].Chunk(records, 0, 3)
    delivery = MODULES["delivery_native"].Delivery()
    delivery.current, delivery.until = chunk, float("inf")
    assert delivery.take() == 1
    records.clear()
    with pytest.raises(RuntimeError, match="removed"):
        delivery.take()
    with pytest.raises(IndexError):
        _ = chunk.position


def test_negative_frame_length_is_rejected_for_any_limits() -> None:
    receiver = MODULES["frames_native"].FrameReceiver(100, None, -100)
    receiver.window()[:8] = b"\xff\xff\xff\xceabcd"
    assert receiver.on_received(8) == []
    assert receiver.error is not None


def test_columns_changed_while_being_gathered() -> None:
    starts = bytearray(8 * 1000)
    numbers = [bytearray(8 * 1000) for _ in range(8)]

    class Shrinking(SimpleNamespace):
        @property
        def data(self) -> bytes:
            starts.clear()  # BufferError: it is held
            return b""

    columns = Shrinking(
        count=1000, topic="orders", partition=0, offsets=numbers[0], timestamps=numbers[1],
        timestamp_types=numbers[2], key_starts=starts, key_lengths=numbers[3],
        value_starts=numbers[4], value_lengths=numbers[5], header_starts=numbers[6],
        header_counts=numbers[7],
    )  # fmt: skip
    rows = MODULES["arrow_native"].ArrowRows(["key"], 1000, 1000)
    with pytest.raises(BufferError):
        rows.add(columns, 0, 1000)
    columns.count = 2**61  # eight times as many bytes overflow 64 bits to zero
    with pytest.raises(ValueError, match="shorter"):
        rows.add(columns, 0, 2**61)
    starts.clear()  # no longer held


def test_topic_name_that_changes_between_two_reads() -> None:
    names = iter((b"a", b"a" * 100_000))

    class Names:
        def __getitem__(self, _: str) -> bytes:
            return next(names)

    wire, acks = MODULES["produce_codec_native"], MODULES["ack_native"]
    where = TopicPartition("orders", 0)
    batch = acks.ProducerBatch(None, where, MODULES["batch_native"].BatchBuilder(1000), None, 0.0)
    batch.payload = b"payload"
    queue = MODULES["accumulator_native"].PartitionQueue(where)
    pieces = wire.encode_frame(9, 1, None, -1, 1000, [(queue, batch)], Names())
    assert len(b"".join(pieces)) < 100
    with pytest.raises(TypeError, match="None"):
        wire.encode_frame(9, 1, None, -1, 1000, [(queue, batch)], {"orders": None})


@pytest.mark.parametrize("module", ["native", "python"])
def test_negative_record_count_of_a_chunk_raises(module: str) -> None:
    chunk = importlib.import_module(f"aiokafka_lite.consumer.partitions._delivery_{module}").Chunk(
        [1], 0, 1
    )
    with pytest.raises(ValueError, match="-5"):
        chunk.take_many(-5)
    assert chunk.take_many(2**62) == [1]
