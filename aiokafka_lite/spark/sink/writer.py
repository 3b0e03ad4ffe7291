"""The writers that Spark calls on the driver and in each task.

A writer is created on the driver, pickled, and used in the tasks. A stream's writer is created
again for each epoch, and for its commit, so it keeps no state. A task receives its rows as Arrow
batches in its own thread; the runtime's event loop sends them while the next batch is read.

At least once: the task awaits every row's result before it completes; the task's next attempt
writes failed rows again. Exactly once: see `exactly_once`.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import IllegalStateError, KafkaConfigurationError
from aiokafka_lite.spark import runtime
from aiokafka_lite.spark.kafka_options.client_options import PREFIX
from aiokafka_lite.spark.notices import warn_of_pure_tasks
from aiokafka_lite.spark.options import TABLE
from aiokafka_lite.spark.sink.exactly_once import (
    Marker,
    Place,
    ReplayError,
    TaskTransaction,
    TaskWritten,
    check_marks,
)
from aiokafka_lite.spark.sink.rows import RowDigest, RowSender, topic_of
from aiokafka_lite.spark.write_options import Schema, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["stream_writer", "writer"]

_log = logging.getLogger(__name__)

_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"
"""Local properties of a streaming task, set by MicroBatchExecution and StreamExecution; the run id
is that of its job group."""


def writer(
    options: Mapping[str, str], schema: Schema, overwrite: bool = False
) -> DataSourceArrowWriter:
    """Return the writer of a DataFrame.

    Args:
        options: The writer's options.
        schema: The schema of its rows.
        overwrite: True to replace existing data, which is not supported.

    Raises:
        KafkaConfigurationError: An option or a column is invalid, or `overwrite` is True.
    """
    if overwrite:
        raise KafkaConfigurationError(
            "Save mode overwrite not allowed for Kafka. Allowed save modes are append and "
            "errorifexists (default)."
        )
    return _BatchWriter(_checked(options, schema, streaming=False))


def stream_writer(
    options: Mapping[str, str], schema: Schema, overwrite: bool = False
) -> DataSourceStreamArrowWriter:
    """Return the writer of an epoch of a stream.

    Args:
        options: The writer's options.
        schema: The schema of its rows.
        overwrite: True with output mode `complete`; rows are appended anyway, as in Spark's own
            sink.

    Raises:
        KafkaConfigurationError: An option or a column is invalid.
    """
    return _StreamWriter(_checked(options, schema, streaming=True))


def _checked(options: Mapping[str, str], schema: Schema, *, streaming: bool) -> WriteOptions:
    """Validate the options, including the producer's, on the driver rather than in every
    task."""
    found = WriteOptions.parse(_without_readers(options), schema, streaming=streaming)
    runtime.call(_tried(found))
    return found


async def _tried(options: WriteOptions) -> None:
    arguments: dict[str, Any] = dict(options.producer)
    if options.exactly_once:
        arguments["transactional_id"] = options.prefix
    await AIOKafkaProducer(**arguments).stop()


def _without_readers(options: Mapping[str, str]) -> dict[str, str]:
    """Drop reader-only options: jobs may pass one set of options to both, and Spark's own sink
    ignores them, too."""
    readers = {option.key for option in TABLE if not option.key.startswith(PREFIX)}
    return {name: text for name, text in options.items() if name.lower() not in readers}


class _Message(WriterCommitMessage):
    """A task's message to the driver.

    Args:
        written: The result of the task.
    """

    def __init__(self, written: TaskWritten) -> None:
        self.written = written


class _BatchWriter(DataSourceArrowWriter):
    """Writes a data frame.

    Args:
        options: Checked.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        # Generated on the driver, so that all tasks and attempts share it.
        self._write_id = options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.exactly_once:
            return _Message(_write_at_least_once(self._options, iterator))
        return _Message(_write_exactly_once(self._options, self._place(), iterator))

    def _place(self) -> Place:
        prefix, topic = self._options.prefix, self._options.layout.constant_topic
        named = self._options.write_id is not None
        place = _streaming_place(prefix) if named else None
        if place is None:
            place = Place(prefix, "", 0, _task().partitionId(), "")
        # Its name and topic distinguish it from other writes in the same micro-batch.
        return replace(place, write=self._write_id, topic=topic)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _warn_of_pure_tasks(messages)
        if self._options.exactly_once:
            _check(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # Without a name, the application's next write has another id.
        _log_abort("the write", messages, is_skipped=self._options.write_id is not None)


class _StreamWriter(DataSourceStreamArrowWriter):
    """Writes an epoch of a stream.

    Args:
        options: Checked.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.exactly_once:
            return _Message(_write_at_least_once(self._options, iterator))
        return _Message(_write_exactly_once(self._options, _place(self._options), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _warn_of_pure_tasks(messages)
        if self._options.exactly_once:
            _check(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _log_abort(f"epoch {batchId}", messages, is_skipped=self._options.exactly_once)


# --- in a task


def _write_at_least_once(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
    runtime.prepare_worker()
    with _lent(options.producer) as producer:
        sender = RowSender(producer, options.layout)
        _send(sender, batches)
        runtime.call(sender.finish())
    return TaskWritten(None, sender.rows)


@contextlib.contextmanager
def _lent(arguments: Mapping[str, Any]) -> Iterator[AIOKafkaProducer]:
    """Borrow a producer, which the worker keeps for its next task unless this one fails."""
    lease = runtime.lease("producer", arguments, lambda: AIOKafkaProducer(**arguments))
    producer = runtime.call(lease.__aenter__())
    try:
        yield producer
    except BaseException as error:
        runtime.call(lease.__aexit__(type(error), error, error.__traceback__))
        raise
    runtime.call(lease.__aexit__(None, None, None))


def _write_exactly_once(
    options: WriteOptions, place: Place, batches: Iterator[pa.RecordBatch]
) -> TaskWritten:
    runtime.prepare_worker()
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        # There is nothing to commit or compare; the driver checks the markers.
        return TaskWritten(place, 0)
    topic = topic_of(first, options.layout)
    transaction = runtime.call(_begun(place, topic, options.producer))
    try:
        found = runtime.call(transaction.open())
        before = transaction.before
        known = before is not None and before.run == place.run and place.run != ""
        if found is not None:
            digest = RowDigest(found.layout)
            for batch in _chain(first, batches):
                digest.add_batch(batch, options.layout)
            _compare(place, found, digest, options.layout.constant_topic)
            return TaskWritten(place, digest.rows, digest.sum, skipped=True, topic=topic)
        digest = RowDigest()
        sender = RowSender(transaction.producer, options.layout, digest)
        _send(sender, _chain(first, batches))
        runtime.call(sender.finish())
        runtime.call(transaction.commit(digest.rows, digest.sum))
    finally:
        runtime.call(transaction.close())
    return TaskWritten(place, digest.rows, digest.sum, first=not known, topic=topic)


async def _begun(place: Place, topic: str, arguments: Mapping[str, Any]) -> TaskTransaction:
    """Open a transaction, in the event loop as producers require."""
    return TaskTransaction(place, topic, arguments)


def _compare(place: Place, found: Marker, digest: RowDigest, topic: str | None) -> None:
    """Check that the rows of a replayed epoch are the stored ones.

    Args:
        topic: The option `topic`; None if each row names its topic, so the marker may have any.
    """
    if topic not in (None, found.topic):
        raise ReplayError(
            f"task {place.task} of {place.name!r} has already written {found.rows} rows of epoch "
            f"{place.epoch} to topic {found.topic!r}, but must now write the epoch to topic "
            f"{topic!r}: restore the option topic, or use another transactionalIdPrefix to write "
            "the epoch again"
        )
    if (found.rows, found.digest) == (digest.rows, digest.sum):
        _log.info("%s has already written epoch %d; skipping it", place.name, place.epoch)
        return
    raise ReplayError(
        f"task {place.task} of {place.name!r} has already written {found.rows} rows of epoch "
        f"{place.epoch}, but its {digest.rows} rows now differ from them: a replayed epoch must "
        "have the same rows. rand(), uuid(), changed options and "
        "spark.sql.adaptive.streaming.stateless.enabled=true change them; so does a second write "
        "with the same writeId: use another writeId for each write"
    )


def _send(sender: RowSender, batches: Iterator[pa.RecordBatch]) -> None:
    """Send all batches, each while the next one is read from Spark."""
    sending: Future[None] | None = None
    try:
        for batch in batches:
            if sending is not None:
                sending.result()
            sending = runtime.submit(sender.append(batch))
        if sending is not None:
            sending.result()
    except BaseException:
        if sending is not None:
            sending.cancel()
        raise


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise IllegalStateError("rows can be written only in a Spark task")
    return context


def _place(options: WriteOptions) -> Place:
    """Return the place of the current task."""
    place = _streaming_place(options.prefix)
    if place is None:
        raise IllegalStateError(
            "Spark did not set the task's query id and epoch "
            f"({_QUERY_ID}, {_BATCH_ID}); deliveryGuarantee=exactly_once requires both"
        )
    return place


def _streaming_place(prefix: str) -> Place | None:
    """Return the place of the current task, or None outside a micro-batch."""
    context = _task()
    query = context.getLocalProperty(_QUERY_ID)
    epoch = context.getLocalProperty(_BATCH_ID)
    if query is None or epoch is None:
        return None
    run = context.getLocalProperty(_RUN_ID) or ""
    if not _is_uuid(run):  # `foreachBatch` may set a job group that is the same in every run
        run = ""
    return Place(prefix, query, int(epoch), context.partitionId(), run)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


# --- on the driver


def _check(options: WriteOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    written = _written(messages)
    if len(written) != len(messages):
        raise IllegalStateError(f"{len(messages) - len(written)} tasks did not report a result")
    # A producer keeps metadata only for topics in use.
    with _lent(options.producer) as producer:
        runtime.call(check_marks(producer.client, written))


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[TaskWritten]:
    return [each.written for each in messages if isinstance(each, _Message)]


def _warn_of_pure_tasks(messages: Sequence[WriterCommitMessage | None]) -> None:
    written = _written(messages)
    warn_of_pure_tasks(sum(not each.native for each in written), len(written))


def _log_abort(
    what: str, messages: Sequence[WriterCommitMessage | None], *, is_skipped: bool
) -> None:
    done = _written(messages)
    rows = sum(each.rows for each in done)
    _log.warning(
        "%s failed; %d rows of %d tasks are in Kafka, and %s",
        what,
        rows,
        len(done),
        "a retry skips them" if is_skipped else "a retry writes them again",
    )
