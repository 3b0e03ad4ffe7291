"""Records as bytes: no asyncio, no clock, no socket.

- `batch`: writes v2 record batches; `header`: the 61 bytes in front of them.
- `record_set`: reads what a fetch response holds for one partition, of any format, lazily;
  `columns`: the same as columns of numbers and byte ranges.
- `aborted`: which transactional batches a read_committed reader does not see.
- `message_set` reads and `legacy` writes message formats v0 and v1.
- `compression`, `crc32c`, `murmur2`: the codecs and hashes.

`batch`, `record_set`, `columns` and `murmur2` are faces of a native module and its twin;
the `.pxd` beside a native module says what other native rooms may cimport. The twin is the
specification: Hypothesis and `tests/fuzz/records.py` hold the native module to it.
"""
