"""Finding out what a broker speaks.

A broker since 0.10 says it: ApiVersions. One that does not know the version it is asked in says
so in version 0, with the range it has since 2.4 (KIP-511), and is asked again. Brokers 0.8.2 and
0.9 do not know ApiVersions at all; asked for it they hang up, or say nothing and keep the
connection open (0.9.0.1 does). So there is a ladder, each rung on a connection of its own, tried
when the one before got no answer:

1. ApiVersions in the newest version;
2. ApiVersions 0, in case it is only the newer ones that are not borne (by a proxy, say);
3. ListGroups 0, which came with 0.9: whoever answers is taken for 0.9;
4. Metadata 0: whoever answers is taken for 0.8.2.

So that no modern broker that was slow or starting is taken for an old one, whoever answers on rung
3 or 4, and so is awake, is asked for ApiVersions once more there; and, lest a network that cuts
connections make it seem old, the ladder is climbed twice before the first old one is believed in.
The silent one costs ten seconds and seven connections in this way, once: what was found is
remembered by the broker's address (`known`), a guessed release until a connection made on it is
lost. The option `api_version` with a release before 0.10 is believed without a question. Only the
first two rungs are tried where a broker since 2.4 was met, for none of its cluster can be so old;
and with SASL: an old broker wants to be named there.
"""

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from aiokafka_lite.errors import (
    KafkaConnectionError,
    NodeNotReadyError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.net.api_version_cache import Known
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.frames import Frame
from aiokafka_lite.protocol.framing import decode_response
from aiokafka_lite.protocol.message import RequestOf, ResponseT
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.versions import BrokerVersions, versions_of

log = logging.getLogger(__name__)

FIRST_ASKED: Final = 4
"""Asked of a stranger. Version 5 only adds whom the client expects, so it is for those who do."""
WITH_IDENTITY: Final = 5
PATIENCE: Final = 1.5
"""Seconds to wait for an answer while there is another rung to try."""
UNSUPPORTED_VERSION: Final = UnsupportedVersionError.errno


class Identity(NamedTuple):
    """The broker that is expected behind an address."""

    cluster_id: str
    node_id: int


class Rung(Enum):
    """A way to find out."""

    NEGOTIATE = "ApiVersions"
    NEGOTIATE_PLAINLY = "ApiVersions 0"
    LIST_GROUPS = "ListGroups 0"
    METADATA = "Metadata 0"
    ASSUME = "nothing: its release is known"


class Channel(Protocol):
    """What a connection offers to this step."""

    async def request(
        self, request: RequestOf[ResponseT], version: int, *, timeout: float | None = None
    ) -> ResponseT: ...


class Step(NamedTuple):
    """A rung to try, on a connection of its own."""

    rung: Rung
    patience: float
    """Seconds to wait for an answer."""


def ladder(options: ConnectionOptions, known: Known | None) -> Sequence[Step]:
    """What to try for one broker, in order; the last step has all the time of the options."""
    *others, last = _rungs(options, known)
    longest = min(options.connect_timeout, options.request_timeout)
    patience = min(PATIENCE, longest)
    return [*(Step(rung, patience) for rung in others), Step(last, longest)]


def _rungs(options: ConnectionOptions, known: Known | None) -> Sequence[Rung]:
    if options.api_version is not None and is_before_api_versions(options.api_version):
        return (Rung.ASSUME,)
    if known is not None:
        return (Rung.ASSUME,) if known.release is not None else (Rung.NEGOTIATE,)
    if options.sasl or options.known.modern:
        return (Rung.NEGOTIATE, Rung.NEGOTIATE_PLAINLY)
    return (Rung.NEGOTIATE, Rung.NEGOTIATE_PLAINLY, Rung.LIST_GROUPS, Rung.METADATA)


def is_before_api_versions(release: str) -> bool:
    """Whether a release's brokers do not know ApiVersions, which came with 0.10."""
    return tuple(int(part) for part in release.split(".")) < (0, 10)


async def find_versions(
    channel: Channel,
    step: Step,
    options: ConnectionOptions,
    known: Known | None,
    expected: Identity | None = None,
) -> tuple[BrokerVersions, Known]:
    """What the broker speaks, found out in one step; and what is worth remembering of it.

    A release that was found out (not assumed) leaves the connection spent: make another.

    Args:
        channel: The connection.
        step: What to try.
        options: Of the connection.
        known: What was remembered.
        expected: Which broker it should be; those since 4.4 say whether they are (KIP-1242).

    Raises:
        NodeNotReadyError: It answered with an error, such as that it is not the expected broker.
        KafkaConnectionError: It hung up or said nothing: the next step is to be tried.
        KafkaProtocolError: It answered in another protocol.
        UnsupportedVersionError: There is no common version of ApiVersions.
    """
    rung, patience = step
    if rung is Rung.ASSUME:
        release = known.release if known is not None else None
        release = release or options.api_version
        if release is None:
            raise ValueError("there is no release to assume")
        return versions_of(release), Known(release=release)
    if rung is Rung.NEGOTIATE:
        first = FIRST_ASKED if expected is None else WITH_IDENTITY
        version = first if known is None else known.api_versions
        return await _negotiate(channel, options, version, patience, expected)
    if rung is Rung.NEGOTIATE_PLAINLY:
        versions, _ = await _negotiate(channel, options, 0, patience)
        return versions, Known(api_versions=0)
    if rung is Rung.LIST_GROUPS:
        release = "0.9"
        await channel.request(ListGroupsRequest(), 0, timeout=patience)
    else:
        release = "0.8.2"
        # Version 0 with no topic asks for all of them: naming one might create it.
        await channel.request(MetadataRequest(topics=[]), 0, timeout=patience)
    try:
        return await _negotiate(channel, options, FIRST_ASKED, min(patience, PATIENCE))
    except KafkaConnectionError:
        log.info(
            "%s: %s does not support ApiVersions; assuming Kafka %s",
            options.client_id,
            channel,
            release,
        )
        return versions_of(release), Known(release=release)


async def _negotiate(
    channel: Channel,
    options: ConnectionOptions,
    version: int,
    patience: float,
    expected: Identity | None = None,
) -> tuple[BrokerVersions, Known]:
    while True:
        request = ApiVersionsRequest()
        if version >= 3:
            request.client_software_name = options.client_software_name
            request.client_software_version = options.client_software_version
        if version >= WITH_IDENTITY and expected is not None:
            request.cluster_id, request.node_id = expected
        response = await channel.request(request, version, timeout=patience)
        own = next((api for api in response.api_keys if api.api_key == request.api_key), None)
        offered = 0 if own is None else min(own.max_version, request.max_version)
        if response.error_code == 0:
            return BrokerVersions.from_response(response), Known(max(version, offered))
        if response.error_code != UNSUPPORTED_VERSION:
            # Whatever it is: to be tried again on another connection, as Java's client does.
            said = for_code(response.error_code)
            raise NodeNotReadyError(f"{channel} refused ApiVersions {version}: {said.message}")
        if not 0 <= offered < version:
            raise UnsupportedVersionError(f"{channel} refused ApiVersions {version}")
        version = offered


def decode(frame: Frame, response: type[ResponseT], version: int) -> ResponseT:
    """A response, also one to ApiVersions that is in version 0 because the asked one is unknown.

    Raises:
        KafkaProtocolError: The bytes are not that.
    """
    if response is ApiVersionsRequest.response and _refuses_version(frame):
        version = 0
    return decode_response(frame, response, version)[1]


def _refuses_version(frame: Frame) -> bool:
    """Whether an answer to ApiVersions says UNSUPPORTED_VERSION, right behind its id."""
    return int.from_bytes(frame[4:6], "big", signed=True) == UNSUPPORTED_VERSION
