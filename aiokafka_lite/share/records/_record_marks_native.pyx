# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native marks of acquired records. The Python twin is their specification.

The garbage collector does not track an Acknowledgement. A cycle through one is broken by its
result, which every one gets.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t

import asyncio
from contextvars import copy_context

from aiokafka_lite.share.records._record_marks_python import Acknowledgement as _Twin
from aiokafka_lite.share.records._record_marks_python import Marks as _TwinMarks
from aiokafka_lite.share.records._record_marks_python import OutcomeCore as _TwinOutcome
from aiokafka_lite.share.records._record_marks_python import awaiting

DEF GAP = 0
DEF ACCEPT = 1
DEF REJECT = 3
DEF HELD = 5
DEF IN_FLIGHT = 0x10
DEF DONE = 0x20
DEF LOST = 0x21
DEF ABSENT = 0x22

cdef object CancelledError = asyncio.CancelledError
cdef object InvalidStateError = asyncio.InvalidStateError


cdef class OutcomeCore:
    __doc__ = _TwinOutcome.__doc__


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class Acknowledgement:
    __doc__ = _Twin.__doc__
    _asyncio_future_blocking = False

    def __init__(self, OutcomeCore outcome not None, int64_t offset):
        self._outcome = outcome
        self._offset = offset

    @property
    def _loop(self):
        return self._outcome.loop

    @property
    def _cancel_message(self):
        return None

    def get_loop(self):
        """Return the consumer's event loop."""
        return self._outcome.loop

    def done(self):
        """True if the result is known, or the waits were cancelled."""
        return self._cancelled or self._outcome.done

    def cancelled(self):
        """True if `cancel` has stopped the waits."""
        return self._cancelled

    def result(self):
        """Return what `await` returns; raises as `await`, or InvalidStateError without a result."""
        if self._cancelled:
            raise CancelledError
        return self._outcome.result(self._offset)

    def exception(self):
        """Return what `await` raises, or None; raises InvalidStateError without a result."""
        try:
            self.result()
        except InvalidStateError:
            raise
        except Exception as error:
            return error
        return None

    def cancel(self, msg=None):
        """Cancel all waits; the acknowledgement is sent nevertheless."""
        if self._cancelled or self._outcome.done:
            return False
        self._cancelled = True
        waiters = self._waiters
        self._waiters = None
        if waiters is not None:
            for waiter in waiters:
                waiter.cancel()
        if self._callbacks is not None:
            self._outcome.unwatch(self)
            self._call_back()
        return True

    def _make_cancelled_error(self):
        return CancelledError()

    def add_done_callback(self, callback, /, *, context=None):
        """Call back in the event loop once it is done. It is sent at once then."""
        if context is None:
            context = copy_context()
        if self._cancelled or self._outcome.done:
            self._outcome.loop.call_soon(callback, self, context=context)
        elif self._callbacks is None:
            self._callbacks = [(callback, context)]
            self._outcome.watch(self)
        else:
            self._callbacks.append((callback, context))

    def remove_done_callback(self, callback, /):
        """Remove a callback; returns how often it was there."""
        cdef Py_ssize_t before
        if self._callbacks is None:
            return 0
        before = len(self._callbacks)
        self._callbacks = [each for each in self._callbacks if each[0] != callback]
        removed = before - len(self._callbacks)
        if not self._callbacks:
            self._callbacks = None
            self._outcome.unwatch(self)
        return removed

    def _call_back(self):
        callbacks = self._callbacks
        self._callbacks = None
        if callbacks is None:
            return
        loop = self._outcome.loop
        if loop.is_closed():
            return
        for fn, context in callbacks:
            loop.call_soon(fn, self, context=context)

    def __await__(self):
        return awaiting(self)

    def __iter__(self):
        return awaiting(self)

    def _begin_wait(self):
        waiter = self._outcome.wait()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        return waiter

    def _end_wait(self, waiter):
        self._outcome.give_up(waiter)
        if self._waiters is not None and waiter in self._waiters:
            self._waiters.remove(waiter)

    def __repr__(self):
        state = "cancelled" if self._cancelled else "done" if self._outcome.done else "pending"
        return f"<Acknowledgement of {self._outcome.describe(self._offset)}, {state}>"


cdef class Marks:
    __doc__ = _TwinMarks.__doc__

    def __init__(
        self, int64_t base, bytearray states not None, double deadline, double duration=30.0
    ):
        self.base = base
        self.duration = duration
        self.states = states
        self.deadline = deadline
        self.renewed = {}

    cdef int state_of(self, int64_t offset) except -1:
        cdef unsigned char *state = place(self, offset)
        if state == NULL:
            raise IndexError(f"offset {offset} was not acquired here")
        return state[0]

    def mark(self, int64_t offset, int kind):
        """Acknowledge a record with a terminal type."""
        return self.mark_offset(offset, kind)

    cdef mark_offset(self, int64_t offset, int kind):
        cdef Acknowledgement made
        cdef unsigned char *state
        cdef OutcomeCore outcome = self.outcome
        if outcome is not None and self.refusal is None and ACCEPT <= kind <= REJECT:
            state = place(self, offset)
            if state != NULL and state[0] == HELD:
                state[0] = kind
                outcome.pending += 1
                made = Acknowledgement.__new__(Acknowledgement)
                made._outcome = outcome
                made._offset = offset
                return made
        return self._mark_slowly(offset, kind)

    def accept_undecided(self, int64_t offset):
        """Accept a record unless it is marked, without an acknowledgement object."""
        self.accept_offset(offset)

    cdef int accept_offset(self, int64_t offset) except -1:
        cdef unsigned char *state
        cdef OutcomeCore outcome = self.outcome
        if outcome is not None and self.refusal is None:
            state = place(self, offset)
            if state != NULL and state[0] == HELD:
                state[0] = ACCEPT
                outcome.pending += 1
                return 0
        if not self.marked_at(offset):
            self._mark_slowly(offset, ACCEPT)
        return 0

    cdef bint hold_offset(self, int64_t offset) except -1:
        cdef unsigned char *state = place(self, offset)
        if state == NULL or state[0] != GAP:
            return False
        state[0] = HELD
        return True

    def hold(self, int64_t offset):
        """There is a record at an offset. Returns True if the offset was acquired."""
        return self.hold_offset(offset)

    def take_marked(self):
        """Take the terminal marks and gaps for a request."""
        cdef bytearray states = self.states
        cdef unsigned char *state
        cdef Py_ssize_t at = 0, start, size, index
        cdef list runs = []
        if states is None:
            raise TypeError("the acquisition has no states")
        # Making a run may run a finalizer, so the memory is looked up again afterwards.
        while at < PyByteArray_GET_SIZE(states):
            state = <unsigned char *>PyByteArray_AS_STRING(states)
            size = PyByteArray_GET_SIZE(states)
            while at < size and state[at] > REJECT:
                at += 1
            start = at
            while at < size and state[at] <= REJECT:
                at += 1
            if at > start:
                types = PyBytes_FromStringAndSize(<char *>state + start, at - start)
                for index in range(start, at):
                    state[index] |= IN_FLIGHT
                runs.append((self.base + start, types))
        return runs

    def end(self, int64_t first, int64_t last, unsigned char became):
        """The offsets of a range have ended with a state."""
        cdef unsigned char *state
        cdef Py_ssize_t left, ended = 0
        cdef Py_ssize_t size = <Py_ssize_t>(<uint64_t>last - <uint64_t>first + 1)
        if size == 0:
            return 0
        if last < first or place(self, last) == NULL:
            raise IndexError(f"offsets {first} to {last} were not acquired here")
        state = place(self, first)
        if state == NULL:
            raise IndexError(f"offsets {first} to {last} were not acquired here")
        for left in range(size):
            ended += DONE <= state[left] <= ABSENT
            state[left] = became
        return size - ended

    def is_marked(self, int64_t offset):
        """True if a record has a terminal acknowledgement, sent or to be sent."""
        return self.marked_at(offset)

    cdef bint marked_at(self, int64_t offset) except -1:
        cdef int state = self.state_of(offset)
        return state == DONE or ACCEPT <= (state & ~IN_FLIGHT) <= REJECT

    def deadline_of(self, int64_t offset):
        """Loop time when a record's lock may end; 0.0 if it is gone."""
        return self.deadline_at(offset)

    cdef double deadline_at(self, int64_t offset) except? -1.0:
        if self.state_of(offset) == LOST:
            return 0.0
        if self.renewed:
            return self.renewed.get(offset, self.deadline)
        return self.deadline
