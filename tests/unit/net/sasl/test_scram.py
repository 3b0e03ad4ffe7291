"""SASL/SCRAM: the examples of its RFCs, and invalid messages of a broker."""

import asyncio
import base64
import hashlib
import hmac
import threading
from collections.abc import Generator

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    SaslAuthenticationFailed,
)
from aiokafka_lite.net.authenticate import Exchange
from aiokafka_lite.net.sasl.scram import Scram
from aiokafka_lite.net.slow_exchange import SlowExchange
from aiokafka_lite.testing import FakeCluster

# RFC 7677, section 3: user "user", password "pencil".
NONCE = "rOprNGfwEbeRWgbNEkqO"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun() -> tuple[Exchange, bytes]:
    exchange = Scram("SHA-256", "user", "pencil")._exchange(NONCE)
    return exchange, next(exchange)


def test_example_of_rfc_7677() -> None:
    exchange, first = begun()
    assert first == CLIENT_FIRST
    assert exchange.send(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL.encode())


def test_another_exchange_may_replace_the_kept_password_meanwhile() -> None:
    """Exchanges run in threads, and each broker has its own salt for a delegation token."""

    class Raced(Scram):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "_salted" and value is not None:
                super().__setattr__(name, (b"another", 4096, b"another"))

    exchange = Raced("SHA-256", "user", "pencil")._exchange(NONCE)
    next(exchange)
    assert exchange.send(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()


async def test_each_exchange_has_a_new_nonce_and_names_are_escaped() -> None:
    scram = Scram("SHA-512", "a=b,c", "p")
    firsts = [next(await scram.begin("any")) for _ in range(2)]
    assert firsts[0] != firsts[1]
    assert firsts[0].startswith(b"n,,n=a=3Db=2Cc,r=")
    assert scram.name == "SCRAM-SHA-512"


def test_sha_512_and_a_salt_that_changes() -> None:
    scram = Scram("SHA-512", "user", "pencil")
    for salt in (b"one", b"one", b"two"):
        exchange = scram._exchange(NONCE)
        first = next(exchange)[3:]
        message = f"r={NONCE}x,s={base64.b64encode(salt).decode()},i=4096"
        final = exchange.send(message.encode())
        salted = hashlib.pbkdf2_hmac("sha512", b"pencil", salt, 4096)
        signed = b",".join((first, message.encode(), final.rpartition(b",p=")[0]))
        key = hmac.digest(salted, b"Server Key", "sha512")
        proof = base64.b64encode(hmac.digest(key, signed, "sha512"))
        with pytest.raises(StopIteration):
            exchange.send(b"v=" + proof)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (SERVER_FIRST.replace(f"r={NONCE}", "r=another"), "nonce"),
        (SERVER_FIRST.replace(SERVER_NONCE, NONCE), "nonce"),
        (SERVER_FIRST.replace("i=4096", "i=4095"), "iterations"),
        (SERVER_FIRST.replace("i=4096", "i=99999999"), "iterations"),
        (SERVER_FIRST.replace("i=4096", "i=-1"), "iterations"),
        (SERVER_FIRST.replace("i=4096", "i=" + "9" * 5000), "iterations"),
        (SERVER_FIRST.replace("i=4096", "i=" + "0" * 5000 + "4096"), "iterations"),
        (SERVER_FIRST.replace("i=4096", "i=\N{ARABIC-INDIC DIGIT FOUR}096"), "iterations"),
        (SERVER_FIRST.replace(",i=4096", ""), "iterations"),
        (SERVER_FIRST.replace("s=W22ZaJ0SNY7soEsUEjb6gQ==", "s=???"), "base64"),
        (SERVER_FIRST.replace("s=W22ZaJ0SNY7soEsUEjb6gQ==", "s="), "lacks"),
        ("m=must," + SERVER_FIRST, "extension"),
        ("nonsense", "malformed"),
        ("", "malformed"),
    ],
)
def test_invalid_first_response_raises(message: str, text: str) -> None:
    exchange, _ = begun()
    with pytest.raises(AuthenticationFailedError, match=text):
        exchange.send(message.encode())


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"e=invalid-proof", "invalid-proof"),
        (b"v=" + base64.b64encode(bytes(32)), "could not prove"),
        (b"x=1", "lacks"),
        (b"\xff", "UTF-8"),
    ],
)
def test_invalid_final_response_raises(message: bytes, text: str) -> None:
    exchange, _ = begun()
    exchange.send(SERVER_FIRST.encode())
    with pytest.raises(AuthenticationFailedError, match=text):
        exchange.send(message)


@pytest.mark.parametrize(
    "message",
    [
        SERVER_FIRST.replace("i=4096", "i=" + "9" * 100_000),
        "x" * 100_000,
        f"{SERVER_FIRST},{'y' * 100_000}",
    ],
)
def test_error_shows_only_the_beginning_of_the_brokers_text(message: str) -> None:
    exchange, _ = begun()
    with pytest.raises(AuthenticationFailedError) as caught:
        exchange.send(message.encode())
    assert len(str(caught.value)) < 300


def test_refusal_shows_only_the_beginning_of_the_brokers_text() -> None:
    exchange, _ = begun()
    exchange.send(SERVER_FIRST.encode())
    with pytest.raises(AuthenticationFailedError, match="refused: other-error") as caught:
        exchange.send(b"e=other-error" + b"z" * 100_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("name", "password"), [("ann", "s3cret\udc80"), ("ann\udc80", "s3cret")])
def test_unencodable_credentials_raise_without_showing_them(name: str, password: str) -> None:
    with pytest.raises(KafkaConfigurationError, match="lone surrogate") as caught:
        Scram("SHA-256", name, password)
    error: BaseException | None = caught.value
    assert "s3cret" not in repr(error)
    assert error.__context__ is None  # a UnicodeEncodeError would contain the text


def in_a_minute() -> float:
    return asyncio.get_running_loop().time() + 60


async def test_hashing_the_password_does_not_block_the_event_loop() -> None:
    exchange = await Scram("SHA-256", "user", "pencil").begin("any")
    assert isinstance(exchange, SlowExchange)
    nonce = next(exchange).rpartition(b"r=")[2].decode()
    threads: list[threading.Thread] = []
    hashing = exchange._steps
    assert isinstance(hashing, Generator)

    def steps() -> Exchange:
        answer = yield b""
        threads.append(threading.current_thread())
        answer = yield hashing.send(answer)
        hashing.send(answer)

    exchange._steps = steps()
    next(exchange)
    message = f"r={nonce}x,s={base64.b64encode(b'salt').decode()},i=4096"
    assert (await exchange.advance(message.encode(), in_a_minute()) or b"").startswith(b"c=biws,r=")
    assert threads[0] is not threading.main_thread()
    with pytest.raises(AuthenticationFailedError, match="could not prove"):
        await exchange.advance(b"v=" + base64.b64encode(b"nothing"), in_a_minute())


def test_delegation_token_is_announced() -> None:
    first = next(Scram("SHA-256", "token-id", "aG1hYw==", tokenauth=True)._exchange(NONCE))
    assert first == f"n,,n=token-id,r={NONCE},tokenauth=true".encode()


async def test_refusal_of_a_delegation_token_names_the_likely_causes() -> None:
    with FakeCluster(users={"alice": "secret"}) as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="token-id",
            sasl_plain_password="aG1hYw==",
            sasl_scram_tokenauth=True,
        )
        with pytest.raises(SaslAuthenticationFailed, match="token may have expired") as caught:
            await producer.start()
        await producer.stop()
    assert "aG1hYw==" not in str(caught.value)
