# Big-endian integers, varints and record v2's layout for the native modules.
# Everything here works on raw pointers. A reader receives the end of its input and returns NULL if
# it would pass it; a writer is called only after the caller has measured the space.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(_MSC_VER)
    #include <stdlib.h>
    #include <intrin.h>
    #define AKL_SWAP16 _byteswap_ushort
    #define AKL_SWAP32 _byteswap_ulong
    #define AKL_SWAP64 _byteswap_uint64
    static __inline int akl_top_bit(uint64_t n) {unsigned long i; _BitScanReverse64(&i, n); return (int)i;}
    #define AKL_LIKELY(x) (x)
    #else
    #define AKL_SWAP16 __builtin_bswap16
    #define AKL_SWAP32 __builtin_bswap32
    #define AKL_SWAP64 __builtin_bswap64
    static inline int akl_top_bit(uint64_t n) {return 63 - __builtin_clzll(n);}
    #define AKL_LIKELY(x) __builtin_expect(!!(x), 1)
    #endif
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #undef AKL_SWAP16
    #undef AKL_SWAP32
    #undef AKL_SWAP64
    #define AKL_SWAP16(x) (x)
    #define AKL_SWAP32(x) (x)
    #define AKL_SWAP64(x) (x)
    #endif
    static inline void store16(uint8_t *p, int16_t v) {uint16_t x = AKL_SWAP16((uint16_t)v); memcpy(p, &x, 2);}
    static inline void store32(uint8_t *p, int32_t v) {uint32_t x = AKL_SWAP32((uint32_t)v); memcpy(p, &x, 4);}
    static inline void store64(uint8_t *p, int64_t v) {uint64_t x = AKL_SWAP64((uint64_t)v); memcpy(p, &x, 8);}
    static inline int16_t load16(const uint8_t *p) {uint16_t x; memcpy(&x, p, 2); return (int16_t)AKL_SWAP16(x);}
    static inline int32_t load32(const uint8_t *p) {uint32_t x; memcpy(&x, p, 4); return (int32_t)AKL_SWAP32(x);}
    static inline int64_t load64(const uint8_t *p) {uint64_t x; memcpy(&x, p, 8); return (int64_t)AKL_SWAP64(x);}
    static inline uint64_t akl_zigzag(int64_t v) {return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);}
    /* top bit / 7 + 1, without the division */
    static inline int varint_size(int64_t v) {return (akl_top_bit(akl_zigzag(v) | 1) * 9 + 73) >> 6;}
    static inline uint8_t *put_varint(uint8_t *p, int64_t v) {
        uint64_t n = akl_zigzag(v);
        while (n > 127) {*p++ = (uint8_t)(n | 128); n >>= 7;}
        *p++ = (uint8_t)n;
        return p;
    }
    /* NULL when it passes `end`, or when it does not fit into 64 bits. */
    static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, int64_t *out) {
        uint64_t r; unsigned shift; uint8_t b;
        if (!AKL_LIKELY(p < end)) return NULL;
        b = *p++;
        r = b & 127;
        for (shift = 7; b & 128; shift += 7) {
            if (p == end || shift > 63) return NULL;
            b = *p++;
            if (shift == 63 && b > 1) return NULL;
            r |= (uint64_t)(b & 127) << shift;
        }
        *out = (int64_t)(r >> 1) ^ -(int64_t)(r & 1);
        return p;
    }
    /* Two's complement that wraps as Java's does. */
    static inline int64_t add_wrapping(int64_t a, int64_t b) {return (int64_t)((uint64_t)a + (uint64_t)b);}
    static inline int64_t sub_wrapping(int64_t a, int64_t b) {return (int64_t)((uint64_t)a - (uint64_t)b);}
    """
    void store16(uint8_t *, int16_t) noexcept nogil
    void store32(uint8_t *, int32_t) noexcept nogil
    void store64(uint8_t *, int64_t) noexcept nogil
    int16_t load16(const uint8_t *) noexcept nogil
    int32_t load32(const uint8_t *) noexcept nogil
    int64_t load64(const uint8_t *) noexcept nogil
    int varint_size(int64_t) noexcept nogil
    uint8_t *put_varint(uint8_t *, int64_t) noexcept nogil
    const uint8_t *get_varint(const uint8_t *, const uint8_t *, int64_t *) noexcept nogil
    int64_t add_wrapping(int64_t, int64_t) noexcept nogil
    int64_t sub_wrapping(int64_t, int64_t) noexcept nogil

cdef inline Py_ssize_t read_unsigned_varint(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t size, uint64_t *value
) noexcept:
    """Read an unsigned varint; return where it ends, or -1 if it is truncated or longer than five
    bytes."""
    cdef int shift
    value[0] = 0
    for shift in range(0, 35, 7):
        if at >= size:
            return -1
        value[0] |= <uint64_t>(data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return at
    return -1

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL
    object PyMemoryView_FromMemory(char *, Py_ssize_t, int)
    object PyMemoryView_FromObject(object)
