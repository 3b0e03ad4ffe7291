# cython: language_level=3, freethreading_compatible=True
# cython: boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native slots of `run`. The Python twin is their specification.

A slot is the awaitable of its own `handle`: it calls the handlers and sends to their coroutines in
C, inside the slot's task. A handler that returns without suspending costs neither a step of the
task nor a Python frame besides its own. The objects that a handler awaits are passed on to the
task.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from collections import deque
from math import inf
from time import monotonic
from types import GenericAlias

from aiokafka_lite.share.handling._slot_python import LOOK_EVERY as _LOOK_EVERY
from aiokafka_lite.share.handling._slot_python import Slot as _Twin
from aiokafka_lite.share.handling._slot_python import Tally as _TwinTally
from aiokafka_lite.share.handling._slot_python import awaiting
from aiokafka_lite.share.records._share_record_native cimport ShareRecord, accept_undecided

cdef extern from "Python.h":
    bint PyCoro_CheckExact(object)
    Py_ssize_t Py_SIZE(object)
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PyObject *call "PyObject_CallOneArg"(object function, object argument) noexcept
    PySendResult PyIter_Send(object iterator, object value, PyObject **result) except PYGEN_ERROR

cdef Py_ssize_t LOOK_EVERY = _LOOK_EVERY

cdef extern from *:
    """
    #include <Python.h>
    /* True if the current exception is a TypeError of the call itself, not of what was called. */
    static inline int aiokafka_lite_raised_by_call(void) {
        PyObject *type, *value, *trace;
        int itself;
        PyErr_Fetch(&type, &value, &trace);
        itself = trace == NULL && PyErr_GivenExceptionMatches(type, PyExc_TypeError);
        PyErr_Restore(type, value, trace);
        return itself;
    }
    /* The current exception, for Cython. */
    static inline int aiokafka_lite_reraise(void) {
        return -1;
    }
    /* As in _delivery_native: `await` without StopIteration, where it uses am_send (Python 3.11). */
    static inline void aiokafka_lite_set_send(PyObject *type, sendfunc send) {
        ((PyTypeObject *)type)->tp_as_async->am_send = send;
        PyType_Modified((PyTypeObject *)type);
    }
    """
    bint raised_by_call "aiokafka_lite_raised_by_call"() noexcept
    int reraise "aiokafka_lite_reraise"() except -1
    ctypedef PySendResult (*sendfunc)(PyObject *, PyObject *, PyObject **) except PYGEN_ERROR
    void set_send "aiokafka_lite_set_send"(object type, sendfunc send) noexcept


@cython.final
cdef class Tally:
    __doc__ = _TwinTally.__doc__

    cdef public Py_ssize_t outstanding
    cdef public Py_ssize_t enough
    cdef object _on_enough

    def __init__(self, on_enough):
        self.enough = -1
        self._on_enough = on_enough

    def done(self):
        """A record is no longer outstanding."""
        self.count_down()

    cdef inline int count_down(self) except -1:
        self.outstanding -= 1
        if self.outstanding <= self.enough:
            self._on_enough()
        return 0


@cython.final
cdef class Slot:
    __doc__ = _Twin.__doc__
    __class_getitem__ = classmethod(GenericAlias)

    cdef public object task
    cdef public object record
    cdef public object waiter
    cdef public object lost
    cdef public bint misfit
    cdef object _queue
    cdef object _popleft
    cdef object _handler
    cdef object _clock
    cdef Tally _tally
    cdef object _suspended  # what a handler that has suspended is sent to by
    cdef Py_ssize_t _most  # records that may still be started
    cdef Py_ssize_t _unlooked  # of them, those before the next read of the clock
    cdef double _until  # the clock's time from which no further record is started

    def __cinit__(self, queue not None, handler, Tally tally not None, clock=monotonic):
        if type(queue) is not deque:  # `Py_SIZE` is its length
            raise TypeError("the queue should be a deque")
        self._queue = queue
        self._popleft = queue.popleft
        self._handler = handler
        self._clock = clock
        self._tally = tally

    take_back = _Twin.take_back

    def handle(self, Py_ssize_t most, double within=inf):
        """Handle records of the queue, and accept each whose handler returns."""
        self._most = most
        self._unlooked = LOOK_EVERY
        if most > LOOK_EVERY:
            self._until = <double>self._clock() + within
        return self

    # The awaitable that `handle` returns

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        cdef PyObject *yielded = NULL
        if self.step(None, &yielded) == PYGEN_NEXT:
            return taken(yielded)
        raise StopIteration  # bare: Cython makes no exception object

    def send(self, value):
        """Continue with the value; return what the handler awaits."""
        cdef PyObject *yielded = NULL
        if self.step(value, &yielded) == PYGEN_NEXT:
            return taken(yielded)
        raise StopIteration

    def throw(self, *error):
        """Raise an exception where the handler waits; return what it awaits next."""
        cdef PyObject *yielded = NULL
        suspended = self._suspended
        if suspended is None or not hasattr(suspended, "throw"):
            self._suspended = None
            raise_thrown(*error)
        try:
            return suspended.throw(*error)
        except StopIteration:
            self._suspended = None
            self.on_returned()
        except BaseException:
            self._suspended = None
            raise
        if self.step(None, &yielded) == PYGEN_NEXT:
            return taken(yielded)
        raise StopIteration

    def close(self):
        """Close the handler's coroutine."""
        suspended = self._suspended
        self._suspended = None
        self._most = 0
        if hasattr(suspended, "close"):
            suspended.close()

    cdef PySendResult step(self, value, PyObject **result) except PYGEN_ERROR:
        """Resume the suspended handler, and start others, until one suspends."""
        cdef PySendResult sent
        cdef object handler = self._suspended
        while True:
            if handler is None:
                if self._most <= 0 or Py_SIZE(self._queue) == 0:
                    return PYGEN_RETURN
                self._most -= 1
                self._unlooked -= 1
                if self._unlooked < 0:
                    if <double>self._clock() >= self._until:
                        return PYGEN_RETURN
                    self._unlooked = LOOK_EVERY - 1
                self.record = self._popleft()
                handler = self.begin()
                value = None
            self._suspended = None
            sent = PyIter_Send(handler, value, result)
            if sent == PYGEN_NEXT:
                self._suspended = handler
                return PYGEN_NEXT
            drop(result)
            handler = None
            self.on_returned()

    cdef object begin(self):
        cdef PyObject *called = call(self._handler, self.record)
        if called == NULL:
            self.misfit = raised_by_call()
            reraise()
        awaitable = taken(called)
        if PyCoro_CheckExact(awaitable):
            return awaitable
        try:
            return awaiting(awaitable)
        except LookupError as error:
            self.misfit = True
            raise TypeError(*error.args) from None

    cdef int on_returned(self) except -1:
        """Accept the record whose handler has returned."""
        record = self.record
        if self.lost is not None:
            self._most = 0
            return 0
        if type(record) is ShareRecord:
            accept_undecided(<ShareRecord>record)
        else:
            record._accept_undecided()
        self._tally.count_down()
        return 0


cdef object taken(PyObject *owned):
    """Return an object whose reference the caller owns."""
    value = <object>owned
    Py_DECREF(value)
    return value


cdef void drop(PyObject **owned) noexcept:
    """Release a reference that the caller owns."""
    if owned[0] != NULL:
        Py_DECREF(<object>owned[0])
        owned[0] = NULL


def raise_thrown(kind, value=None, trace=None):
    """Raise the argument of `throw`, in either of its forms."""
    if isinstance(kind, BaseException):
        raise kind
    error = kind() if value is None else value if isinstance(value, BaseException) else kind(value)
    raise error.with_traceback(trace)


cdef PySendResult send_to(PyObject *slot, PyObject *value, PyObject **result) except PYGEN_ERROR:
    """``send`` for ``await``."""
    cdef PySendResult sent = (<Slot>slot).step(<object>value, result)
    if sent == PYGEN_RETURN:
        Py_INCREF(None)
        result[0] = <PyObject *>None
    return sent


set_send(Slot, send_to)
