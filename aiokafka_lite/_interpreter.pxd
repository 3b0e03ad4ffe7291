"""What native modules need of the interpreter: the event loop that runs in the current thread, and the
results of awaits."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()  # borrowed; NULL without a thread state
    PyObject* PyDict_GetItemWithError(PyObject* dictionary, PyObject* key) except? NULL  # borrowed

cdef extern from *:
    """
    #if !defined(PYPY_VERSION)
    static inline PyThreadState *akl_thread(void) { return PyThreadState_Get(); }
    static inline uint64_t akl_thread_id(PyThreadState *thread) { return thread->id; }
    static inline uint64_t akl_context_version(PyThreadState *thread) { return thread->context_ver; }
    #else
    static inline void *akl_thread(void) { return NULL; }
    static inline uint64_t akl_thread_id(void *thread) { return 0; }
    static inline uint64_t akl_context_version(void *thread) { return 0; }
    #endif
    """
    void* current_thread "akl_thread"() noexcept  # NULL where the interpreter does not show it
    uint64_t thread_id "akl_thread_id"(void*) noexcept
    uint64_t context_version "akl_context_version"(void*) noexcept


cdef struct Step:
    # A part of a thread's run in which no context was entered or left: at most one step of a task,
    # or one callback. The interpreter counts contexts in `context_ver`, and never reuses an `id`.
    # As an event loop enters a context for each step and callback, the running loop is the same in
    # the whole of it.
    void* thread
    uint64_t id
    uint64_t version


cdef inline bint in_step(const Step* step) noexcept:
    """Return True in the step that was marked; False where the interpreter cannot show it."""
    cdef void* thread = current_thread()
    return (
        thread is not NULL
        and thread == step.thread
        and context_version(thread) == step.version
        and thread_id(thread) == step.id
    )


cdef inline void mark_step(Step* step) noexcept:
    step.thread = current_thread()
    if step.thread is not NULL:
        step.id = thread_id(step.thread)
        step.version = context_version(step.thread)


cdef inline PyObject* running_loop_entry() except? NULL:
    """Return the entry of the running loop in the thread's state, borrowed, or NULL if there is none.

    `asyncio._get_running_loop` compares the process id on CPython 3.11, a system call of 0.14 us, and
    is a Python call on all releases. The entry is 10 times faster to read. It is an object that
    asyncio makes when a loop starts to run and never changes (3.11), or the loop itself (3.12, 3.13).
    So a thread whose entry is the object that was there when `_get_running_loop` returned a certain
    loop still runs that loop. Later releases keep the loop elsewhere: there is no entry.
    """
    cdef PyObject* state = PyThreadState_GetDict()
    if state is NULL:
        return NULL
    return PyDict_GetItemWithError(state, <PyObject*>"__asyncio_running_event_loop__")


# A native awaitable returns its result to its awaiter, at the least cost.
cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030C0000 && !defined(PYPY_VERSION)
    /* From Python 3.12 on, `await` takes a result out of a StopIteration. These are made by hand,
       without `args`, of a subclass whose freed objects are used again: that saves 370 of the 1,640
       instructions that an await of an Ack takes. An object that Python code has touched (it has a
       traceback, a context, arguments) is really freed. */
    static PyTypeObject akl_stop_type;
    #ifndef Py_GIL_DISABLED
    #define AKL_SPARE_STOPS 8
    static PyStopIterationObject *akl_spare_stops[AKL_SPARE_STOPS];
    static int akl_spare_stop_count = 0;

    static void akl_free_stop(PyObject *self) {
        PyStopIterationObject *stop = (PyStopIterationObject *)self;
        PyObject *value;
        if (akl_spare_stop_count == AKL_SPARE_STOPS || stop->dict || stop->notes
                || stop->traceback || stop->context || stop->cause || stop->suppress_context
                || !stop->args || PyTuple_GET_SIZE(stop->args)) {
            ((PyTypeObject *)PyExc_StopIteration)->tp_dealloc(self);
            return;
        }
        PyObject_GC_UnTrack(self);
        value = stop->value;
        stop->value = NULL;
        akl_spare_stops[akl_spare_stop_count++] = stop;
        Py_XDECREF(value); /* may run code that takes the spare one */
    }
    #endif

    static PyStopIterationObject *akl_new_stop(void) {
        PyStopIterationObject *stop;
    #ifndef Py_GIL_DISABLED
        if (akl_spare_stop_count) {
            stop = akl_spare_stops[--akl_spare_stop_count];
            PyObject_Init((PyObject *)stop, &akl_stop_type);
            PyObject_GC_Track(stop);
            return stop;
        }
    #endif
        if (!akl_stop_type.tp_basicsize) {
            akl_stop_type.tp_name = "StopIteration";
            akl_stop_type.tp_base = (PyTypeObject *)PyExc_StopIteration;
            akl_stop_type.tp_flags = Py_TPFLAGS_DEFAULT;
    #ifndef Py_GIL_DISABLED
            akl_stop_type.tp_dealloc = akl_free_stop;
    #endif
            if (PyType_Ready(&akl_stop_type)) return NULL;
        }
        stop = (PyStopIterationObject *)akl_stop_type.tp_alloc(&akl_stop_type, 0);
        if (stop) stop->args = PyTuple_New(0); /* a constant of the interpreter */
        return stop;
    }
    #endif

    /* Raises StopIteration(value), without the traceback that raising it in Cython would build. A
       tuple (a RecordMetadata is one) given to PyErr_SetObject would be unpacked into its arguments. */
    static inline void akl_stop_with(PyObject *value) {
    #if PY_VERSION_HEX >= 0x030C0000 && !defined(PYPY_VERSION)
        PyStopIterationObject *stop = akl_new_stop();
        if (!stop) return;
        stop->value = Py_NewRef(value);
        PyErr_SetRaisedException((PyObject *)stop);
    #else
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
        if (stop) { PyErr_SetObject(PyExc_StopIteration, stop); Py_DECREF(stop); }
    #endif
    }

    /* A step of a type's awaits that returns their result, where ``__next__`` has to raise it: a
       StopIteration is made, raised and taken apart for 100 ns. The interpreter (3.11; later ones
       in part) and asyncio's tasks look for it first. For one type a module, once. */
    static inline void akl_give_am_send(
        PyObject *type, int (*step)(PyObject *, PyObject *, PyObject **)
    ) {
    #ifndef PYPY_VERSION
        static PyAsyncMethods methods;
        PyTypeObject *given = (PyTypeObject *)type;
        if (!given->tp_as_async) given->tp_as_async = &methods;
        given->tp_as_async->am_send = (sendfunc)step;
    #endif
    }
    """
    void stop_with "akl_stop_with"(object value) noexcept
    void give_am_send "akl_give_am_send"(
        object type, int (*step)(PyObject *, PyObject *, PyObject **) except -1)
    int PYGEN_RETURN
    int PYGEN_NEXT
