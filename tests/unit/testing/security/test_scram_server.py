"""SCRAM with the examples of its RFCs, and rejected messages."""

import base64
import hashlib
import hmac

import pytest

from aiokafka_lite.testing.security.credentials import credential_of, derive
from aiokafka_lite.testing.security.sasl_exchange import PlainExchange, SaslRefused
from aiokafka_lite.testing.security.scram_server import ScramExchange
from aiokafka_lite.testing.security.users import Users

# RFC 7677, section 3
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(
    mechanism: str = "SCRAM-SHA-256", name: str = "user", password: str = "pencil"
) -> ScramExchange:
    users = Users(lambda: SALT)
    users.put(name, password)
    return ScramExchange(mechanism, users, lambda: SERVER_NONCE)


def test_the_example_of_rfc_7677() -> None:
    server = exchange()
    assert server.on_message(CLIENT_FIRST) == SERVER_FIRST
    assert server.user is None
    assert server.on_message(CLIENT_FINAL) == SERVER_FINAL
    assert server.user == "user"
    with pytest.raises(SaslRefused):
        server.on_message(CLIENT_FINAL)


def test_the_credential_of_rfc_5802s_words() -> None:
    """StoredKey = H(HMAC(SaltedPassword, "Client Key")), computed independently."""
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", SALT, 4096)
    client_key = hmac.new(salted, b"Client Key", hashlib.sha512).digest()
    credential = derive("SCRAM-SHA-512", "pencil", SALT, 4096)
    assert credential.stored_key == hashlib.sha512(client_key).digest()
    assert credential.server_key == hmac.new(salted, b"Server Key", hashlib.sha512).digest()
    assert credential == credential_of("SCRAM-SHA-512", salted, SALT, 4096)


def prove(server: ScramExchange, first: bytes, password: str, mechanism: str) -> bytes:
    """The final message of an independent client."""
    digest = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    answer = server.on_message(first).decode()
    nonce = answer.split(",")[0]
    bare = first.decode().split(",", 2)[2]
    unproven = f"c=biws,{nonce}"
    signed = f"{bare},{answer},{unproven}".encode()
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_names_and_passwords_of_all_kinds(mechanism: str) -> None:
    for name, said in (("a,b", "a=2Cb"), ("a=b", "a=3Db"), ("zoë", "zoë")):
        server = exchange(mechanism, name, "pass wörd,=")
        first = f"n,,n={said},r=abc".encode()
        server.on_message(prove(server, first, "pass wörd,=", mechanism))
        assert server.user == name


def test_a_wrong_password_is_refused() -> None:
    server = exchange()
    final = prove(server, CLIENT_FIRST, "guessed", "SCRAM-SHA-256")
    with pytest.raises(SaslRefused) as refused:
        server.on_message(final)
    assert refused.value.shown is None
    assert server.user is None


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=nobody,r=abc",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=a\x00c",
        b"n,a=other,n=user,r=abc",
        b"\xff\xfe",
    ],
)
def test_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(SaslRefused):
        exchange().on_message(first)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        CLIENT_FINAL.replace(b",p=", b",q="),
        CLIENT_FINAL.replace(b"r=rOpr", b"r=xOpr"),
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL[:-9],
        CLIENT_FINAL[:-5] + b"AAAA=",
        CLIENT_FINAL + CLIENT_FINAL[-8:],
    ],
)
def test_final_messages_that_are_refused(final: bytes) -> None:
    server = exchange()
    server.on_message(CLIENT_FIRST)
    with pytest.raises(SaslRefused):
        server.on_message(final)
    assert server.user is None


def test_plain() -> None:
    users = Users(lambda: SALT)
    users.put("alice", "secret", ["PLAIN"])
    plain = PlainExchange(users)
    assert plain.on_message(b"\0alice\0secret") == b""
    assert plain.user == "alice"
    for message in (b"", b"\0alice\0wrong", b"\0bob\0secret", b"bob\0alice\0secret", b"\0\0\0\0"):
        refused = PlainExchange(users)
        with pytest.raises(SaslRefused) as refusal:
            refused.on_message(message)
        assert refusal.value.shown
        assert refused.user is None
