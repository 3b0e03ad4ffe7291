# cython: language_level=3, freethreading_compatible=True
# cython: wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native batches and acks. The Python twin is their specification.

The garbage collector does not track Ack and Wait, so a million acks that an application holds do
not slow it down. In return, a cycle through one of them is freed only by its batch's outcome, which
every batch gets.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_SIZE

from aiokafka_lite._interpreter cimport PYGEN_NEXT, PYGEN_RETURN, give_am_send, stop_with

import asyncio
from contextvars import copy_context

from aiokafka_lite.producer.batching._ack_python import Ack as _TwinAck
from aiokafka_lite.producer.batching._ack_python import ProducerBatch as _TwinBatch
from aiokafka_lite.producer.batching._ack_python import Wait as _TwinWait
from aiokafka_lite.producer.batching._ack_python import Piece, fresh, outcome_in_pieces, piece_of
from aiokafka_lite.structs import RecordMetadata

cdef extern from *:
    """
    /* A RecordMetadata, filled as tuple.__new__ would, without a tuple to fill it from. */
    static inline PyObject *new_metadata_(
        PyObject *type, PyObject *topic, PyObject *partition, PyObject *topic_partition,
        PyObject *offset, PyObject *timestamp, PyObject *timestamp_type, PyObject *start_offset
    ) {
        PyObject *fields[7] = {
            topic, partition, topic_partition, offset, timestamp, timestamp_type, start_offset
        };
        PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 7);
        int i;
        if (!made) return NULL;
        for (i = 0; i < 7; i++) { Py_INCREF(fields[i]); PyTuple_SET_ITEM(made, i, fields[i]); }
        return made;
    }

    /* The same for a result that most applications drop at once: like zip() does with its tuples,
       it is filled again if nothing else refers to it. */
    static inline PyObject *metadata_(
        PyObject *type, PyObject *topic, PyObject *partition, PyObject *topic_partition,
        PyObject *offset, PyObject *timestamp, PyObject *timestamp_type, PyObject *start_offset
    ) {
    #if defined(Py_GIL_DISABLED) || defined(PYPY_VERSION)
        return new_metadata_(type, topic, partition, topic_partition, offset, timestamp,
                             timestamp_type, start_offset);
    #else
        static PyObject *last = NULL;
        PyObject *made;
        if (last && Py_REFCNT(last) == 1 && (PyObject *)Py_TYPE(last) == type) {
            PyObject *fields[7] = {
                topic, partition, topic_partition, offset, timestamp, timestamp_type, start_offset
            };
            int i;
            Py_INCREF(last);
            made = last;
            /* The records of one batch differ in offset and timestamp. */
            for (i = PyTuple_GET_ITEM(made, 2) == topic_partition ? 3 : 0; i < 7; i++) {
                PyObject *old = PyTuple_GET_ITEM(made, i);
                if (old == fields[i]) continue;
                Py_INCREF(fields[i]);
                PyTuple_SET_ITEM(made, i, fields[i]);
                Py_DECREF(old);  /* a str, int or tuple of these: runs no code */
            }
        #if PY_VERSION_HEX >= 0x030E0000
            ((PyTupleObject *)made)->ob_hash = -1;  /* 3.14 caches it */
        #endif
            return made;
        }
        made = new_metadata_(type, topic, partition, topic_partition, offset, timestamp,
                             timestamp_type, start_offset);
        if (made) { Py_INCREF(made); Py_XSETREF(last, made); }
        return made;
    #endif
    }

    /* An int for a timestamp: consecutive records usually share it. */
    static inline PyObject *stamp_(long long stamp) {
    #if defined(Py_GIL_DISABLED) || defined(PYPY_VERSION)
        return PyLong_FromLongLong(stamp);
    #else
        static long long last = -1;
        static PyObject *made = NULL;
        if (!made || stamp != last) {
            PyObject *new = PyLong_FromLongLong(stamp);
            if (!new) return NULL;
            last = stamp;
            Py_XSETREF(made, new);
        }
        Py_INCREF(made);
        return made;
    #endif
    }
    """
    object as_timestamp "stamp_"(long long)
    object metadata "metadata_"(
        object, object, object, object, object, object, object, object)
    int PyContext_Enter(object) except -1
    int PyContext_Exit(object) except -1

DEF PENDING = 0
DEF ACKED = 1
DEF UNCONFIRMED = 2
DEF FAILED = 3
DEF IN_PIECES = 4

cdef object CancelledError = asyncio.CancelledError
cdef object InvalidStateError = asyncio.InvalidStateError


cdef int run(object context, object callback, object target) except -1:
    """``context.run(callback, target)``, without the overhead of the call."""
    PyContext_Enter(context)
    try:
        callback(target)
    finally:
        PyContext_Exit(context)
    return 0


@cython.final
cdef class ProducerBatch:
    __doc__ = _TwinBatch.__doc__

    def __cinit__(self, loop, topic_partition, BatchBuilder builder not None, buffer, double created):
        if not isinstance(topic_partition, tuple) or PyTuple_GET_SIZE(topic_partition) != 2:
            raise TypeError(f"topic_partition must be a TopicPartition, not {topic_partition!r}")
        self.loop = loop
        self.topic_partition = topic_partition
        self.builder = builder
        self.rest = []
        self.buffer = buffer
        self.created = created
        self.base_sequence = -1
        self.base_offset = -1
        self.log_append_time = -1
        self.log_start_offset = -1

    cdef append_record(self, int64_t timestamp, object key, object value, object headers):
        cdef Ack ack
        cdef BatchBuilder builder = self.builder  # headers may run code that resolves the batch
        cdef int32_t index = builder.append_record(timestamp, key, value, headers)
        if index < 0:
            return None
        ack = Ack.__new__(Ack)
        ack._batch = self
        ack._index = index
        ack._stamp = timestamp
        return ack

    def append(self, int64_t timestamp, key, value, headers):
        return self.append_record(timestamp, key, value, headers)

    def ack(self, int32_t index, int64_t timestamp):
        cdef Ack ack = Ack.__new__(Ack)
        ack._batch = self
        ack._index = index
        ack._stamp = timestamp
        return ack

    @property
    def count(self):
        return self.builder.count

    @property
    def remaining(self):
        return self.builder.count + sum(builder.count for builder in self.rest)

    @property
    def done(self):
        return self.state != PENDING

    @property
    def awaited(self):
        if self._waiters is not None:
            for wait in self._waiters:
                callback = (<Wait>wait).callback
                if callback is not None and not getattr(callback, "looks_on", False):
                    return True
        return False

    def watch(self, watcher):
        if self._watchers is None:
            self._watchers = []
        self._watchers.append(watcher)

    def acknowledge(
        self, int64_t base_offset, int64_t log_append_time, int64_t log_start_offset,
        list woken=None,
    ):
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self._resolve(ACKED, woken)

    def confirm_sent(self):
        self._resolve(UNCONFIRMED)

    def fail(self, error):
        if self.pieces is not None:
            self.pieces.append(Piece(self._settled() + self.remaining, -1, -1, -1, error))
            self._resolve(IN_PIECES)
            return
        self.error = error
        self._resolve(FAILED)

    def fail_in_runs(self, runs, rest):
        cdef Py_ssize_t end = self._settled(), unsent = self.remaining - self.builder.count
        if self.pieces is None:
            self.pieces = []
        for count, error in runs:
            end += count
            self.pieces.append(Piece(end, -1, -1, -1, error))
        if unsent:
            self.pieces.append(Piece(end + unsent, -1, -1, -1, rest))
        self._resolve(IN_PIECES)

    def split(self, list builders not None):
        cdef BatchBuilder first = builders[0]
        self.builder = first
        self.rest = builders[1:]
        self.payload = None
        if self.pieces is None:
            self.pieces = []

    def settle_piece(
        self, int64_t base_offset, int64_t log_append_time, int64_t log_start_offset, error=None
    ):
        if self.pieces is None:
            raise RuntimeError("the batch was not split")
        cdef Py_ssize_t end = self._settled() + self.builder.count
        self.pieces.append(Piece(end, base_offset, log_append_time, log_start_offset, error))
        if not self.rest:
            self._resolve(IN_PIECES)
            return False
        self.builder = self.rest.pop(0)
        self.payload = None
        return True

    cdef Py_ssize_t _settled(self) except -1:
        return self.pieces[len(self.pieces) - 1].end if self.pieces else 0

    def wake(self):
        if self._waiters is not None:
            self._wake(self._waiters, 0)

    cdef _resolve(self, int state, list woken=None):
        if self.state != PENDING:
            raise RuntimeError("the batch already has an outcome")
        self.state = state
        self.builder = None
        self.rest = []
        self.buffer = None
        self.payload = None
        if self._waiters is not None:
            if woken is not None:
                woken.append(self)
            elif not self.loop.is_closed():
                self.loop.call_soon(self._wake, self._waiters, 0)
        watchers = self._watchers
        self._watchers = None
        if watchers is not None:
            for watcher in watchers:
                watcher(self)

    def _wake(self, list waiters not None, Py_ssize_t start):
        cdef Py_ssize_t position
        cdef Wait wait
        self._waiters = None
        for position in range(start, len(waiters)):
            wait = waiters[position]
            callback = wait.callback
            context = wait.context
            wait.callback = None
            wait.context = None
            wait.following = None
            wait.ack._first = None
            if callback is None or context is None:
                continue
            try:
                run(context, callback, wait if wait.by_task else wait.ack)
            except (SystemExit, KeyboardInterrupt):
                self.loop.call_soon(self._wake, waiters, position + 1)
                raise
            except BaseException as error:
                self.loop.call_exception_handler(
                    {"message": f"Exception in callback {callback!r}", "exception": error}
                )

    cdef int _enlist(self, Wait wait) except -1:
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(wait)
        return 0


cdef outcome_of(Ack ack):
    """Return or raise the record's outcome. Not a method: without a table of C methods an Ack is
    smaller."""
    cdef ProducerBatch batch = ack._batch
    if ack._cancelled:
        raise CancelledError
    if batch.state == ACKED:
        topic, partition = <tuple>batch.topic_partition
        return metadata(
            RecordMetadata,
            topic,
            partition,
            batch.topic_partition,
            -1 if batch.base_offset < 0 else batch.base_offset + ack._index,
            as_timestamp(ack._stamp if batch.log_append_time < 0 else batch.log_append_time),
            0 if batch.log_append_time < 0 else 1,
            None if batch.log_start_offset < 0 else batch.log_start_offset,
        )
    if batch.state == UNCONFIRMED:
        return None
    if batch.state == FAILED:
        raise fresh(batch.error)
    if batch.state == IN_PIECES:
        return outcome_in_pieces(batch, ack._index, ack._stamp)
    raise InvalidStateError("the record is not acknowledged yet")


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class Ack:
    __doc__ = _TwinAck.__doc__

    def __init__(self, *_, **__):
        raise TypeError("a batch creates the Acks of its records")

    @property
    def _asyncio_future_blocking(self):
        return <bint>self._blocking

    @_asyncio_future_blocking.setter
    def _asyncio_future_blocking(self, bint value):
        self._blocking = value

    @property
    def _loop(self):
        return self._batch.loop

    @property
    def _cancel_message(self):
        return None

    def get_loop(self):
        return self._batch.loop

    def done(self):
        return <bint>(self._cancelled or self._batch.state != PENDING)

    def cancelled(self):
        return <bint>self._cancelled

    def result(self):
        return outcome_of(self)

    def exception(self):
        if self._cancelled:
            raise CancelledError
        cdef ProducerBatch batch = self._batch
        if batch.state == PENDING:
            raise InvalidStateError("the record is not acknowledged yet")
        if batch.state == IN_PIECES:
            error = piece_of(batch, self._index)[1].error
            return None if error is None else fresh(error)
        return fresh(batch.error) if batch.state == FAILED else None

    def cancel(self, msg=None):
        cdef Wait wait
        if self._cancelled or self._batch.state != PENDING:
            return False
        self._cancelled = True
        chain = []
        wait = self._first
        self._first = None
        while wait is not None:
            chain.append(wait)
            wait = wait.following
        for waiting in reversed(chain):
            wait = waiting
            wait.following = None
            wait._call_soon()
        return True

    def _make_cancelled_error(self):
        return CancelledError()

    def add_done_callback(self, fn, *, context=None):
        cdef Wait wait = Wait.__new__(Wait)
        wait.ack = self
        wait.add_done_callback(fn, context=context)

    def remove_done_callback(self, fn):
        cdef Wait wait = self._first
        cdef int removed = 0
        while wait is not None:
            if wait.callback is not None and not wait.by_task and wait.callback == fn:
                wait.callback = None
                removed += 1
            wait = wait.following
        return removed

    def __await__(self):
        cdef Wait wait
        if self._cancelled or self._batch.state != PENDING:
            return self  # there is nothing to wait for: `__next__` has the outcome
        wait = Wait.__new__(Wait)
        wait.ack = self
        wait.by_task = True
        return wait

    def __iter__(self):
        return self.__await__()

    def __next__(self):
        stop_with(outcome_of(self))
        raise StopIteration  # bare: Cython adds nothing to the exception that is set

    def __repr__(self):
        cdef ProducerBatch batch = self._batch
        state = ("pending", "acked", "sent", "failed", "split")[batch.state]
        topic, partition = batch.topic_partition
        where = f"{topic}-{partition} record {self._index} of its batch"
        return f"<Ack {'cancelled' if self._cancelled else state} {where}>"


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Wait:
    __doc__ = _TwinWait.__doc__

    def __init__(self, *_, **__):
        raise TypeError("an Ack creates a Wait for each await and each callback")

    def __iter__(self):
        return self

    cdef _step(self, bint *stops):
        """Return the record's outcome and set ``stops``, or return the future to wait on."""
        cdef Ack ack = self.ack
        stops[0] = ack._cancelled or ack._batch.state != PENDING
        if stops[0]:
            return outcome_of(ack)
        if self._yielded:
            raise RuntimeError("await wasn't used with a future")
        self._yielded = True
        self._blocking = True
        return self

    def __next__(self):
        cdef bint stops
        result = self._step(&stops)
        if stops:
            stop_with(result)
            raise StopIteration  # bare: Cython adds nothing to the exception that is set
        return result

    def send(self, value):
        return self.__next__()

    def throw(self, kind, value=None, traceback=None):
        if value is None:
            value = kind() if isinstance(kind, type) else kind
        if traceback is not None:
            value = value.with_traceback(traceback)
        raise value

    def close(self):
        pass

    @property
    def _asyncio_future_blocking(self):
        return self._blocking

    @_asyncio_future_blocking.setter
    def _asyncio_future_blocking(self, bint value):
        self._blocking = value

    def get_loop(self):
        return self.ack._batch.loop

    def done(self):
        return self._cancelled or self.ack._cancelled or self.ack._batch.state != PENDING

    def cancelled(self):
        return self._cancelled or self.ack._cancelled

    def result(self):
        if self._cancelled or self.ack._cancelled:
            raise CancelledError

    def exception(self):
        return self.result()

    def cancel(self, msg=None):
        if self._cancelled or self.ack._cancelled or self.ack._batch.state != PENDING:
            return False
        self._cancelled = True
        self._call_soon()
        return True

    def add_done_callback(self, fn, *, context=None):
        cdef Ack ack = self.ack
        if self._enlisted:
            raise RuntimeError("a Wait accepts only one callback")
        self.callback = fn
        self.context = copy_context() if context is None else context
        if self._cancelled or ack._cancelled or ack._batch.state != PENDING:
            self._call_soon()
            return
        self._enlisted = True
        self.following = ack._first
        ack._first = self
        ack._batch._enlist(self)

    def remove_done_callback(self, fn):
        if self.callback is None or self.callback != fn:
            return 0
        self.callback = None
        return 1

    cdef _call_soon(self):
        callback = self.callback
        context = self.context
        self.callback = None
        self.context = None
        if callback is not None:
            self.ack._batch.loop.call_soon(
                callback, self if self.by_task else self.ack, context=context
            )


cdef int send_to_wait(PyObject *wait, PyObject *_, PyObject **result) except -1:
    """One step of an await, as the interpreter and asyncio's tasks call it (``am_send``)."""
    cdef bint stops
    step = (<Wait>wait)._step(&stops)
    Py_INCREF(step)
    result[0] = <PyObject *>step
    return PYGEN_RETURN if stops else PYGEN_NEXT


give_am_send(Wait, send_to_wait)


cdef int send_to_ack(PyObject *ack, PyObject *_, PyObject **result) except -1:
    """The only step of an await that began after the outcome was set."""
    outcome = outcome_of(<Ack>ack)
    Py_INCREF(outcome)
    result[0] = <PyObject *>outcome
    return PYGEN_RETURN


give_am_send(Ack, send_to_ack)
