"""Encodes the common ShareFetch request, and decodes its common response, faster than the generated
code, which handles all others.

The common case: version 2, a fetch that removes no partition from the session, and a response
without errors. `run` with quick handlers sends a request for each `concurrency` records. The
generated messages took about 10 % of its CPU time.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Final

from aiokafka_lite._build import pick
from aiokafka_lite.protocol.framing import RequestInPieces, decode_response, encode_request
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from aiokafka_lite.protocol.primitives import INT32, Buffer, write_unsigned_varint
from aiokafka_lite.share.pending_acknowledgements import Part
from aiokafka_lite.share.share_requests import RECORD_LIMIT, Limits, batches, fetch_request
from aiokafka_lite.share.share_session import PartitionId, SessionFetch

if TYPE_CHECKING:
    from aiokafka_lite.share.leaders._share_response_python import read_usual
else:
    read_usual = pick(
        "aiokafka_lite.share.leaders._share_response_native",
        "aiokafka_lite.share.leaders._share_response_python",
    ).read_usual

__all__ = ["ShareFetchFlight"]

USUAL: Final = 2
"""The version that is encoded here."""

_ONE_BYTE: Final = 126
"""Maximum elements of an array, or bytes of a string, whose length + 1 fits in one byte."""

_HEADER: Final = Struct(">ihhih")  # size, API, version, correlation id, the client id's length
_NUMBERS: Final = Struct(">iiiiiib?")
"""Session epoch, max wait, min and max bytes, max records, batch size; acquire mode, renewals."""
_BATCH: Final = Struct(">qq")  # first and last offset


class ShareFetchFlight(RequestInPieces):
    """A fetch that also carries terminal acknowledgements; the arguments are `fetch_request`'s."""

    name: ClassVar[str] = ShareFetchRequest.name
    api_key: ClassVar[int] = ShareFetchRequest.api_key
    min_version: ClassVar[int] = ShareFetchRequest.min_version
    max_version: ClassVar[int] = ShareFetchRequest.max_version
    flexible_from: ClassVar[int] = ShareFetchRequest.flexible_from

    __slots__ = ("_group_id", "_limits", "_member_id", "_parts", "_session")

    def __init__(
        self,
        group_id: str,
        member_id: str,
        session: SessionFetch,
        limits: Limits,
        parts: Mapping[PartitionId, Part],
    ) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._session = session
        self._limits = limits
        self._parts = parts

    def encode_frame(
        self, version: int, correlation_id: int, client_id: str | None
    ) -> list[Buffer]:
        if version == USUAL and not self._session.forgotten:
            return [self._usual(correlation_id, client_id)]
        request = fetch_request(
            self._group_id, self._member_id, self._session, self._limits, self._parts
        )
        return [encode_request(request, version, correlation_id, client_id)]

    def read_response(self, frame: Buffer, version: int) -> ShareFetchResponse:
        response = read_usual(frame) if version == USUAL else None
        if response is not None:
            return response
        return decode_response(frame, ShareFetchResponse, version)[1]

    def _usual(self, correlation_id: int, client_id: str | None) -> bytearray:
        limits, session = self._limits, self._session
        client = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(client)
        out = bytearray(_HEADER.pack(0, self.api_key, USUAL, correlation_id, length))
        out += client
        out.append(0)  # tags of the header
        for text in (self._group_id.encode(), self._member_id.encode()):
            _write_length(out, len(text))
            out += text
        out += _NUMBERS.pack(
            session.epoch,
            round(1000 * limits.max_wait),
            limits.min_bytes,
            limits.max_bytes,
            limits.max_records,
            limits.batch_size,
            RECORD_LIMIT if limits.record_limit else 0,
            False,
        )
        topics: dict[int, dict[int, Part | None]] = {}  # by the number of their id
        for topic_id, partition in session.added:
            topics.setdefault(topic_id, {})[partition] = None
        for (topic_id, partition), part in self._parts.items():
            topics.setdefault(topic_id, {})[partition] = part
        _write_length(out, len(topics))
        for topic_id, partitions in topics.items():
            out += topic_id.to_bytes(16, "big")
            _write_length(out, len(partitions))
            for number, named in partitions.items():
                out += INT32.pack(number)
                if named is None:
                    out += b"\x01\x00"  # no acknowledgements, no tags
                    continue
                _write_length(out, len(named.runs))
                for first, last, types in batches(named):
                    out += _BATCH.pack(first, last)
                    _write_length(out, len(types))
                    out += types
                    out.append(0)
                out.append(0)
            out.append(0)
        out += b"\x01\x00"  # no forgotten topics, no tags
        INT32.pack_into(out, 0, len(out) - 4)
        return out


def _write_length(out: bytearray, length: int) -> None:
    """Write the length of a compact array or string."""
    if length <= _ONE_BYTE:
        out.append(length + 1)
    else:
        write_unsigned_varint(out, length + 1)
