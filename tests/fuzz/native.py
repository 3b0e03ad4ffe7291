"""Random misuse of every native class and function; they may raise but must not crash.

    python -m tests.fuzz.native --programs 100000 --seed 1
    python -m tests.fuzz.native --seed 1 --only 4711     each step of one program, as it is taken

A program makes objects of the native modules, correctly or incorrectly, and does at random what
Python can do to them: call constructors and bare `__new__`, call methods with wrong arguments or
another class's object for `self`, read, set and delete attributes, subclass, iterate, await, copy,
compare, and change the containers that they were given. The programs run in a child process, so
that a crash can be reported. Any exception is fine but a SystemError, which is a bug of native code
that raised it.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import faulthandler
import functools
import gc
import importlib
import os
import pickle
import pkgutil
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from array import array
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from types import ModuleType, SimpleNamespace, coroutine
from typing import Any

import aiokafka_lite
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool
from aiokafka_lite.producer.idempotence import ProducerIdentity
from aiokafka_lite.record.columnar.column_rows import Field, Stamps
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.structs import TopicPartition

STEPS = 16
"""Maximum number of steps of a program."""

TOGETHER = 50
"""Programs between two garbage collections."""

PATIENCE = 300
"""Seconds for this many programs; a longer run counts as hanging."""

MANY = 1000
"""Maximum number of partitions requested: a topic's queues are created one by one."""

COUNTED = {"TopicQueues", "grow"}
"""The functions that take a number of partitions, which their callers have checked."""

ORDERS = TopicPartition("orders", 0)


@functools.cache
def native_modules() -> list[ModuleType]:
    """Every native module, or none if nothing was compiled."""
    names = (
        each.name for each in pkgutil.walk_packages(aiokafka_lite.__path__, "aiokafka_lite.")
        if each.name.endswith("_native")
    )  # fmt: skip
    return [importlib.import_module(name) for name in names]


class Loop:
    """An event loop as far as the native classes use one: it seems to run in this thread."""

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self.soon: list[tuple[Any, ...]] = []

    def time(self) -> float:
        return time.monotonic()

    def is_closed(self) -> bool:
        return False

    def call_soon(self, *call: Any, context: Any = None) -> None:
        self.soon.append(call)

    def call_exception_handler(self, context: Any) -> None:
        """Whatever went wrong in a callback."""


class Liar:
    """Claims to be an instance of any class, and has every attribute."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    @property  # type: ignore[misc]  # what `isinstance` asks last
    def __class__(self) -> type:
        return self._kind

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Acting(list[Any]):
    """Headers that act when they are iterated over."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__([("name", b"value")])
        self._act = act

    def __iter__(self) -> Any:
        with contextlib.suppress(Exception):
            self._act()
        return super().__iter__()


async def _handle(record: Any) -> None:
    """Ignore it."""


@coroutine
def _suspend(record: Any) -> Any:
    yield record


class Maker:
    """Valid objects of the native classes, and other possible arguments."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.loop = Loop()
        self.modules = {m.__name__.rpartition("._")[2]: m for m in native_modules()}
        self.classes = [
            each
            for module in self.modules.values()
            for each in vars(module).values()
            if isinstance(each, type) and each.__module__ == module.__name__
        ]
        self.functions = [
            each
            for module in self.modules.values()
            for each in vars(module).values()
            if callable(each)
            and not isinstance(each, type)
            and getattr(each, "__module__", None) == module.__name__
        ]
        self.makers: list[Callable[[], Any]] = [
            getattr(self, name) for name in dir(type(self)) if name.startswith("make_")
        ]

    def make_builder(self) -> Any:
        kind = self.modules["batch_native"].BatchBuilder
        if self.chance.random() < 0.5:
            return kind(1000, bytearray(1000))
        builder = kind(self.chance.choice((100, 1000, 1 << 20)))
        for _ in range(self.chance.randrange(4)):
            builder.append(1, b"key", b"value", [("header", b"x")])
        return builder

    def make_sealed(self) -> Any:
        builder = self.make_builder()
        builder.append(1, None, b"value", ())
        return builder.seal(self.chance.choice((Compression.NONE, Compression.GZIP)))

    def make_record_set(self) -> Any:
        data = b"".join(bytes(self.make_sealed()) for _ in range(self.chance.randrange(3)))
        kind: Any = self.chance.choice((bytes, bytearray, memoryview))
        return self.modules["record_set_native"].RecordSet(kind(data), "orders", 0, 0)

    def make_columns(self) -> Any:
        read = self.modules["columns_native"].read_columns
        while (columns := read(self.make_record_set(), 10)) is None:
            pass
        return columns

    def make_arrow(self) -> Any:
        rows = self.modules["arrow_native"].ArrowRows(["key", "value", "headers"], 100, 10_000)
        columns = self.make_columns()
        rows.add(columns, 0, columns.count)
        return rows

    def make_field(self) -> Any:
        offsets = array("i", sorted(self.chance.choices(range(7), k=4)))
        if self.chance.random() < 0.2:
            offsets[self.chance.randrange(4)] = self.chance.choice((-1, 7, 2**31 - 1))
        return Field("values", memoryview(b"abcdef"), memoryview(offsets))

    def make_rows(self) -> Any:
        stamps = Stamps(memoryview(array("q", [1, 2, 3])), self.chance.choice(("s", "ms", "ns")))
        while True:
            with contextlib.suppress(ValueError):
                return self.modules["column_rows_native"].Rows(
                    3, self.make_field(), self.make_field(), stamps, 1
                )

    def make_order(self) -> Any:
        return bytearray(array("i", self.chance.choices((-1, 0, 1, 2, 3), k=3)))

    def make_batch(self) -> Any:
        kind = self.modules["ack_native"].ProducerBatch
        return kind(self.loop, ORDERS, self.make_builder(), bytearray(9), 0.0)

    def make_ack(self) -> Any:
        return self.make_batch().ack(0, 1)

    def make_wait(self) -> Any:
        ack = self.make_ack()
        ack.add_done_callback(len, context=copy_context())
        return ack.__await__()

    def make_queue(self) -> Any:
        queue = self.modules["accumulator_native"].PartitionQueue(ORDERS)
        queue.open = self.make_batch()
        queue.waiting.append(queue.open)
        return queue

    def make_topic(self) -> Any:
        return self.modules["accumulator_native"].TopicQueues("orders", 3, 0)

    def make_core(self) -> Any:
        core = self.modules["accumulator_native"].AppendCore(self.loop, None, None, None)
        core.topics["orders"] = self.make_topic()
        return core

    def make_batch_core(self) -> Any:
        options = SimpleNamespace(
            key_serializer=None, value_serializer=None, partitioner=None, ignore_keys=False,
            max_batch_size=1000, acks=-1, max_in_flight=5, linger=self.chance.choice((0.0, 1.0)),
            max_request_size=1 << 20, compression=Compression.NONE, compression_level=None,
            adaptive=True, availability_timeout=0.0,
        )  # fmt: skip
        told: list[Any] = []
        core = self.modules["batches_native"].BatchCore(
            self.loop, options, MemoryPool(1 << 20, 1000, str), ProducerIdentity(False),
            told.append, told.append, told.append, told.clear,
        )  # fmt: skip
        core.topics["orders"] = self.make_topic()
        return core

    def make_sends(self) -> Any:
        return self.modules["send_native"].SendCalls(self.make_batch_core())

    def make_sent(self) -> Any:
        sends = self.make_sends()
        call = self.chance.choice((sends.send, sends.send_and_wait))
        return call("orders", b"value", headers=Acting(lambda: sends.send("orders", b"inner")))

    def make_chunk(self) -> Any:
        return self.modules["delivery_native"].Chunk(self.make_record_set().read(9), 0, 9)

    def make_delivery(self) -> Any:
        delivery = self.modules["delivery_native"].Delivery()
        delivery.current = self.make_chunk()
        delivery.until = time.monotonic() + 60
        return delivery

    def make_stream(self) -> Any:
        return self.modules["delivery_native"].RecordStream(self.make_delivery(), list, None)

    def make_receiver(self) -> Any:
        buffers = SimpleNamespace(take=bytearray)
        receiver = self.modules["frames_native"].FrameReceiver(1 << 20, buffers)
        receiver.window()[:8] = b"\0\0\0\4abcd"
        return receiver

    def make_reader(self) -> Any:
        data = bytes(self.chance.randrange(256) for _ in range(self.chance.randrange(60)))
        kind: Any = self.chance.choice((bytes, bytearray, memoryview))
        return self.modules["reader_native"].Reader(kind(data), len(data) // 3)

    def make_record(self) -> Any:
        return self.modules["consumer_record_native"].ConsumerRecord(
            "orders", 0, 0, 0, 0, b"key", b"value", None, 3, 5, ()
        )

    def make_marks(self) -> Any:
        native = self.modules["record_marks_native"]
        marks = native.Marks(0, bytearray(self.chance.choice((0, 1, 9))), 1.0)
        for offset in range(self.chance.randrange(3)):
            marks.hold(offset)
        marks.outcome = native.OutcomeCore()
        return marks

    def make_acknowledgement(self) -> Any:
        native = self.modules["record_marks_native"]
        return native.Acknowledgement(native.OutcomeCore(), self.chance.choice((0, 2**62)))

    def make_share_record(self) -> Any:
        native = self.modules["share_record_native"]
        marks = self.modules["record_marks_native"].Marks(0, bytearray(9), 1.0)
        return native.AcquiredPicker([(0, 9, 1)], [marks]).pick([self.make_record()])[0]

    def make_picker(self) -> Any:
        marks = self.modules["record_marks_native"].Marks(0, bytearray(9), 1.0)
        ranges = self.chance.choice(([(0, 9, 1)], [(0, 0, 1), (2, 5, 3)], [], ()))
        return self.modules["share_record_native"].AcquiredPicker(ranges, [marks])

    def make_slot(self) -> Any:
        native = self.modules["slot_native"]
        handled: Any = self.chance.choice((len, _handle, _suspend))
        tally = native.Tally(list)
        slot = native.Slot(deque([self.make_share_record(), self.make_record()]), handled, tally)
        return slot.handle(self.chance.choice((0, 1, 9)))

    def value(self, objects: list[Any]) -> Any:
        """Any argument."""
        chance = self.chance
        way = chance.random()
        if objects and way < 0.25:
            return chance.choice(objects)
        if way < 0.4:
            return chance.choice(self.makers)()
        return chance.choice(
            (
                lambda: chance.choice((0, 1, -1, 2, 7, 61, 100, 127, 128, -128, 255)),
                lambda: chance.choice((2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64, 2**31)),
                lambda: chance.choice((True, None, 0.0, -1.5, float("nan"), float("inf"))),
                lambda: chance.choice(("", "orders", "key", "\ud800", "x" * 300)),
                lambda: bytes(chance.randrange(256) for _ in range(chance.choice((0, 1, 61, 200)))),
                lambda: bytearray(chance.choice((0, 4, 61, 1000))),
                lambda: memoryview(bytearray(chance.choice((0, 61, 1000)))),
                lambda: [self.value(objects) for _ in range(chance.randrange(3))],
                lambda: tuple(self.value(objects) for _ in range(chance.randrange(3))),
                lambda: {"orders": self.value(objects)},
                lambda: deque([self.value(objects)]),
                lambda: Liar(chance.choice((*self.classes, tuple, list, memoryview, bytes))),
                lambda: chance.choice(self.classes),
                lambda: SimpleNamespace(count=chance.choice((0, 1, 2**61)), data=b"", topic="t"),
                lambda: self.loop,
                lambda: copy_context(),
                lambda: len,
                lambda: StopIteration(1),
                lambda: ORDERS,
                lambda: Acting(lambda: self.act(objects)),
            )
        )()

    def act(self, objects: list[Any]) -> None:
        """The headers' action in the middle of a call: change or call something."""
        which = self.chance.choice(objects) if objects else self.loop
        for name in self.chance.sample(("acknowledge", "fail", "append", "seal", "clear"), 2):
            with contextlib.suppress(Exception):
                getattr(which, name)(1, b"key", b"value")


def iterate(thing: Any) -> Any:
    """iter(), but for a memoryview: CPython raises SystemError if it is released."""
    return None if type(thing) is memoryview else iter(thing)


class Program:
    """One random program.

    Args:
        chance: Source of randomness.
        tell: Called with each step before it is taken.
    """

    def __init__(self, chance: random.Random, tell: Callable[[str], None]) -> None:
        self.chance = chance
        self.maker = Maker(chance)
        self.objects: list[Any] = []
        self.tell = tell

    def run(self) -> None:
        ways = (
            self.make, self.make, self.construct, self.bare, self.subclass, self.call, self.call,
            self.call, self.call, self.call, self.wrong_self, self.function, self.set, self.set,
            self.delete, self.use, self.use, self.change,
        )  # fmt: skip
        for _ in range(self.chance.randrange(2, STEPS)):
            way = self.chance.choice(ways)
            try:
                result = way()
            except SystemError:
                raise
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and not error.args:
                    raise
                continue
            if result is not None and not isinstance(result, bool | int | str):
                self.objects.append(result)

    def arguments(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        given = [
            self.maker.value(self.objects) for _ in range(self.chance.choice((0, 1, 2, 3, 5, 6)))
        ]
        if name in COUNTED:
            given = [each % MANY if isinstance(each, int) else each for each in given]
        named = {}
        if self.chance.random() < 0.1:
            named[self.chance.choice(("headers", "offset", "context", "limit"))] = given[:1]
        return given, named

    def called(self, function: Any, *before: Any) -> Any:
        name = getattr(function, "__name__", "")
        given, named = self.arguments(name)
        self.tell(f"{function!r}(*{before!r}, *{kinds(given)}, **{kinds(named.values())})")
        return function(*before, *given, **named)

    def pick(self) -> Any:
        return self.chance.choice(self.objects) if self.objects else self.make()

    def name_of(self, thing: Any) -> str:
        names = [name for name in dir(type(thing)) if name not in ("__class__", "__dict__")]
        own = [name for name in names if not name.startswith("__")]
        return self.chance.choice(own if own and self.chance.random() < 0.85 else names)

    def make(self) -> Any:
        maker = self.chance.choice(self.maker.makers)
        self.tell(maker.__name__)
        return maker()

    def construct(self) -> Any:
        return self.called(self.chance.choice(self.maker.classes))

    def bare(self) -> Any:
        kind = self.chance.choice(self.maker.classes)
        if self.chance.random() < 0.7:
            self.tell(f"{kind}.__new__")
            return kind.__new__(kind)
        return self.called(kind.__new__, kind)

    def subclass(self) -> Any:
        kind = self.chance.choice(self.maker.classes)
        self.tell(f"subclass of {kind}")
        heir = type("Heir", (kind,), {})
        return heir.__new__(heir) if self.chance.random() < 0.5 else self.called(heir)

    def call(self) -> Any:
        thing = self.pick()
        return self.called(getattr(thing, self.name_of(thing)))

    def wrong_self(self) -> Any:
        kind = self.chance.choice(self.maker.classes)
        names = [name for name in vars(kind) if callable(getattr(kind, name, None))]
        method = getattr(kind, self.chance.choice(names))
        return self.called(method, self.maker.value(self.objects))

    def function(self) -> Any:
        return self.called(self.chance.choice(self.maker.functions))

    def set(self) -> None:
        thing = self.pick()
        name = self.name_of(thing)
        value = self.maker.value(self.objects)
        self.tell(f"set {type(thing)}.{name} to {type(value)}")
        setattr(thing, name, value)

    def delete(self) -> None:
        thing = self.pick()
        name = self.name_of(thing)
        self.tell(f"delete {type(thing)}.{name}")
        delattr(thing, name)

    def use(self) -> Any:
        thing = self.pick()
        way: Callable[[Any], Any] = self.chance.choice(
            (
                repr, len, iterate, next, hash, bool, copy.copy, copy.deepcopy, pickle.dumps,
                lambda it: it == self.maker.value(self.objects), lambda it: it.send(None),
                lambda it: next(it.__await__()), lambda it: it.__aiter__().__anext__(),
                lambda it: it.throw(ValueError("mine")), lambda it: it.wake(),
                lambda it: it.acknowledge(1, 2, 3), lambda it: it.fail(ValueError("mine")),
                lambda it: it.read(5), lambda it: it.seal(), lambda it: it.on_received(8),
                lambda it: memoryview(it), lambda it: it[:3],
                lambda it: it.append(1, b"k", b"v", ()),
                lambda it: it.append("orders", b"v", None, None, None, None),
            )
        )  # fmt: skip
        self.tell(f"{way} of {type(thing)}")
        return way(thing)

    def change(self) -> None:
        """Change the containers and buffers that an object received or returned."""
        thing = self.pick()
        inside = [thing]
        for name in dir(type(thing)):
            if not name.startswith("__"):
                with contextlib.suppress(Exception):
                    inside.append(getattr(thing, name))
        held = [each for each in inside if isinstance(each, list | dict | bytearray | deque)]
        if not held:
            return
        which = self.chance.choice(held)
        self.tell(f"change a {type(which)} of {type(thing)}")
        if self.chance.random() < 0.5:
            which.clear()
        elif isinstance(which, dict):
            which["orders"] = self.maker.value(self.objects)
        else:
            which.append(self.maker.value(self.objects))


def kinds(values: Any) -> list[str]:
    return [repr(each) if isinstance(each, int | str) else type(each).__name__ for each in values]


def run(programs: range, seed: int, current: Path, tell: Callable[[str], None]) -> None:
    """Run the programs here; the file `current` contains the number of the current one."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    with current.open("w") as file:
        for number in programs:
            if number % TOGETHER == 0:
                faulthandler.dump_traceback_later(PATIENCE, exit=True)
                gc.collect()
            os.pwrite(file.fileno(), b"%20d" % number, 0)
            Program(random.Random(f"{seed}:{number}"), tell).run()


def judge(programs: range, seed: int) -> int:
    """Run the programs in a child process; 0 if it survives."""
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder) / "current"
        command = [sys.executable, "-m", "tests.fuzz.native", "--child", str(current)]
        command += ["--seed", str(seed), "--first", str(programs.start), "--programs"]
        started = time.monotonic()
        child = subprocess.run([*command, str(len(programs))], check=False)
        if child.returncode:
            print(f"FAILED: exit code {child.returncode}: program {current.read_text().strip()}")
            print(
                f"  python -m tests.fuzz.native --seed {seed} --only {current.read_text().strip()}"
            )
            return 1
    seconds = time.monotonic() - started
    print(f"native fuzz: seed {seed}, {len(programs)} programs, {seconds:.0f} s")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.native")
    parser.add_argument("--programs", "--frames", type=int, default=200_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument("--only", type=int, default=None, help="one program, step by step")
    parser.add_argument("--child", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not native_modules():
        print("native fuzz: nothing was compiled")
        return 0
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    programs = range(options.first, options.first + options.programs)
    if options.only is not None:
        run(
            range(options.only, options.only + 1),
            seed,
            Path(os.devnull),
            lambda s: print(s, flush=True),
        )
        return 0
    if options.child is None:
        return judge(programs, seed)
    try:
        run(programs, seed, options.child, lambda _: None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
