"""Records as bytes: no asyncio, no clock, no socket.

- `batch`: writes v2 record batches; `header`: their 61-byte header.
- `record_set`: lazily reads one partition's records in a fetch response, in any format;
  `columnar.columns`: reads them as columns of numbers and byte ranges.
- `aborted`: decides which transactional batches read_committed hides.
- `message_set` reads and `legacy` writes message formats v0 and v1.
- `compression`, `crc32c`, `murmur2`: the codecs and hashes.

`batch`, `record_set`, `columns` and `murmur2` each choose between a native module and its twin. The
`.pxd` of a native module declares what other native modules may cimport. The twin is the
specification: Hypothesis and `tests/fuzz/records.py` compare the native module with it.
"""
