"""Detection of the API versions that a broker supports.

A broker since 0.10 answers ApiVersions. A broker that does not support the request's version
answers in version 0, since 2.4 with the range that it supports (KIP-511), and gets a second
request. Brokers 0.8.2 and 0.9 do not support ApiVersions at all: they close the connection, or stay
silent and keep it open (0.9.0.1). So detection is a ladder. Each rung uses a separate connection,
and is tried if the previous rung got no response:

1. ApiVersions in the newest version;
2. ApiVersions 0, in case only newer versions fail (because of a proxy, for example);
3. ListGroups 0, new in 0.9: a broker that answers counts as 0.9;
4. Metadata 0: a broker that answers counts as 0.8.2.

Three checks keep a modern broker that is slow or starting from counting as old. A broker that
answers on rung 2 reports the versions that it supports. The client repeats the request in the
newest one on the same connection: only that response has the cluster's features, which transactions
depend on. With SASL, it does so after the authentication: before that, a broker answers ApiVersions
only once, and a second request closes the connection. A broker that answers on rung 3 or 4 is
running, so the client sends it ApiVersions once more there. In both cases, the broker may take four
times as long as for its previous response. And because a network that cuts connections can make a
broker look old, the ladder runs twice before the first old broker, or an answer without features,
is accepted. A silent broker costs ten seconds and seven connections this way, once: the result is
cached by the broker's address (`api_version_cache`), a guess until a connection that relies on it
is lost. The option `api_version` with a release before 0.10 skips detection. Only the first two
rungs are tried once the client has met a broker since 2.4, because no broker in its cluster can be
that old, and with SASL, where old brokers need an explicit `api_version`.
"""

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from aiokafka_lite.errors import (
    KafkaConnectionError,
    NodeNotReadyError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.net.api_version_cache import Known
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.frames import Frame
from aiokafka_lite.protocol.framing import decode_response
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.versions import BrokerVersions, versions_of

log = logging.getLogger(__name__)

FIRST_ASKED: Final = 4
"""Version for unknown brokers. Version 5 only adds the expected broker's identity, so it is used
only with one."""
WITH_IDENTITY: Final = 5
STEP_TIMEOUT: Final = 1.5
"""Seconds to wait for a response if another rung remains to be tried."""
PATIENCE: Final = 4
"""How many times as long as its last response a broker's next one may take."""
UNSUPPORTED_VERSION: Final = UnsupportedVersionError.errno


class BrokerIdentity(NamedTuple):
    """The broker expected at an address."""

    cluster_id: str
    node_id: int


class OtherBrokerError(NodeNotReadyError):
    """Another broker, or a broker of another cluster, uses the address (KIP-1242)."""


class Rung(Enum):
    """A request by which to detect a broker's versions."""

    NEGOTIATE = "ApiVersions"
    NEGOTIATE_PLAINLY = "ApiVersions 0"
    LIST_GROUPS = "ListGroups 0"
    METADATA = "Metadata 0"
    ASSUME = "nothing: its release is known"


class Channel(Protocol):
    """The part of a connection that this step uses."""

    async def request(
        self, request: RequestOf[ResponseT], version: int, *, timeout: float | None = None
    ) -> ResponseT: ...


class Step(NamedTuple):
    """A rung to try, on a separate connection."""

    rung: Rung
    timeout: float
    """Seconds to wait for a response."""


def ladder(
    options: ConnectionOptions, known: Known | None, timeout: float | None = None
) -> Sequence[Step]:
    """Return the steps for one broker, in order.

    Args:
        options: The connection's options.
        known: The cached facts about the broker.
        timeout: Seconds that the last step may use; None: the option `connect_timeout`.
    """
    *others, last = _rungs(options, known)
    longest = _longest(options) if timeout is None else min(timeout, options.request_timeout)
    shorter = min(STEP_TIMEOUT, longest)
    return [*(Step(rung, shorter) for rung in others), Step(last, longest)]


def _longest(options: ConnectionOptions) -> float:
    return min(options.connect_timeout, options.request_timeout)


def _patience(least: float, took: float, options: ConnectionOptions) -> float:
    """Return the seconds to wait for a broker whose last response took `took` seconds."""
    return min(max(least, PATIENCE * took), _longest(options))


def _rungs(options: ConnectionOptions, known: Known | None) -> Sequence[Rung]:
    if options.api_version is not None and is_before_api_versions(options.api_version):
        return (Rung.ASSUME,)
    if known is not None:
        return (Rung.ASSUME,) if known.release is not None else (Rung.NEGOTIATE,)
    if options.sasl or options.known.modern:
        return (Rung.NEGOTIATE, Rung.NEGOTIATE_PLAINLY)
    return (Rung.NEGOTIATE, Rung.NEGOTIATE_PLAINLY, Rung.LIST_GROUPS, Rung.METADATA)


def is_before_api_versions(release: str) -> bool:
    """True if a release's brokers do not support ApiVersions, new in 0.10."""
    return tuple(int(part) for part in release.split(".")) < (0, 10)


async def find_versions(
    channel: Channel,
    step: Step,
    options: ConnectionOptions,
    known: Known | None,
    expected: BrokerIdentity | None = None,
) -> tuple[BrokerVersions, Known]:
    """Detect the broker's versions in one step; return them and the facts to cache.

    After the client made a guess (rather than reused a cached one), the connection is unusable:
    open another.

    Args:
        channel: The connection.
        step: The step to try.
        options: Options of the connection.
        known: The cached facts.
        expected: The expected broker; brokers since 4.4 check their identity (KIP-1242).

    Raises:
        OtherBrokerError: The broker is not the expected one.
        NodeNotReadyError: The broker returned another error.
        KafkaConnectionError: The broker hung up or did not respond: try the next step.
        KafkaProtocolError: The other side speaks another protocol.
        UnsupportedVersionError: There is no common version of ApiVersions.
    """
    rung, timeout = step
    if rung is Rung.ASSUME:
        release = known.release if known is not None else None
        release = release or options.api_version
        if release is None:
            raise ValueError("there is no release to assume")
        return versions_of(release), Known(release=release)
    if rung is Rung.NEGOTIATE:
        # Brokers before 4.4 would answer the newer version with a refusal first.
        older = options.known.newest is not None and options.known.newest < WITH_IDENTITY
        first = FIRST_ASKED if expected is None or older else WITH_IDENTITY
        version = first if known is None else known.api_versions
        found = await _negotiate(channel, options, version, timeout, expected)
        if known is None or not version < min(found[1].api_versions, FIRST_ASKED):
            return found
        if known.guessed:
            return found[0], known
        if options.sasl:
            # It would close the connection at another request; the next connection has the answer.
            return found
        # It was upgraded: only an answer in the newer version has the features.
        return await _negotiate(channel, options, found[1].api_versions, timeout, expected)
    if rung is Rung.NEGOTIATE_PLAINLY:
        asked_at = asyncio.get_running_loop().time()
        found = await _negotiate(channel, options, 0, timeout)
        took = asyncio.get_running_loop().time() - asked_at
        return found if options.sasl else await find_newer(channel, options, found, took, expected)
    asked_at = asyncio.get_running_loop().time()
    if rung is Rung.LIST_GROUPS:
        # This request is sent only to brokers before 0.10.
        from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest

        release = "0.9"
        await channel.request(ListGroupsRequest(), 0, timeout=timeout)
    else:
        release = "0.8.2"
        # Version 0 without topics requests all of them: naming one might create it.
        await channel.request(MetadataRequest(topics=[]), 0, timeout=timeout)
    took = asyncio.get_running_loop().time() - asked_at
    try:
        patience = _patience(STEP_TIMEOUT, took, options)
        return await _negotiate(channel, options, FIRST_ASKED, patience)
    except KafkaConnectionError:
        log.info(
            "%s: %s does not support ApiVersions; assuming Kafka %s",
            options.client_id,
            channel,
            release,
        )
        return versions_of(release), Known(release=release)


async def find_newer(
    channel: Channel,
    options: ConnectionOptions,
    found: tuple[BrokerVersions, Known],
    took: float,
    expected: BrokerIdentity | None = None,
) -> tuple[BrokerVersions, Known]:
    """Repeat a request of version 0 in the newest version; return the versions and the facts, as
    `find_versions` does.

    Args:
        channel, options, expected: As for `find_versions`; with SASL, the broker has authenticated
            the client.
        found: What the answer to version 0 showed.
        took: Seconds that it took.
    """
    versions, learned = found
    newest = learned.api_versions
    if newest == 0:
        return found
    try:
        # Silence on rung 1 proves nothing about a broker that answers now.
        patience = _patience(2 * STEP_TIMEOUT, took, options)
        return await _negotiate(channel, options, newest, patience, expected)
    except KafkaConnectionError:
        log.info("%s: %s answers ApiVersions 0 but not %d", options.client_id, channel, newest)
        return versions, Known(api_versions=0, plain=True)


async def _negotiate(
    channel: Channel,
    options: ConnectionOptions,
    version: int,
    timeout: float,
    expected: BrokerIdentity | None = None,
) -> tuple[BrokerVersions, Known]:
    while True:
        request = ApiVersionsRequest()
        if version >= 3:
            request.client_software_name = options.client_software_name
            request.client_software_version = options.client_software_version
        if version >= WITH_IDENTITY and expected is not None:
            request.cluster_id, request.node_id = expected
        response = await channel.request(request, version, timeout=timeout)
        own = next((api for api in response.api_keys if api.api_key == request.api_key), None)
        offered = 0 if own is None else min(own.max_version, request.max_version)
        if response.error_code == 0:
            return BrokerVersions.from_response(response), Known(max(version, offered))
        if response.error_code != UNSUPPORTED_VERSION:
            # Every other error is retried on another connection, as in Java's client.
            error = for_code(response.error_code)
            kind = OtherBrokerError if error is RebootstrapRequiredError else NodeNotReadyError
            raise kind(f"{channel} refused ApiVersions {version}: {error.message}")
        if not 0 <= offered < version:
            raise UnsupportedVersionError(
                f"{channel} refused ApiVersions {version} and offers no version that this client "
                "supports"
            )
        version = offered


def decode(frame: Frame, response: type[ResponseT], version: int) -> ResponseT:
    """Decode a response; an ApiVersions response with UNSUPPORTED_VERSION is in version 0.

    Raises:
        KafkaProtocolError: The bytes are not such a response.
    """
    if response is ApiVersionsRequest.response and _refuses_version(frame):
        version = 0
    return decode_response(frame, response, version)[1]


def _refuses_version(frame: Frame) -> bool:
    """True if an ApiVersions response has UNSUPPORTED_VERSION right after its correlation id."""
    return int.from_bytes(frame[4:6], "big", signed=True) == UNSUPPORTED_VERSION
