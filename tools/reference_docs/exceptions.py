# ruff: noqa: E501 (a table of sentences)
"""The tables of exceptions: the calls that raise each one, whether it is retriable, and what to
do."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from aiokafka_lite import (
    AIOKafkaAdminClient,
    AIOKafkaClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    errors,
)
from aiokafka_lite.errors.base import BrokerResponseError
from tools.reference_docs.docstrings import entries, first_paragraph

__all__ = ["EXCEPTION_TABLES"]

_CLIENTS: Final[Mapping[str, type[Any]]] = {
    "client": AIOKafkaClient,
    "producer": AIOKafkaProducer,
    "consumer": AIOKafkaConsumer,
    "share consumer": AIOKafkaShareConsumer,
    "admin": AIOKafkaAdminClient,
}
_MOST_CALLS = 4

_WHAT_TO_DO: Final[Mapping[str, str]] = {
    "AuthenticationFailedError": "check user, password, token or principal; the broker's log has the reason",
    "AuthenticationMethodNotSupported": "choose a `sasl_mechanism` that the message lists",
    "BufferExhaustedError": "send less, wait (`await send`), or raise `buffer_memory`; the message names an unreachable broker",
    "ClusterAuthorizationFailedError": "grant the principal the operation on the cluster",
    "CommitFailedError": "keep reading: another member owns the partitions and reads their records again",
    "ConsumerStoppedError": "create a new consumer",
    "CorruptRecordException": "`seek` past the offset that the message names, if the record may be lost",
    "DeliveryTimeoutError": "the message says whether the record may be stored; send it again if repeats are harmless",
    "FencedInstanceIdError": "stop: another process has this `group_instance_id`",
    "GroupAuthorizationFailedError": "grant the principal READ on the group",
    "IllegalArgumentError": "correct the argument that the message names",
    "IllegalOperation": "correct the order of the calls, as the message says",
    "IllegalStateError": "correct the order of the calls, as the message says",
    "IncompatibleBrokerVersion": "upgrade the broker to the release that the message names, or do without the feature",
    "InconsistentGroupProtocolError": "give all members of the group a common assignor and protocol",
    "InvalidSessionTimeoutError": "choose `session_timeout_ms` within the broker's `group.min.session.timeout.ms` and `group.max.session.timeout.ms`",
    "InvalidTopicError": "correct the topic's name",
    "KafkaConfigurationError": "correct the option that the message names",
    "KafkaConnectionError": "check address, port, firewall and `security_protocol`; calls retry automatically",
    "KafkaProtocolError": "the peer is not a Kafka broker, or it has a bug",
    "KafkaTimeoutError": "try again later; the message says what the call waited for",
    "MessageSizeTooLargeError": "raise `max_request_size` and the topic's `max.message.bytes`, or store the value elsewhere",
    "NoBrokersAvailable": "check `bootstrap_servers`; calls retry automatically",
    "NoOffsetForPartitionError": "`seek`, or set `auto_offset_reset` to another value than \"none\"",
    "NotEnoughReplicasError": "restore the replicas, or lower `min.insync.replicas`",
    "OffsetOutOfRangeError": "`seek`; the records at the position were deleted",
    "PartitionsRevokedError": "keep reading, as for CommitFailedError",
    "ProducerClosed": "create a new producer",
    "ProducerFenced": "stop: another producer has this `transactional_id`",
    "SaslAuthenticationFailed": "check user, password, token or principal",
    "TopicAuthorizationFailedError": "grant the principal READ, WRITE or DESCRIBE on the topic",
    "TransactionAbortedError": "send the record again in the next transaction",
    "TransactionalIdAuthorizationFailedError": "grant the principal WRITE on the transactional id",
    "UnknownTopicOrPartitionError": "create the topic, or correct its name",
    "UnknownTopicTimeoutError": "create the topic, or correct its name",
    "UnsupportedCodecError": "choose a codec that this installation supports",
}  # fmt: skip


def _classes() -> Iterator[tuple[str, type[BaseException]]]:
    for name in sorted(vars(errors)):
        found = vars(errors)[name]
        if (
            inspect.isclass(found)
            and issubclass(found, BaseException)
            and found.__name__ == name
            and found.__module__.startswith("aiokafka_lite.errors")
        ):
            yield name, found


def _raised_by() -> dict[str, list[str]]:
    """Return the public calls whose docstrings name each exception."""
    calls: dict[str, list[str]] = defaultdict(list)
    for owner, client in _CLIENTS.items():
        for name, member in [("", client), *inspect.getmembers(client, callable)]:
            if name.startswith("_") or not (name == "" or name in vars(client)):
                continue
            for names, _ in entries(member, "Raises"):
                for raised in names:
                    calls[raised].append(f"{owner}: `{name}`" if name else f"{owner}: constructor")
    return calls


def _row(name: str, kind: type[BaseException], calls: list[str]) -> str:
    shown = "; ".join(calls[:_MOST_CALLS]) + (" and others" if len(calls) > _MOST_CALLS else "")
    retriable = "yes" if getattr(kind, "retriable", False) else "no"
    todo = _WHAT_TO_DO.get(name, "try again later" if retriable == "yes" else "")
    text = first_paragraph(kind).replace("|", "\\|")
    code = (
        f"{kind.errno} " if issubclass(kind, BrokerResponseError) and hasattr(kind, "errno") else ""
    )
    return f"| {code}`{name}` | {text} | {retriable} | {shown} | {todo} |"


def _table(rows: list[str]) -> str:
    head = "| exception | meaning | retriable | documented by | what to do |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def of_client() -> str:
    """Return the exceptions that the client raises without a code from a broker."""
    calls = _raised_by()
    return _table(
        [
            _row(name, kind, calls[name])
            for name, kind in _classes()
            if not issubclass(kind, BrokerResponseError)
        ]
    )


def of_brokers() -> str:
    """Return the exceptions of Kafka's error codes, by code."""
    calls = _raised_by()
    found = [
        (kind.errno, _row(name, kind, calls[name]))
        for name, kind in _classes()
        if issubclass(kind, BrokerResponseError) and hasattr(kind, "errno")
    ]
    return _table([row for _, row in sorted(found)])


EXCEPTION_TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "exceptions of the client": of_client,
    "exceptions of brokers": of_brokers,
}
