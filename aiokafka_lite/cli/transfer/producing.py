"""Sends a stream of records to a topic, in constant memory, and accounts for each of them.

Non-obvious:
- A record that is itself invalid (too large, not JSON, no such partition) is reported, and the
  others are sent. Any other failure ends the reading, because the next record would fail, too.
- At most `PENDING` records wait for their acknowledgement, so memory does not grow with the input.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka_lite.cli.connection.client_arguments import producer_arguments
from aiokafka_lite.cli.connection.settings import Settings, canonical
from aiokafka_lite.cli.failures import (
    FAILED,
    OK,
    ClosedPipe,
    CommandError,
    UsageError,
    complain,
)
from aiokafka_lite.cli.formats.format_grammar import parse_format
from aiokafka_lite.cli.formats.input_record import InputRecord
from aiokafka_lite.cli.formats.reading import (
    FormatReader,
    LineReader,
    MalformedInput,
    Reader,
    ValueReader,
    value_delimiter,
)
from aiokafka_lite.cli.formats.writing import RecordWriter, format_writer
from aiokafka_lite.cli.offsets.offset_grammar import parse_time
from aiokafka_lite.cli.streams.input import read_chunks
from aiokafka_lite.cli.streams.stdout import Stdout
from aiokafka_lite.cli.transfer import STOP_MS
from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.metadata import metadata_request
from aiokafka_lite.cluster.retry import ANY, call
from aiokafka_lite.errors import IllegalArgumentError, KafkaError, MessageSizeTooLargeError
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.producer.sent_records import SentRecords
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.structs import ConsumerRecord

__all__ = ["Plan", "produce"]

PENDING: Final = 50_000
SETTLE_EVERY: Final = 0.1
"""Seconds between two checks for results while no input arrives."""
TRANSACTION_MS: Final = 900_000
"""The brokers' default for the longest transaction (transaction.max.timeout.ms)."""
_INVALID: Final = (MessageSizeTooLargeError, IllegalArgumentError)
"""Failures that concern only one record."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The checked arguments of `produce`: what to send, and how."""

    topic: str
    files: Sequence[str]
    reader: ValueReader | Reader
    arguments: dict[str, Any]
    timeout: float
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    any_partition: bool = False
    timestamp: int | None = None
    null: bool = False
    rate: float | None = None
    repeat: int = 1
    transactional: bool = False
    tee: bool = False
    report: RecordWriter | None = None
    create: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace, settings: Settings) -> Plan:
        """Check the arguments.

        Raises:
            UsageError: An argument is invalid, or two contradict each other.
        """
        for flag, option in (("compress", "compression.type"), ("acks", "acks")):
            if getattr(args, flag) is not None:
                settings.add({canonical(option): getattr(args, flag)}, f"--{flag}")
        arguments = producer_arguments(settings, bulk=True)
        named = settings.options.get("transactional.id", "")
        if args.transaction is None and settings.sources.get("transactional.id") == "-X":
            raise UsageError("-X transactional.id needs --transaction")
        if args.transaction is not None:
            transactional_id = args.transaction or named or f"aiokafka-lite-{uuid.uuid4()}"
            arguments["transactional_id"] = transactional_id
            arguments.setdefault("transaction_timeout_ms", TRANSACTION_MS)
        any_partition = args.partition == "any"
        if args.partition is not None and not any_partition and not args.partition.isdecimal():
            raise UsageError(f"-p {args.partition}: a partition is a number, or `any`")
        timestamp = None
        if args.timestamp is not None:
            timestamp = parse_time(args.timestamp)
            if timestamp is None:
                raise UsageError(f"--timestamp {args.timestamp}: write 2026-11-23T10:00 or ms")
        return cls(
            topic=args.topic,
            files=args.files,
            reader=_reader(args),
            arguments=arguments,
            timeout=settings.timeout,
            key=None if args.key is None else args.key.encode(errors="surrogateescape"),
            headers=[_header(pair) for pair in args.headers],
            partition=None if args.partition is None or any_partition else int(args.partition),
            any_partition=any_partition,
            timestamp=timestamp,
            null=args.null,
            rate=args.rate,
            repeat=args.repeat,
            transactional=args.transaction is not None,
            tee=args.tee,
            report=None if args.report is None else format_writer(parse_format(args.report)),
            create=args.create,
        )


def _reader(args: argparse.Namespace) -> ValueReader | Reader:
    ways = [args.json, args.format is not None, args.key_delimiter is not None]
    if sum(ways) > 1:
        raise UsageError("-J, -f and -K cannot be combined")
    if args.value not in ("auto", "json") or (args.value != "auto" and not args.json):
        raise UsageError("--value is `auto` or `json`, and needs -J")
    if args.json:
        from aiokafka_lite.cli.formats.json_lines import json_line_reader  # rarely used

        return LineReader(json_line_reader(args.value), skip_empty=True)
    if args.key_delimiter is not None:
        return LineReader(_key_and_value(_delimiter(args.key_delimiter)))
    parts = parse_format(r"%v\n" if args.format is None else args.format)
    delimiter = value_delimiter(parts)
    return FormatReader(parts) if delimiter is None else ValueReader(delimiter)


def _delimiter(text: str) -> bytes:
    parts = parse_format(text)
    data = getattr(parts[0], "data", b"") if len(parts) == 1 else b""
    if not data:
        raise UsageError(f"-K {text!r}: the delimiter is one or more characters")
    return bytes(data)


def _key_and_value(delimiter: bytes) -> Any:
    def parse(line: bytes) -> InputRecord:
        key, found, value = line.partition(delimiter)
        return InputRecord(key=key, value=value) if found else InputRecord(value=line)

    return parse


def _header(pair: str) -> tuple[str, bytes | None]:
    name, equals, value = pair.partition("=")
    if not name:
        raise UsageError(f"-H {pair!r} is not NAME=VALUE")
    # Bytes on the command line that are not UTF-8 arrive as surrogates.
    return name, value.encode(errors="surrogateescape") if equals else None


async def produce(plan: Plan) -> int:
    """Send everything; return 0 if every record was stored, otherwise 1."""
    # The failure of each record is reported here, so it counts as retrieved.
    log = logging.getLogger("aiokafka_lite.producer.sending.sender")
    log.addFilter(_is_not_of_unawaited_acks)
    try:
        return await _produce(plan)
    finally:
        log.removeFilter(_is_not_of_unawaited_acks)


def _is_not_of_unawaited_acks(line: logging.LogRecord) -> bool:
    return "acks were not awaited" not in line.msg


async def _produce(plan: Plan) -> int:
    producer = AIOKafkaProducer(**plan.arguments)
    await _start(producer, plan)
    try:
        if not plan.create:
            await _check_topic(producer, plan)
        sending = _Sending(producer, plan)
        try:
            if plan.transactional:
                async with producer.transaction():
                    await sending.everything()
                    if sending.failures:
                        raise CommandError(
                            f"{sending.failures} of {sending.count} records failed: the transaction"
                            " is aborted, and none is visible to read_committed consumers"
                        )
            else:
                await sending.everything()
        except ClosedPipe:  # unlike for a reader, this is a failure
            ended = (
                "the transaction is aborted"
                if plan.transactional
                else f"{sending.count} records were sent, and no more of the input"
            )
            raise CommandError(f"the reader of standard output has exited: {ended}") from None
    except BaseException:
        await producer.stop(timeout=STOP_MS / 1000)
        raise
    await producer.stop()
    if sending.failures:
        complain("produce", f"{sending.failures} of {sending.count} records failed")
    return FAILED if sending.failures else OK


async def _start(producer: AIOKafkaProducer, plan: Plan) -> None:
    try:
        await producer.start()
    except BaseException:
        await producer.stop(timeout=STOP_MS / 1000)
        raise


async def _check_topic(producer: AIOKafkaProducer, plan: Plan) -> None:
    """Refuse a topic that does not exist, so that a typo does not create one."""
    topic = plan.topic
    request = PerVersion(
        MetadataRequest, lambda version: metadata_request([topic], version, auto_create=False)
    )
    deadline = asyncio.get_running_loop().time() + plan.timeout
    # Any broker can answer; one that is down must not fail the command.
    response = await call(producer._cluster, request, ANY, deadline, patience=plan.timeout / 2)
    code = response.topics[0].error_code if response.topics else 0
    if code == 3:  # UNKNOWN_TOPIC_OR_PARTITION
        raise CommandError(
            f"topic {topic!r} does not exist: create it with `aiokafka-lite topic create {topic}`,"
            " or add --create if the broker creates topics automatically"
        )


class _Sending:
    """Sends the records of one run, and counts those that failed."""

    def __init__(self, producer: AIOKafkaProducer, plan: Plan) -> None:
        self.count = 0
        self.failures = 0
        self._producer = producer
        self._plan = plan
        # Pending acknowledgements: the number of the first record, the acks, the records (for
        # --report).
        self._waiting: deque[tuple[int, Sequence[Any], Sequence[Any]]] = deque()
        self._pending = 0
        self._stdout = Stdout() if plan.tee or plan.report else None
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._stopped = False
        self._ended = asyncio.Event()
        self._settling = asyncio.Lock()

    async def everything(self) -> None:
        """Read and send until the input ends, and wait for every acknowledgement.

        Raises:
            CommandError: A file cannot be read, or the input does not match the format.
        """
        plan, reader = self._plan, self._plan.reader
        simple = plan.report is None and not plan.null
        problem: CommandError | None = None
        settling = asyncio.create_task(self._settle_meanwhile(), name="produce: report results")
        try:
            async for chunk in read_chunks(plan.files, until=settling):
                if settling.done():
                    break
                if isinstance(reader, ValueReader):
                    values = reader.feed(chunk) if chunk else reader.finish()
                    if simple and values:
                        await self._send_values(values)
                    else:
                        await self._send_items([InputRecord(value=value) for value in values])
                else:
                    try:
                        items = reader.feed(chunk) if chunk else reader.finish()
                    except MalformedInput as error:
                        await self._send_items(error.before)
                        raise
                    await self._send_items(items)
                if self._stopped:
                    break
        except CommandError as error:  # records that were read before it are sent
            problem = error
        except BaseException:
            settling.cancel()
            await asyncio.wait([settling])
            raise
        self._ended.set()
        await settling  # raises the exception that ended it, such as ClosedPipe
        await self._settle(0)
        if problem is not None:
            raise problem

    async def _send_values(self, values: list[bytes]) -> None:
        plan, send_many = self._plan, self._producer.send_many
        if plan.tee and self._stdout is not None:
            await self._stdout.write(b"\n".join(values) + b"\n")
        if plan.repeat > 1:
            values = [value for value in values for _ in range(plan.repeat)]
        for some in self._paced(values):
            await self._keep_pace()
            try:
                acks = await send_many(
                    plan.topic,
                    some,
                    keys=None if plan.key is None else [plan.key] * len(some),
                    partition=plan.partition,
                    timestamp_ms=plan.timestamp,
                    headers=plan.headers or None,
                )
            except (KafkaError, ValueError, TypeError) as error:
                await self._after_refusal(some, error)
            else:
                await self._sent(acks, some)
            if self._stopped:
                return

    async def _after_refusal(self, values: Sequence[bytes], error: Exception) -> None:
        """Record the values before the refused one, and send those after it."""
        acks: Sequence[Any] = getattr(error, "sent", ())
        if acks:
            await self._sent(acks, values[: len(acks)])
        self.count += 1
        self._report_failure(self.count, error)
        rest = list(values[len(acks) + 1 :])
        if rest and not self._stopped:
            await self._send_items([InputRecord(value=value) for value in rest], again=True)

    async def _send_items(
        self, items: Sequence[InputRecord | ValueError], *, again: bool = False
    ) -> None:
        """Send records one by one; `again` if they were paced, repeated and written before."""
        repeat = 1 if again else self._plan.repeat
        for some in self._paced(items):
            acks, sent = [], []
            first = self.count + 1
            for item in some:
                if isinstance(item, InputRecord) and self._plan.tee and not again:
                    await self._tee(item)
                for _ in range(repeat):
                    if not again:
                        await self._keep_pace()
                    self.count += 1
                    record = await self._send_item(item)
                    if record is not None:
                        acks.append(record[0])
                        sent.append(record[1])
                    elif acks:  # keep the numbers of the records right
                        self._wait_for(first, acks, sent)
                        acks, sent = [], []
                    if not acks:
                        first = self.count + 1
                    if self._stopped:
                        break
                if self._stopped:
                    break
            self._wait_for(first, acks, sent)
            await self._settle(PENDING)
            if self._stopped:
                return

    async def _send_item(self, item: InputRecord | ValueError) -> tuple[Any, InputRecord] | None:
        if not isinstance(item, InputRecord):
            self._report_failure(self.count, item, ends=False)
            return None
        plan = self._plan
        key = plan.key if plan.key is not None else item.key
        value = item.value
        if plan.null:
            key, value = key or None, value or None
        partition = item.partition if plan.partition is None else plan.partition
        timestamp = item.timestamp if plan.timestamp is None else plan.timestamp
        headers = [*item.headers, *plan.headers]
        complete = InputRecord(key, value, headers, partition, timestamp)
        try:
            ack = await self._producer.send(
                plan.topic,
                value,
                key,
                None if plan.any_partition else partition,
                timestamp,
                headers or None,
            )
        except (KafkaError, ValueError, TypeError) as error:
            self._report_failure(self.count, error)
            return None
        return ack, complete

    async def _sent(self, acks: Sequence[Any], records: Sequence[Any]) -> None:
        self._wait_for(self.count + 1, acks, records)
        self.count += len(acks)
        await self._settle(PENDING)

    def _wait_for(self, first: int, acks: Sequence[Any], records: Sequence[Any]) -> None:
        if acks:
            self._waiting.append((first, acks, records if self._plan.report else ()))
            self._pending += len(acks)

    async def _settle_meanwhile(self) -> None:
        """Report results while no input arrives, until a failure ends the reading."""
        while not (self._stopped or self._ended.is_set()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_EVERY):
                    await self._ended.wait()
            if not self._settling.locked():
                await self._settle(0, wait=False)

    async def _settle(self, most: int, *, wait: bool = True) -> None:
        """Report results until at most this many are missing; with `wait`, wait for them."""
        if self._pending > most:
            async with self._settling:  # results are reported in the order of the records
                while self._pending > most and (wait or _all_done(self._waiting[0][1])):
                    await self._settle_first()

    async def _settle_first(self) -> None:
        first, acks, records = self._waiting.popleft()
        self._pending -= len(acks)
        if isinstance(acks, SentRecords) and self._plan.report is None:
            with contextlib.suppress(Exception):  # it is reported below, with the record's number
                await acks
                return
        for ack in acks if not _all_done(acks) else ():
            if not ack.done():
                await asyncio.wait([ack])
        # A loop in C over results: most records are stored, and need no metadata.
        if any(map(type(acks[0]).exception, acks)):
            for place, ack in enumerate(acks):
                error = ack.exception()
                if error is not None:
                    self._report_failure(first + place, error)
        if self._plan.report is not None and self._stdout is not None:
            for ack, record in zip(acks, records, strict=True):
                if ack.exception() is None:
                    written = _reported(self._plan.report, record, ack.result())
                    await self._stdout.write(written)

    def _report_failure(self, number: int, error: Exception, *, ends: bool = True) -> None:
        self.failures += 1
        complain("produce", f"record {number}: {error}")
        if ends and not isinstance(error, _INVALID):
            self._stopped = True

    async def _tee(self, record: InputRecord) -> None:
        if self._stdout is not None:
            await self._stdout.write((record.value or b"") + b"\n")

    def _paced(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        """Split a run into pieces of about a tenth of a second at the given rate."""
        if self._plan.rate is None:
            return [items] if items else []
        size = max(1, int(self._plan.rate / 10))
        return [items[at : at + size] for at in range(0, len(items), size)]

    async def _keep_pace(self) -> None:
        """Wait until the next record is due."""
        if self._plan.rate is not None:
            due = self._began + self.count / self._plan.rate
            wait = due - self._loop.time()
            if wait > 0:
                await asyncio.sleep(wait)


def _all_done(acks: Sequence[Any]) -> bool:
    return all(map(type(acks[0]).done, acks))


def _reported(write: RecordWriter, record: InputRecord, stored: Any) -> bytes:
    """Write a record with its place; with acks=0 the broker returns none, and it is -1."""
    key, value = record.key, record.value
    return write(
        [
            ConsumerRecord(
                "" if stored is None else stored.topic,
                -1 if stored is None else stored.partition,
                -1 if stored is None else stored.offset,
                -1 if stored is None or stored.timestamp is None else stored.timestamp,
                0 if stored is None else stored.timestamp_type,
                key,
                value,
                None,
                -1 if key is None else len(key),
                -1 if value is None else len(value),
                tuple(record.headers),
            )
        ]
    )
