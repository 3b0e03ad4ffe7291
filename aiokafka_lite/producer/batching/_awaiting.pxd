# Returns a native awaitable's result to its awaiter, at the least cost.
from cpython.object cimport PyObject

cdef extern from *:
    """
    /* StopIteration(value), without the traceback that raising it in Cython would build. A tuple (a
       RecordMetadata is one) given to PyErr_SetObject would be unpacked into its arguments. */
    static inline void akl_stop_with(PyObject *value) {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
        if (stop) { PyErr_SetObject(PyExc_StopIteration, stop); Py_DECREF(stop); }
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
