"""Opens many connections to brokers that send hostile bytes during the handshake.

    python -m tests.fuzz.handshake --bytes 1000000 --seed 1

Each kind of handshake gets this many hostile bytes: ApiVersions responses, each SASL mechanism (in
requests and as bare tokens), and TLS records. A broker answers correctly up to a random step, then
sends a damaged answer and hangs up. An attempt may succeed or raise one of `DOCUMENTED`, with a
message of limited length; anything else fails the run, as do attempts that hang or use much CPU
time, and memory that grows with claimed sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    BrokerResponseError,
    KafkaConnectionError,
    KafkaProtocolError,
    NodeNotReadyError,
    UnsupportedVersionError,
)
from aiokafka_lite.net.authenticate import Mechanism
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.gss import KerberosLogin
from aiokafka_lite.net.gss.gss_library import LibraryContext, find_library
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.net.sasl.aws_msk_iam import AwsMskIam
from aiokafka_lite.net.sasl.gssapi import Gssapi
from aiokafka_lite.net.sasl.oauthbearer import OAuthBearer
from aiokafka_lite.net.sasl.plain import Plain
from aiokafka_lite.net.sasl.scram import Scram
from aiokafka_lite.oauth import AwsCredentials
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.framing import decode_request, encode_response
from aiokafka_lite.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from aiokafka_lite.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from aiokafka_lite.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.security.authentication import Sasl
from aiokafka_lite.testing.security.sasl_exchange import SaslExchange, SaslRefused
from aiokafka_lite.testing.security.users import Users
from tests.fuzz.protocol import DAMAGES
from tests.kdc import BROKER, Kdc, missing_programs
from tests.oidc_server import unsigned_jwt
from tests.unit.net.sasl.stand_in_gss import StandInGss

DOCUMENTED: Final = (
    AuthenticationFailedError,
    BrokerResponseError,
    KafkaConnectionError,
    KafkaProtocolError,
    NodeNotReadyError,
    UnsupportedVersionError,
)
"""What `open_connection` may raise."""

LONGEST_TEXT: Final = 2000
"""Characters of an error: a broker does not choose its length."""

MOST_CPU: Final = 10.0
"""Seconds of CPU time that one attempt may use, on any machine: a loop that a broker controls."""

GROWTH_LIMIT: Final = 100 * 1024
"""KiB that the run may add to the process."""

PATIENCE: Final = 60.0
"""Seconds after which an attempt counts as hanging."""

VERSIONS: Final = [
    ApiVersion(int(key), low, high)
    for key, low, high in (
        (ApiKey.METADATA, 0, 13),
        (ApiKey.API_VERSIONS, 0, 4),
        (ApiKey.SASL_HANDSHAKE, 0, 1),
        (ApiKey.SASL_AUTHENTICATE, 0, 2),
    )
]


class Kind(NamedTuple):
    """A kind of handshake.

    Attributes:
        mechanism: Makes the client's mechanism.
        bare: True for tokens without SaslAuthenticate.
        tls: True if the hostile bytes are TLS records.
    """

    name: str
    mechanism: Callable[[], Mechanism]
    bare: bool = False
    tls: bool = False


class Token(AbstractTokenProvider):
    async def token(self) -> str:
        return unsigned_jwt(3600)


def plain() -> Mechanism:
    return Plain("alice", "secret")


def gssapi() -> Mechanism:
    return Gssapi(KerberosLogin(principal="alice"), new_context=StandInGss())


MECHANISMS: Final[dict[str, Callable[[], Mechanism]]] = {
    "PLAIN": plain,
    "SCRAM-SHA-256": lambda: Scram("SHA-256", "alice", "secret"),
    "SCRAM-SHA-512": lambda: Scram("SHA-512", "alice", "secret", tokenauth=True),
    "OAUTHBEARER": lambda: OAuthBearer(Token()),
    "GSSAPI": gssapi,
    "AWS_MSK_IAM": lambda: AwsMskIam(AwsCredentials("alice", "secret"), "eu-west-1"),
}
KINDS: Final = (
    Kind("ApiVersions", plain),
    *(Kind(name, mechanism) for name, mechanism in MECHANISMS.items()),
    *(Kind(f"{name}, bare", mechanism, bare=True) for name, mechanism in MECHANISMS.items()),
    Kind("TLS", plain, tls=True),
)


def new_sasl(chance: random.Random) -> Sasl:
    users = Users(lambda: b"the salt")
    users.put("alice", "secret")
    clock = VirtualClock(int(time.time() * 1000))
    return Sasl(
        users, list(MECHANISMS), clock=clock, new_nonce=lambda: f"{chance.randrange(2**64):x}"
    )


class HostileBroker:
    """Serves one kind of handshake; each connection gets one damaged answer.

    Attributes:
        sent: Number of hostile bytes so far.
        damages: How often each damage was used.
        failure: An error of this broker itself.
    """

    def __init__(self, kind: Kind, chance: random.Random, context: ssl.SSLContext | None) -> None:
        self.sent = 0
        self.damages: Counter[str] = Counter()
        self.failure: Exception | None = None
        self.port = 0
        self._kind = kind
        self._chance = chance
        self._context = context
        self._sasl = new_sasl(chance)

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def _damaged(self, good: bytes) -> bytes:
        damage = self._chance.choice(DAMAGES)
        self.damages[damage.__name__] += 1
        hostile = bytes(damage(bytearray(good), self._chance))
        self.sent += len(hostile)
        return hostile

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._kind.tls:
                await self._serve_tls(reader, writer)
            else:
                await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client hung up
        except Exception as error:
            self.failure = error
        finally:
            writer.close()

    async def _serve_tls(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._context is not None
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(incoming, outgoing, server_side=True)
        good_flights = self._chance.choice((0, 0, 1))
        while received := await reader.read(65536):
            incoming.write(received)
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return
            flight = outgoing.read()
            if good_flights:
                good_flights -= 1
                writer.write(flight)
                continue
            # Records of any content: what follows the handshake, too.
            writer.write(self._damaged(flight or b"\x17\x03\x03\x00\x20" + bytes(32)))
            return

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        whole = self._chance.random() < 0.3  # damage a whole response, or only a token in it
        step = 0 if self._kind.name == "ApiVersions" else self._chance.choice((1, 2, 2, 3, 3, 4))
        exchange: SaslExchange | None = None
        bare = False
        while True:
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            hostile = step == 0
            step -= 1
            if bare:
                assert exchange is not None
                token = self._challenge(exchange, frame)
                answer = self._damaged(token) if hostile else token
                framed = len(answer).to_bytes(4, "big") + answer
                writer.write(self._damaged(framed) if hostile and whole else framed)
            else:
                header, request = decode_request(frame)
                if isinstance(request, ApiVersionsRequest):
                    offered = VERSIONS[:-1] if self._kind.bare else VERSIONS
                    response: object = ApiVersionsResponse(0, offered)
                elif isinstance(request, SaslHandshakeRequest):
                    exchange = self._sasl.begin(request.mechanism)
                    bare = header.request_api_version == 0
                    response = SaslHandshakeResponse(0, list(MECHANISMS))
                    if hostile and self._chance.random() < 0.5:
                        # Up to Kafka's longest string, in which a byte may become two.
                        names = self._damaged(b"PLAIN" * 60).decode("latin-1")[:16_000]
                        response = SaslHandshakeResponse(33, [names] * 9)
                else:
                    assert isinstance(request, SaslAuthenticateRequest)
                    assert exchange is not None
                    token = self._challenge(exchange, request.auth_bytes)
                    response = SaslAuthenticateResponse(auth_bytes=token)
                    if hostile and not whole:
                        response.auth_bytes = self._damaged(token)
                        if self._chance.random() < 0.2:
                            response.error_code = 58
                            response.error_message = "x" * self._chance.choice((0, 10, 30_000))
                encoded = bytes(
                    encode_response(response, header.request_api_version, header.correlation_id)  # type: ignore[arg-type]
                )
                if hostile and (whole or isinstance(request, ApiVersionsRequest)):
                    if self._chance.random() < 0.5:
                        body = self._damaged(encoded[4:])
                        encoded = len(body).to_bytes(4, "big") + body
                    else:
                        encoded = self._damaged(encoded)
                writer.write(encoded)
            if hostile:
                return

    @staticmethod
    def _challenge(exchange: SaslExchange, token: bytes) -> bytes:
        try:
            return exchange.on_message(token)
        except SaslRefused:
            return b""


@contextmanager
def certificate() -> Iterator[tuple[Path, Path]]:
    """A new certificate for localhost and its key."""
    with tempfile.TemporaryDirectory() as folder:
        cert, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        command = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
        )
        subprocess.run(
            [*command.split(), "-keyout", str(key), "-out", str(cert)],
            check=True,
            capture_output=True,
            timeout=60,
        )
        yield cert, key


class Tally:
    """What happened to the attempts of one kind."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.longest_cpu = 0.0


async def attempt(broker: HostileBroker, options: ConnectionOptions, tally: Tally) -> None:
    """Open one connection.

    Raises:
        Exception: It ended in an undocumented way.
    """
    cpu = time.process_time()
    try:
        async with asyncio.timeout(PATIENCE):
            connection = await open_connection("127.0.0.1", broker.port, options)
    except DOCUMENTED as error:
        if len(str(error)) > LONGEST_TEXT:
            raise AssertionError(
                f"an error of {len(str(error))} characters: {error!s:.200}"
            ) from None
        if "secret" in f"{error} {error.__cause__}":
            raise AssertionError("an error shows the password") from error
        tally.ended[type(error).__name__] += 1
    except TimeoutError as error:
        raise AssertionError(f"the attempt did not end within {PATIENCE:g} s") from error
    else:
        tally.ended["opened"] += 1
        connection.close()
        await connection.wait_closed()
    tally.longest_cpu = max(tally.longest_cpu, time.process_time() - cpu)
    if tally.longest_cpu > MOST_CPU:
        raise AssertionError(f"an attempt used {tally.longest_cpu:.1f} s of CPU time")


async def run_kind(
    kind: Kind, amount: int, chance: random.Random, files: tuple[Path, Path]
) -> Tally:
    """Send one kind's hostile bytes."""
    server_context, client_context = None, None
    if kind.tls:
        server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server_context.load_cert_chain(*files)
        client_context = ssl.create_default_context(cafile=str(files[0]))
    broker = HostileBroker(kind, chance, server_context)
    server = await broker.start()
    tally = Tally()
    try:
        while broker.sent < amount:
            options = ConnectionOptions(
                security_protocol="SASL_SSL" if kind.tls else "SASL_PLAINTEXT",
                ssl_context=client_context,
                mechanism=kind.mechanism(),
                # One level only: repeating the attempt gains nothing.
                request_timeout=20.0,
                connect_timeout=20.0,
            )
            await attempt(broker, options, tally)
            if broker.failure is not None:
                raise broker.failure
    finally:
        server.close()
    used = ", ".join(f"{name} {count}" for name, count in sorted(tally.ended.items()))
    print(
        f"  {kind.name}: {broker.sent} bytes, {tally.ended.total()} attempts: {used}; most CPU "
        f"{tally.longest_cpu * 1e3:.0f} ms"
    )
    return tally


def run_kerberos(amount: int, chance: random.Random, folder: Path) -> None:
    """Send hostile tokens to contexts of MIT's library, which begin with a ticket of a real KDC.

    Raises:
        Exception: A step ended in an undocumented way.
    """
    library = find_library()
    if library is None or missing_programs():
        print("  Kerberos: skipped, because the library or the KDC is not installed")
        return
    sent, ended = 0, Counter[str]()
    with Kdc(folder) as kdc:
        kdc.add(BROKER, "alice")
        login = KerberosLogin(keytab=str(kdc.keytab("alice")))
        while sent < amount:
            context = LibraryContext(library, login, "kafka@localhost")
            try:
                # A ticket has the structure of the broker's answer.
                answer = context.step(None)
                hostile = bytes(chance.choice(DAMAGES)(bytearray(answer), chance))
                sent += len(hostile)
                context.step(hostile)
            except AuthenticationFailedError as error:
                if len(str(error)) > LONGEST_TEXT:
                    raise AssertionError(f"an error of {len(str(error))} characters") from None
                ended[type(error).__name__] += 1
            finally:
                context.close()
    print(f"  Kerberos: {sent} bytes, {ended.total()} tokens: {dict(ended)}")


def run(amount: int, seed: int) -> int:
    """Run every kind; return the exit status."""
    chance = random.Random(seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"handshake fuzz: seed {seed}, {amount} hostile bytes of each kind")
    with certificate() as files:
        for kind in KINDS:
            try:
                asyncio.run(run_kind(kind, amount, chance, files))
            except Exception:
                traceback.print_exc()
                print(f"FAILED: {kind.name}, seed {seed}")
                return 1
        run_kerberos(amount, chance, files[0].parent)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"  memory grew by {grown} KiB")
    if grown > GROWTH_LIMIT:
        print(f"FAILED: memory grew by {grown} KiB, seed {seed}")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.handshake")
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    return run(options.bytes, seed)


if __name__ == "__main__":
    sys.exit(main())
