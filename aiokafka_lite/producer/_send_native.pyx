# cython: language_level=3, freethreading_compatible=True
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native ``send`` and ``send_and_wait``. The Python twin is their specification."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from aiokafka_lite._interpreter cimport (
    PYGEN_NEXT, PYGEN_RETURN, Step, give_am_send, in_step, mark_step, running_loop_entry, stop_with,
)
from aiokafka_lite.producer.batching._accumulator_native cimport AppendCore
from aiokafka_lite.producer.batching._ack_native cimport Ack, Wait

from asyncio import _get_running_loop as running_loop
from types import GenericAlias

from aiokafka_lite.producer._send_python import SendCalls as _TwinCalls
from aiokafka_lite.producer._send_python import SendResult as _TwinSendResult
from aiokafka_lite.producer._send_python import StoredResult as _TwinStoredResult
from aiokafka_lite.producer._send_python import mark_as_coroutine_function

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()


cdef raise_thrown(kind, value, traceback):
    if value is None:
        value = kind() if isinstance(kind, type) else kind
    if traceback is not None:
        value = value.with_traceback(traceback)
    raise value


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class SendResult:
    __doc__ = _TwinSendResult.__doc__

    cdef Ack ack

    def __init__(self, *_, **__):
        raise TypeError("`send` creates it")

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        stop_with(self.ack)
        raise StopIteration  # bare: Cython adds nothing to the exception that is set

    def send(self, value):
        return self.__next__()

    def throw(self, kind, value=None, traceback=None):
        raise_thrown(kind, value, traceback)

    def close(self):
        pass

    @property
    def __name__(self):
        return "AIOKafkaProducer.send"


cdef int send_to_result(PyObject *sent, PyObject *_, PyObject **result) except -1:
    Py_INCREF((<SendResult>sent).ack)
    result[0] = <PyObject *>(<SendResult>sent).ack
    return PYGEN_RETURN


give_am_send(SendResult, send_to_result)


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class StoredResult:
    __doc__ = _TwinStoredResult.__doc__

    cdef Ack ack
    cdef Wait _wait

    def __init__(self, *_, **__):
        raise TypeError("`send_and_wait` creates it")

    cdef Wait _waiting(self):
        if self._wait is None:
            self._wait = Wait.__new__(Wait)
            self._wait.ack = self.ack
            self._wait.by_task = True
        return self._wait

    def __await__(self):
        return self.ack.__await__()

    def __iter__(self):
        return self

    def __next__(self):
        return self._waiting().__next__()

    def send(self, value):
        return self._waiting().__next__()

    def throw(self, kind, value=None, traceback=None):
        raise_thrown(kind, value, traceback)

    def close(self):
        pass

    @property
    def __name__(self):
        return "AIOKafkaProducer.send_and_wait"


cdef int send_to_stored(PyObject *stored, PyObject *_, PyObject **result) except -1:
    cdef bint stops
    step = (<StoredResult>stored)._waiting()._step(&stops)
    Py_INCREF(step)
    result[0] = <PyObject *>step
    return PYGEN_RETURN if stops else PYGEN_NEXT


give_am_send(StoredResult, send_to_stored)


cdef class SendCalls:
    __doc__ = _TwinCalls.__doc__
    __class_getitem__ = classmethod(GenericAlias)

    cdef readonly object _append
    cdef AppendCore _core  # None where another `append` stands before its own
    cdef object _home
    cdef bint _home_has_thread  # asyncio's own loops have an attribute `_thread_id`
    cdef object _home_entry  # the thread's entry of other loops while they run
    cdef Step _step  # in which the home loop was last seen running

    def __init__(self, AppendCore core not None, append=None):
        self._core = core if append is None else None
        self._append = core.append if append is None else append
        self._home = core.loop
        self._home_has_thread = hasattr(core.loop, "_thread_id")
        self._home_entry = object()

    cdef inline bint _here(self) except -1:
        return in_step(&self._step) or self._look()

    cdef bint _look(self) except -1:
        """Ask asyncio: once for each step of a task or callback that sends."""
        if self._home_has_thread:  # one attribute in place of a call; it is None unless the loop runs
            thread = self._home._thread_id
            if thread is None or <unsigned long>thread != PyThread_get_thread_ident():
                return False
            mark_step(&self._step)
            return True
        cdef PyObject* entry = running_loop_entry()
        if entry is NULL or entry != <PyObject*>self._home_entry:
            if running_loop() is not self._home:
                return False
            if entry is not NULL:
                self._home_entry = <object>entry
        mark_step(&self._step)
        return True

    cdef inline _take(self, topic, value, key, partition, timestamp_ms, headers):
        if self._core is not None:
            return self._core.append_fields(topic, value, key, partition, timestamp_ms, headers)
        return self._append(topic, value, key, partition, timestamp_ms, headers)

    def _append_here(self, topic, value, key, partition, timestamp_ms, headers):
        if not self._here():
            self._check_home()
        return self._take(topic, value, key, partition, timestamp_ms, headers)

    # Python functions, so that asyncio and mocks can mark them; those do not check their `self`.

    @cython.binding(True)
    def send(
        self, topic, value=None, key=None, partition=None, timestamp_ms=None, headers=None
    ):
        cdef SendResult sent
        if not isinstance(<object>self, SendCalls):
            raise TypeError(f"send() needs a producer, not {type(<object>self).__name__!r}")
        if not self._here():
            return self._send_later(topic, value, key, partition, timestamp_ms, headers)
        try:
            result = self._take(topic, value, key, partition, timestamp_ms, headers)
        except Exception as error:
            return self._refuse(error)
        if type(result) is not Ack:
            return self._send_blocked(result)
        sent = SendResult.__new__(SendResult)
        sent.ack = <Ack>result
        return sent

    @cython.binding(True)
    def send_and_wait(
        self, topic, value=None, key=None, partition=None, timestamp_ms=None, headers=None
    ):
        cdef StoredResult stored
        if not isinstance(<object>self, SendCalls):
            raise TypeError(f"send_and_wait() needs a producer, not {type(<object>self).__name__!r}")
        if (<object>type(self)).send is not _SEND:
            return self._await_send(topic, value, key, partition, timestamp_ms, headers)
        if not self._here():
            return self._send_and_wait_later(topic, value, key, partition, timestamp_ms, headers)
        try:
            result = self._take(topic, value, key, partition, timestamp_ms, headers)
        except Exception as error:
            return self._refuse(error)
        if type(result) is not Ack:
            return self._send_blocked_and_wait(result)
        stored = StoredResult.__new__(StoredResult)
        stored.ack = <Ack>result
        return stored


cdef object _SEND = SendCalls.send

for _name in ("send", "send_and_wait"):
    _method, _twin = SendCalls.__dict__[_name], _TwinCalls.__dict__[_name]
    _method.__doc__ = _twin.__doc__
    _method.__annotations__ = _twin.__annotations__
    mark_as_coroutine_function(_method)
