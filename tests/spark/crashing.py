"""The sink under test, with crashes where a test requests them. Spark's Python workers import
it."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.spark.sink.exactly_once import TaskTransaction
from aiokafka_lite.spark.sink.rows import RowSender
from aiokafka_lite.spark.sink.writer import stream_writer, writer

__all__ = ["DRIVER_POINTS", "TASK_POINTS", "Crashed", "CrashingSink"]

TASK_POINTS = {
    "opened": (TaskTransaction, "open", "after"),
    "first rows sent": (RowSender, "append", "after"),
    "all rows acknowledged": (RowSender, "finish", "after"),
    "mark not sent": (TaskTransaction, "commit", "before"),
    "mark sent": (AIOKafkaProducer, "commit_transaction", "before"),
    "committed": (TaskTransaction, "commit", "after"),
    "closed": (TaskTransaction, "close", "after"),
}
"""In a task: the method, and whether the crash happens before or after it."""

DRIVER_POINTS = ("before the check", "after the check")


class Crashed(RuntimeError):
    """The requested crash."""


class _Plan:
    """When to crash, and how.

    Args:
        options: The writer's options: `crashat` (a point), `crashby` ("raise"; "kill", this
            process; or a number, the process group to kill) and `crashonce` (a file that the crash
            creates, so that it happens once).
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.point = options.get("crashat", "")
        self._by = options.get("crashby", "raise")
        self._once = Path(options.get("crashonce", "/nowhere"))

    def crash(self) -> None:
        try:
            self._once.touch(exist_ok=False)
        except FileExistsError:
            return
        if self._by == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._by != "raise":
            os.killpg(int(self._by), signal.SIGKILL)
        raise Crashed(self.point)

    def armed(self) -> ExitStack:
        """While this is open, the point crashes."""
        stack = ExitStack()
        if self.point in TASK_POINTS:
            owner, name, when = TASK_POINTS[self.point]
            usual = getattr(owner, name)

            async def crashing(*args: Any, **kwargs: Any) -> Any:
                if when == "before":
                    self.crash()
                result = await usual(*args, **kwargs)
                if when == "after":
                    self.crash()
                return result

            stack.enter_context(patch.object(owner, name, crashing))
        return stack


class _CrashingStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, usual: DataSourceStreamArrowWriter, plan: _Plan) -> None:
        self._usual = usual
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with self._plan.armed():
            return self._usual.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if self._plan.point == DRIVER_POINTS[0]:
            self._plan.crash()
        self._usual.commit(messages, batchId)
        if self._plan.point == DRIVER_POINTS[1]:
            self._plan.crash()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._usual.abort(messages, batchId)


class _CrashingWriter(DataSourceArrowWriter):
    def __init__(self, usual: DataSourceArrowWriter, plan: _Plan) -> None:
        self._usual = usual
        self._plan = plan

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with self._plan.armed():
            return self._usual.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._usual.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._usual.abort(messages)


class CrashingSink(DataSource):
    """The sink, with the options of `_Plan` in addition to its own."""

    @classmethod
    def name(cls) -> str:
        return "crashing_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _CrashingWriter(writer(self._own(), schema, overwrite), _Plan(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        usual = stream_writer(self._own(), schema, overwrite)
        return _CrashingStreamWriter(usual, _Plan(self.options))

    def _own(self) -> dict[str, str]:
        return {name: text for name, text in self.options.items() if not name.startswith("crash")}
