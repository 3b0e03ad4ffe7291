"""Opens a connection: dials, finds the API versions of the broker, and authenticates.

`handshake` defines the steps that find the versions of brokers of any age; each step uses a
connection of its own, and the first one that succeeds is the result.
"""

import asyncio
import logging
from typing import Final

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    KafkaProtocolError,
)
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.net.connection_errors import silent_listener
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.handshake import (
    BrokerIdentity,
    Rung,
    find_newer,
    find_versions,
    ladder,
)

log = logging.getLogger(__name__)

LARGEST_HANDSHAKE: Final = 1024 * 1024
"""Maximum number of bytes of a response before the broker is authenticated, so that a server of
another kind cannot make a client allocate `max_response_bytes`."""


async def open_connection(
    host: str,
    port: int,
    options: ConnectionOptions,
    *,
    expected: BrokerIdentity | None = None,
    timeout: float | None = None,
) -> Connection:
    """Connect to a broker, agree on versions, and authenticate.

    Args:
        host: Name or address of the broker; all addresses of a name are tried in turn.
        port: TCP port.
        options: The connection's options, whose cache remembers the broker's versions.
        expected: The broker expected there, as the metadata names it; None at bootstrap.
        timeout: Seconds for one address to accept the connection, and for the last attempt to find
            the versions; None: the option `connect_timeout`.

    Raises:
        OtherBrokerError: It is not the expected broker (since Kafka 4.4, KIP-1242).
        NodeNotReadyError: The broker answered ApiVersions with another error.
        KafkaConnectionError: No address accepted the connection, or it was lost.
        AuthenticationFailedError: The broker rejected this client, or this client the broker.
        UnsupportedVersionError: There is no common version of ApiVersions.
        KafkaProtocolError: The other side is not a Kafka broker.

    Cancellation: closes the connection.
    """
    known = options.known.recall(host, port)
    no_answer = KafkaConnectionError(f"no request was sent to {host}:{port}")
    for step in ladder(options, known, timeout):
        connection = Connection(host, port, options)
        dialled = False
        try:
            await connection.dial(timeout)
            dialled = True
            # These two are answered by as much as the broker has to list, and never before SASL.
            lists = step.rung in (Rung.LIST_GROUPS, Rung.METADATA)
            connection.begin_handshake(largest=None if lists else LARGEST_HANDSHAKE)
            asked_at = asyncio.get_running_loop().time()
            try:
                found = await find_versions(connection, step, options, known, expected)
            except KafkaConnectionError as error:
                reason = connection.last_error
                if isinstance(reason, KafkaProtocolError | AuthenticationFailedError):
                    raise reason from error
                log.debug(
                    "%s: %s did not answer %s", options.client_id, connection, step.rung.value
                )
                no_answer = error
                continue
            took = asyncio.get_running_loop().time() - asked_at
            versions, learned = found
            connection.on_versions(versions, guessed=learned.guessed)
            if options.mechanism is not None:
                # Most connections do not authenticate.
                from aiokafka_lite.net.authenticate import authenticate
                from aiokafka_lite.net.reauthentication import Renewal

                limit = options.request_timeout
                lifetime = await authenticate(connection, options.mechanism, limit)
                connection.on_authenticated(
                    Renewal(connection, options.mechanism, lifetime, connection.close, limit)
                )
                if step.rung is Rung.NEGOTIATE_PLAINLY:  # without SASL, `find_versions` did this
                    found = await find_newer(connection, options, found, took, expected)
                    versions, learned = found
                    connection.on_versions(versions, guessed=learned.guessed)
            if known is None and learned.guessed and step.rung is not Rung.ASSUME:
                if not options.known.believes(host, port, learned):
                    connection.close()
                    return await open_connection(
                        host, port, options, expected=expected, timeout=timeout
                    )
                if connection.closed:
                    # The request that led to the guess also ended the connection: reconnect.
                    options.known.remember(host, port, learned)
                    return await open_connection(
                        host, port, options, expected=expected, timeout=timeout
                    )
            connection.on_open()
        except BaseException:
            if dialled:
                options.known.on_miss(host, port)
            connection.close()
            raise
        options.known.remember(host, port, learned)
        return connection
    options.known.forget(host, port)
    options.known.on_miss(host, port)
    if known is not None:
        raise no_answer  # a known broker that does not respond now
    raise silent_listener(no_answer, options)
