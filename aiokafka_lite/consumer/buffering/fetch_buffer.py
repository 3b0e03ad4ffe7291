"""Fetched records that are not delivered yet. Sans-IO: the fetcher fills it, the reader empties it.

Each partition has at most one record set here (it is not fetched again before the set is decoded
completely), and at most one chunk of decoded records. Partitions are served in the order in which
their data arrived. A partition whose response is delivered goes to the end of the line, so that a
busy partition does not starve others. A paused partition leaves the line, but keeps its data and
its position.

Non-obvious:

- A record set is decoded lazily, one chunk at a time. Once it is exhausted the partition may be
  fetched again (`on_drained`), while the last chunk is still being delivered: this is the double
  buffering. So at most one chunk per partition is held beyond the accounted bytes.
- A set of large compressed batches is decoded by `on_heavy`, in a thread, when it has a slot
  (`background_decode`): its partition is in line only while it has a chunk. If the partition
  changed meanwhile, `state.fetched.records` is another set.
- Small compressed batches may decompress to a thousand times their size or more. A set that is
  decoded here has a limit for each batch; a batch that exceeds it makes the set a heavy one.
- The memory is accounted per response body: all record sets of a response point into one buffer,
  which the network layer reuses when the last of them is closed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from time import monotonic

from aiokafka_lite.consumer.buffering.background_decode import HeavySets
from aiokafka_lite.consumer.buffering.bulk_types import ColumnBatch, RecordBatch
from aiokafka_lite.consumer.buffering.deserialization import Deserialization
from aiokafka_lite.consumer.consumer_metrics import ConsumerMetrics
from aiokafka_lite.consumer.consumer_options import Deserializer
from aiokafka_lite.consumer.partitions.delivery import EMPTY, Chunk, Delivery, Record
from aiokafka_lite.consumer.partitions.positions import PartitionState, error_of
from aiokafka_lite.consumer.partitions.response_body import ResponseBody
from aiokafka_lite.errors import IllegalStateError, KafkaError, RecordTooLargeError
from aiokafka_lite.reading.record_interceptors import Interceptors
from aiokafka_lite.record.columnar.columns import Columns, columns_of, read_columns
from aiokafka_lite.record.compression import DEFAULT_LIMIT
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition

ALL = 2**31 - 1
"""No limit."""


class FetchBuffer:
    """Fetched data in line for the application.

    Args:
        delivery: Delivers the chunks of this buffer.
        key_deserializer: Applied to each key as its chunk is decoded, or None.
        value_deserializer: The same for values.
        interceptors: Called with the records of each chunk after that, or None.
        fetch_max_bytes: Limit up to which a partition's fetch size grows if a broker before 0.10.1
            has a record larger than that size.
        on_drained: Called with the partitions that may be fetched again, once per call.
        on_heavy: Called to decode the next records of a set elsewhere and `install` them.
        awaited: The partitions that reads wait for, one collection per waiter; empty means any.
    """

    def __init__(
        self,
        delivery: Delivery,
        *,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
        fetch_max_bytes: int,
        on_drained: Callable[[Collection[PartitionState]], None],
        on_heavy: Callable[[PartitionState, RecordSet], None],
        awaited: Callable[[], Iterable[Collection[TopicPartition]]],
        interceptors: Interceptors | None = None,
    ) -> None:
        self.delivery = delivery
        self.metrics = ConsumerMetrics()
        """Records are counted here, responses by the fetches."""
        self.bytes = 0
        """Bytes of the response bodies held. Written here only."""
        self.in_place = False
        """True if large compressed batches are also decoded in the event loop, because nothing else
        needs it. Written by the owner before `add` is called."""
        self._deserialization = Deserialization(key_deserializer, value_deserializer, interceptors)
        self._fetch_max_bytes = fetch_max_bytes
        self._on_drained = on_drained
        self._heavy = HeavySets(on_heavy, awaited)
        self._drained: list[PartitionState] = []  # reported at the end of the call
        self._line: OrderedDict[PartitionState, None] = OrderedDict()
        self._hidden: dict[PartitionState, None] = {}

    @property
    def waiting(self) -> bool:
        """True if there are records to deliver. (A partition whose records are all delivered leaves
        the line at the next read.)"""
        return any(
            state.fetched.records is not None
            or state.fetched.chunk is None
            or state.fetched.chunk.index < state.fetched.chunk.count
            for state in self._line
        )

    def is_decoding(self, among: Collection[TopicPartition]) -> bool:
        """True if a thread decodes records of one of these partitions, or of any if empty: a read
        that waits for them does not wait for a fetch."""
        return self._heavy.serves(among)

    def has(self, state: PartitionState) -> bool:
        """True if the partition is in line."""
        return state in self._line

    # --- filling

    def add(
        self, state: PartitionState, records: RecordSet, body: ResponseBody, *, heavy: bool = False
    ) -> None:
        """Put a partition's part of a response in line. The partition must have no undecoded
        records.

        Args:
            heavy: True if decoding it would block the event loop.
        """
        if body.parts == 0:
            self.bytes += body.size
        body.parts += 1
        state.fetched.records = records
        state.fetched.body = body
        state.fetched.heavy = heavy and not self.in_place
        if not state.fetched.heavy:
            self._queue(state)
        elif state.fetched.chunk is None:
            self._heavy.continue_set(state, records)

    def fail(self, state: PartitionState, error: Exception, *, stays: bool) -> None:
        """Let reads raise `error` after the partition's earlier records."""
        state.fail(error, stays=stays)
        self._queue(state)

    def _queue(self, state: PartitionState) -> None:
        (self._hidden if state.paused else self._line)[state] = None

    # --- seek, pause, resume

    def forget(self, state: PartitionState) -> None:
        """Drop all data of a partition: its position moved, or it is no longer assigned."""
        chunk = state.fetched.chunk
        if chunk is not None:
            if self.delivery.current is chunk:
                self.delivery.current = EMPTY
            self.metrics.on_unread(chunk.count - chunk.index)
            state.fetched.chunk = None
        self._close(state)
        self._line.pop(state, None)
        self._hidden.pop(state, None)
        self._heavy.leave(state)

    def clear(self, states: Iterable[PartitionState]) -> None:
        """Drop everything held of all partitions: the consumer is stopped."""
        self._heavy.clear()
        for state in states:
            self._close(state)
        self.delivery.current = EMPTY
        self._line.clear()
        self._hidden.clear()

    def pause(self, state: PartitionState) -> None:
        """Deliver no more records of the partition, decoded ones included, until resumed."""
        state.paused = True
        if state.fetched.chunk is not None and self.delivery.current is state.fetched.chunk:
            self.delivery.current = EMPTY
        if state in self._line:
            del self._line[state]
            self._hidden[state] = None
        self._heavy.release_slot(state)

    def resume(self, state: PartitionState) -> None:
        """Deliver its records again, starting with the retained ones."""
        state.paused = False
        if state in self._hidden:
            del self._hidden[state]
            self._line[state] = None
        self._heavy.fill()
        if state.unvalidated and state.fetched.records is None:
            self._on_drained([state])  # the validation may wait for records that were evicted

    def on_starved(self) -> None:
        """A read waits, possibly for a partition without a decoding slot."""
        self._heavy.fill()

    def evict_paused(self) -> None:
        """Drop undecoded data of paused partitions: others need the memory. It is fetched again
        after the partition is resumed; its position does not change."""
        for state in [*self._hidden, *(each for each in self._heavy.waiting if each.paused)]:
            self._close(state)
            self._heavy.leave(state)
            if state.fetched.chunk is None and state.error is None:
                self._hidden.pop(state, None)

    # --- emptying

    def next_chunk(
        self, limit: int, among: Collection[PartitionState] | None = None
    ) -> Chunk | None:
        """Return the chunk to take records from: the first in line that has any.

        Args:
            limit: Maximum records to decode at once.
            among: Only these partitions, or None for all.

        Returns:
            A chunk with at least one record left; None if nothing is buffered.

        Raises:
            Exception: The error of the first partition in line.
        """
        try:
            while (state := self._first(among)) is not None:
                chunk = state.fetched.chunk
                if chunk is not None:
                    if chunk.index < chunk.count:
                        return chunk
                    self._on_chunk_done(state, chunk)
                elif state.fetched.records is not None and not state.fetched.heavy:
                    self._decode(state, state.fetched.records, limit)
                else:
                    self._raise_error(state)
            return None
        finally:
            if self._drained:
                self._report_drained()

    def take_lists(
        self, limit: int, among: Collection[PartitionState] | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """Return records in lists, at most `limit` in total, and of each partition at most the
        records of one response.

        Raises:
            Exception: The error of the first partition in line, if no records come before it.
        """
        lists: dict[TopicPartition, list[Record]] = {}
        before: list[tuple[PartitionState, int | None, int]] = []  # the positions to return to
        try:
            while limit > 0 and (state := self._first(among)) is not None:
                if state.tp in lists:
                    break  # its next response is in line, as for all partitions behind it
                if (
                    state.fetched.chunk is None
                    and state.fetched.records is None
                    and state.error is not None
                ):
                    if lists:
                        break
                    self._raise_error(state)
                before.append((state, state.position, state.position_epoch))
                taken = self._take(state, limit)
                if taken:
                    lists[state.tp] = taken
                    limit -= len(taken)
                else:
                    before.pop()  # no record was taken, only control batches passed
            return lists
        except BaseException:
            self._take_back(before)
            raise
        finally:
            if self._drained:
                self._report_drained()

    def take_batch(self, limit: int) -> RecordBatch | None:
        """Return records of the first partition in line: at most `limit`, and at most those of one
        response. None if no record is buffered, except of partitions with a batch in progress.

        Raises:
            Exception: The error of the first partition in line.
        """
        try:
            while (state := self._first_free()) is not None:
                if state.fetched.chunk is None and state.fetched.records is None:
                    self._raise_error(state)
                start, epoch = state.position, state.position_epoch
                try:
                    taken = self._take(state, limit)
                except BaseException:
                    self._take_back([(state, start, epoch)])
                    raise
                if taken and start is not None and state.position is not None:
                    return RecordBatch(
                        state.tp, start, epoch, state.position, state.position_epoch, taken
                    )
            return None
        finally:
            if self._drained:
                self._report_drained()

    def take_columns(self, limit: int) -> ColumnBatch | None:
        """Like `take_batch`, as columns that refer to the response's memory: no object per record.

        For a partition that is read up to an offset (`PartitionState.until`), the number of rows is
        at most the number of offsets before it; if offsets are missing, some rows may be past it.
        """
        try:
            while (state := self._first_free()) is not None:
                start, epoch = state.position, state.position_epoch
                most = limit
                if state.until is not None and start is not None:
                    most = max(min(limit, state.until - start), 1)
                columns: Columns | None = None
                if state.fetched.chunk is not None:
                    # Decoded before: in a thread, or for a read of single records.
                    chunk = state.fetched.chunk
                    try:
                        columns = columns_of(chunk.take_many(most))
                    except BaseException:
                        self._take_back([(state, start, epoch)])
                        raise
                    if chunk.index == chunk.count:
                        self._on_chunk_done(state, chunk)
                elif state.fetched.records is not None and not state.fetched.heavy:
                    columns = self._read_columns(state, state.fetched.records, most)
                else:
                    self._raise_error(state)
                if columns is not None and start is not None and state.position is not None:
                    return ColumnBatch(
                        state.tp, start, epoch, state.position, state.position_epoch, columns
                    )
            return None
        finally:
            if self._drained:
                self._report_drained()

    def _read_columns(
        self, state: PartitionState, records: RecordSet, limit: int
    ) -> Columns | None:
        columns: Columns | None = None
        try:
            columns = read_columns(records, limit)
            self._make_chunk(state, records, [])  # whose end is where the columns end
        except KafkaError as error:
            if self._hand_over(state, records):
                return None
            self._make_chunk(state, records, error)
        except BaseException:
            self._start_over(state)
            raise
        if columns is not None:
            self.metrics.on_records(columns.count, monotonic())
        if state.fetched.chunk is not None:
            self._on_chunk_done(state, state.fetched.chunk)
        return columns

    def _report_drained(self) -> None:
        drained, self._drained = self._drained, []
        self._on_drained(drained)

    def _take(self, state: PartitionState, limit: int) -> list[Record]:
        """Take up to `limit` records of one response of a partition."""
        taken: list[Record] = []
        while True:
            chunk = state.fetched.chunk
            if chunk is None:
                if state.fetched.records is None or state.fetched.heavy:
                    return taken
                self._decode(state, state.fetched.records, limit - len(taken))
                continue
            records = chunk.take_many(limit - len(taken))
            taken = taken + records if taken else records
            if chunk.index < chunk.count:
                return taken
            self._on_chunk_done(state, chunk)
            if chunk.closes or len(taken) == limit:
                return taken

    def _take_back(self, before: Iterable[tuple[PartitionState, int | None, int]]) -> None:
        """Return partitions to where they were before a call that an interrupt, a MemoryError or an
        overflow ended: the caller does not receive the records taken so far, so they are fetched
        again."""
        for state, position, epoch in before:
            if position is not None and position != state.position:
                self.forget(state)
                state.return_to(position, epoch)
                if state not in self._drained:
                    self._drained.append(state)

    def _first_free(self) -> PartitionState | None:
        return next((state for state in self._line if state.at_work is None), None)

    def _first(self, among: Collection[PartitionState] | None) -> PartitionState | None:
        if among is None:
            return next(iter(self._line), None)
        # In the order of the line, not of `among`: otherwise the first of these, if it is busy or
        # has a permanent error, would starve the others.
        return next((state for state in self._line if state in among), None)

    def install(
        self, state: PartitionState, records: RecordSet, decoded: list[Record] | KafkaError
    ) -> None:
        """Install the records that a thread decoded, if the partition still has that set."""
        if state.fetched.records is records:
            self._make_chunk(state, records, decoded)
            if state.fetched.chunk is not None:
                self._queue(state)
            if self._drained:
                self._report_drained()

    def _decode(self, state: PartitionState, records: RecordSet, limit: int) -> None:
        decoded: list[Record] | KafkaError
        try:
            decoded = records.read(limit)
        except RecordTooLargeError as error:
            if self._hand_over(state, records):
                return
            decoded = error
        except KafkaError as error:
            decoded = error
        except BaseException:
            self._start_over(state)
            raise
        self._make_chunk(state, records, decoded)

    def _hand_over(self, state: PartitionState, records: RecordSet) -> bool:
        """Decode a set in a thread from here on if its next batch exceeded the limit of sets that
        are decoded in the event loop. False: its error is final."""
        if not records.raise_limit(DEFAULT_LIMIT):
            return False
        self._line.pop(state, None)
        state.fetched.heavy = True
        self._heavy.continue_set(state, records)
        return True

    def _start_over(self, state: PartitionState) -> None:
        """Fetch again after an interrupt or MemoryError: the decoded records are lost, but were not
        delivered."""
        self._line.pop(state, None)
        self._close(state)
        self._heavy.leave(state)
        self._drained.append(state)

    def _make_chunk(
        self, state: PartitionState, records: RecordSet, decoded: list[Record] | KafkaError
    ) -> None:
        """Make the next chunk of a record set, or its error. The chunk is empty if only control
        batches and gaps were left."""
        start = state.fetch_offset
        if start is None:
            raise IllegalStateError(f"{state} has records but no position")
        if isinstance(decoded, KafkaError):
            self._close(state)
            self._heavy.leave(state)
            self.fail(state, decoded, stays=False)
            self._drained.append(state)
            return
        end, closes = records.next_offset, records.exhausted
        epoch = records.leader_epoch if end > start else state.fetch_epoch
        if self._deserialization.needed:
            try:
                good, failure = self._deserialization.apply(decoded)
                if failure is not None:  # raised after the records before it; the next read retries
                    self.fail(state, failure, stays=False)
                    end, closes = decoded[good].offset, True
                    epoch = decoded[good - 1].leader_epoch if good else state.fetch_epoch
                    decoded = decoded[:good]
                if state.fetched.records is records:
                    decoded = self._deserialization.intercept(decoded)
            except BaseException:
                self._start_over(state)
                raise
            if state.fetched.records is not records:
                return  # the deserializer called seek() or changed the assignment
        if closes:
            self._close(state)
            if records.only_partial and end == start:
                self._on_truncated_record(state, start)
                return
        self.metrics.on_records(len(decoded), monotonic())
        state.fetched.chunk = Chunk(decoded, start, end, closes)
        state.fetched.chunk_epoch = epoch
        if closes:
            self._drained.append(state)

    def _on_truncated_record(self, state: PartitionState, offset: int) -> None:
        """The response has no complete record: the broker (before 0.10.1) truncated it at the fetch
        size."""
        if not state.source.grow(self._fetch_max_bytes):
            self.fail(
                state,
                RecordTooLargeError(
                    f"the record of {state} at offset {offset} is larger than "
                    f"`fetch_max_bytes` ({self._fetch_max_bytes} bytes): increase it, or `seek` "
                    "past the record"
                ),
                stays=True,
            )
        else:
            self._line.pop(state, None)
        self._drained.append(state)

    def _on_chunk_done(self, state: PartitionState, chunk: Chunk) -> None:
        if self.delivery.current is chunk:
            self.delivery.current = EMPTY
        state.on_chunk_done()
        if state.waits_for_chunk:
            state.waits_for_chunk = False
            self._drained.append(state)
        records = state.fetched.records
        if chunk.closes or records is None:
            self._heavy.leave(state)
        elif not state.fetched.heavy:
            return  # it stays first until its response is delivered
        self._line.pop(state, None)
        if records is not None and state.fetched.heavy:
            self._heavy.continue_set(state, records)
        elif records is not None or state.error is not None:
            self._queue(state)  # its next response: to the end of the line

    def _raise_error(self, state: PartitionState) -> None:
        """Raise the partition's error, and move the partition to the end of the line."""
        self._line.pop(state, None)
        error = error_of(state)
        if state.error is not None:
            self._line[state] = None
        else:
            self._drained.append(state)
        raise error.with_traceback(None)

    def _close(self, state: PartitionState) -> None:
        """Close a partition's record set, and release the body after the last one."""
        records, body = state.fetched.records, state.fetched.body
        state.fetched.records = None
        state.fetched.body = None
        if records is not None and body is not None:
            records.close()
            body.parts -= 1
            if body.parts == 0:
                self.bytes -= body.size
                body.on_released(body.size)
