# cython: language_level=3, freethreading_compatible=True
# cython: binding=False, auto_pickle=False, nonecheck=True, embedsignature=True, embedsignature.format=clinic
"""Native ConsumerRecord: untracked by the garbage collector, with its batch's fields shared.

The .pxd offers ``ConsumerRecord`` (fields ``context``, ``offset``, ``timestamp``, ``key``, ``value``,
``headers`` and the two sizes are C attributes), ``BatchContext`` and ``new_context()``. A decoder
creates one context per batch and records with ``ConsumerRecord.__new__(ConsumerRecord)``; a
deserializing consumer assigns ``record.value`` and leaves the sizes unchanged.

A list of 10,000 records costs the collector nothing, because it tracks neither class. The drawback:
a record reachable from its own key, value, headers or attributes is never freed.
"""

cimport cython
from cpython.object cimport PyObject, PyObject_GenericSetAttr, PyTypeObject

from types import GenericAlias

from aiokafka_lite._consumer_record_python import ConsumerRecord as _Twin

cdef extern from *:
    """
    #include <structmember.h>
    /* The interpreter reads what a class has as a slot without a call, four times as fast as what
       Cython's getters give; and value and key are what every application reads. A slot can be
       deleted, which the C code here would not survive, so these are read-only slots, and the
       class's own __setattr__ writes them. */
    static int aiokafka_lite_make_slot(
        PyTypeObject *type, PyMemberDef *slot, const char *name, Py_ssize_t offset
    ) {
        PyObject *descriptor;
        int failed;
        slot->name = name;
        slot->type = T_OBJECT_EX;
        slot->offset = offset;
        slot->flags = READONLY;
        descriptor = PyDescr_NewMember(type, slot);
        if (descriptor == NULL)
            return -1;
        failed = PyDict_SetItemString(type->tp_dict, name, descriptor);
        Py_DECREF(descriptor);
        PyType_Modified(type);
        return failed;
    }
    static PyMemberDef aiokafka_lite_slots[3];  /* the descriptors point to them */

    /* A record accepts attributes that are not fields, as aiokafka's does. Cython's own `__dict__`
       would make a dict for each record. The interpreter makes it for the first such attribute if
       the type says where it is kept, and expects NULL there, where Cython puts None. */
    static Py_ssize_t aiokafka_lite_dict_offset = 0;

    static PyGetSetDef aiokafka_lite_dict = {
        "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL
    };

    static int aiokafka_lite_keep_dict_at(PyTypeObject *type, Py_ssize_t offset) {
        PyObject *descriptor = PyDescr_NewGetSet(type, &aiokafka_lite_dict);
        int failed;
        if (descriptor == NULL)
            return -1;
        failed = PyDict_SetItemString(type->tp_dict, "__dict__", descriptor);
        Py_DECREF(descriptor);
        aiokafka_lite_dict_offset = offset;
        type->tp_dictoffset = offset;
        PyType_Modified(type);
        return failed;
    }

    static CYTHON_INLINE int aiokafka_lite_has_dict(PyObject *record) {
        return *(PyObject **)((char *)record + aiokafka_lite_dict_offset) != NULL;
    }

    static CYTHON_INLINE void aiokafka_lite_begin_without_dict(PyObject *record) {
        if (aiokafka_lite_dict_offset) {
            PyObject **dict = (PyObject **)((char *)record + aiokafka_lite_dict_offset);
            Py_DECREF(*dict);  /* None */
            *dict = NULL;
        }
    }
    """
    ctypedef struct PyMemberDef:
        pass
    int generic_set "PyObject_GenericSetAttr"(object, object, PyObject *) except -1
    PyMemberDef *slots "aiokafka_lite_slots"
    int make_slot "aiokafka_lite_make_slot"(
        PyTypeObject *type, PyMemberDef *slot, const char *name, Py_ssize_t offset) except -1
    int keep_dict_at "aiokafka_lite_keep_dict_at"(PyTypeObject *type, Py_ssize_t offset) except -1
    bint has_dict "aiokafka_lite_has_dict"(PyObject *record)
    void begin_without_dict "aiokafka_lite_begin_without_dict"(PyObject *record)


cdef frozenset _FIELDS = frozenset(_Twin.__dataclass_fields__)


@cython.no_gc
@cython.freelist(64)
cdef class BatchContext:
    """The fields that all records of a batch share. Never changes once a record holds it."""

    cdef BatchContext copy(self):
        return new_context(
            self.topic, self.partition, self.timestamp_type, self.leader_epoch, self.checksum)


cdef BatchContext new_context(
    str topic, int32_t partition, int timestamp_type, int32_t leader_epoch, object checksum
):
    cdef BatchContext context = BatchContext.__new__(BatchContext)
    context.topic = topic
    context.partition = partition
    context.timestamp_type = timestamp_type
    context.leader_epoch = leader_epoch
    context.checksum = checksum
    return context


cdef BatchContext _NO_FACTS = new_context(None, -1, -1, -1, None)


cdef BatchContext copied_context(ConsumerRecord record):
    """Return a context of the record's own. It may have had none: a dataclass made of it assigns
    one fact after the other."""
    cdef BatchContext context = record.context
    return _NO_FACTS.copy() if context is None else context.copy()


@cython.no_gc
@cython.freelist(4096)
cdef class ConsumerRecord:
    __doc__ = _Twin.__doc__
    __match_args__ = _Twin.__match_args__
    # dataclasses.asdict(), fields() and replace() work as on aiokafka's dataclass.
    __dataclass_fields__ = _Twin.__dataclass_fields__
    __dataclass_params__ = _Twin.__dataclass_params__
    __class_getitem__ = classmethod(GenericAlias)
    __hash__ = None  # mutable and compared by value, as aiokafka's

    # A dataclass that subclasses it creates no slots for the fields defined here.
    __slots__ = _Twin.__match_args__ + ("leader_epoch",)

    def __cinit__(self):
        begin_without_dict(<PyObject *>self)

    def __init__(
        self, str topic not None, int32_t partition, int64_t offset, int64_t timestamp,
        int timestamp_type, key, value, checksum, int32_t serialized_key_size,
        int32_t serialized_value_size, headers, *, int32_t leader_epoch=-1,
    ):
        self.context = new_context(topic, partition, timestamp_type, leader_epoch, checksum)
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size
        self.headers = headers

    def __setattr__(self, name, value):
        if name == "value":
            self.value = value
        elif name == "key":
            self.key = value
        elif name == "headers":
            self.headers = value
        else:
            PyObject_GenericSetAttr(self, name, value)

    def __delattr__(self, name):
        if name in _FIELDS:
            raise AttributeError(f"{name!r} of a ConsumerRecord cannot be deleted")
        generic_set(self, name, NULL)

    # The shared facts can be assigned too, as on a dataclass: the record then gets its own context.

    @property
    def topic(self):
        return self.context.topic

    @topic.setter
    def topic(self, str topic not None):
        cdef BatchContext context = copied_context(self)
        context.topic = topic
        self.context = context

    @property
    def partition(self):
        return self.context.partition

    @partition.setter
    def partition(self, int32_t partition):
        cdef BatchContext context = copied_context(self)
        context.partition = partition
        self.context = context

    @property
    def timestamp_type(self):
        return self.context.timestamp_type

    @timestamp_type.setter
    def timestamp_type(self, int timestamp_type):
        cdef BatchContext context = copied_context(self)
        context.timestamp_type = timestamp_type
        self.context = context

    @property
    def leader_epoch(self):
        return self.context.leader_epoch

    @leader_epoch.setter
    def leader_epoch(self, int32_t leader_epoch):
        cdef BatchContext context = copied_context(self)
        context.leader_epoch = leader_epoch
        self.context = context

    @property
    def checksum(self):
        return self.context.checksum

    @checksum.setter
    def checksum(self, checksum):
        cdef BatchContext context = copied_context(self)
        context.checksum = checksum
        self.context = context

    def __eq__(self, other):
        if type(other) is not type(self):  # a dataclass's way, too
            return NotImplemented
        cdef ConsumerRecord a = self
        cdef ConsumerRecord b = <ConsumerRecord>other
        return (
            a.offset == b.offset
            and a.context.partition == b.context.partition
            and a.timestamp == b.timestamp
            and a.context.timestamp_type == b.context.timestamp_type
            and a.serialized_key_size == b.serialized_key_size
            and a.serialized_value_size == b.serialized_value_size
            and a.context.topic == b.context.topic
            and a.context.checksum == b.context.checksum
            and a.key == b.key
            and a.value == b.value
            and a.headers == b.headers
        )

    def __repr__(self):
        return (
            f"{type(self).__qualname__}(topic={self.topic!r}, partition={self.partition!r}, "
            f"offset={self.offset!r}, timestamp={self.timestamp!r}, "
            f"timestamp_type={self.timestamp_type!r}, key={self.key!r}, value={self.value!r}, "
            f"checksum={self.checksum!r}, serialized_key_size={self.serialized_key_size!r}, "
            f"serialized_value_size={self.serialized_value_size!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        fields = (
            type(self), self.topic, self.partition, self.offset, self.timestamp,
            self.timestamp_type, self.key, self.value, self.checksum, self.serialized_key_size,
            self.serialized_value_size, self.headers, self.leader_epoch,
        )
        if type(self) is not ConsumerRecord:
            return _restore, fields, self.__getstate__()
        if has_dict(<PyObject *>self):
            return _restore, fields, self.__dict__
        return _restore, fields


def _restore(kind, *fields):
    """Recreate a record; pickle then sets the attributes that are not fields as its state."""
    record = kind.__new__(kind)
    ConsumerRecord.__init__(record, *fields[:-1], leader_epoch=fields[-1])
    return record


cdef make_slots():
    cdef ConsumerRecord record = ConsumerRecord.__new__(ConsumerRecord)
    cdef PyTypeObject *type = <PyTypeObject *><PyObject *>ConsumerRecord
    record.value, record.key, record.headers = object(), object(), object()
    record._attributes = object()
    make_slot(type, &slots[0], b"value", place_of(record, record.value))
    make_slot(type, &slots[1], b"key", place_of(record, record.key))
    make_slot(type, &slots[2], b"headers", place_of(record, record.headers))
    keep_dict_at(type, place_of(record, record._attributes))
    record._attributes = {}  # what the interpreter expects there when it frees the record


cdef Py_ssize_t place_of(ConsumerRecord record, object field):
    """Return a field's offset in the record, because Cython does not expose its struct's name."""
    cdef PyObject **words = <PyObject **><PyObject *>record
    cdef Py_ssize_t word = 0
    while words[word] != <PyObject *>field:
        word += 1
    return word * sizeof(PyObject *)


make_slots()
