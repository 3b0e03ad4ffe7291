"""Proxy URLs, and the handshakes byte by byte, with responses that no proxy should send."""

import re

import pytest

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
)
from aiokafka_lite.net.route.proxies import LONGEST_HEAD, Proxy, parse_proxy

SOCKS = Proxy("socks5", "proxy", 1080)
SOCKS_WITH_USER = Proxy("socks5", "proxy", 1080, "ann", "hush")
HTTP = Proxy("http", "proxy", 80)
HTTP_WITH_USER = Proxy("http", "proxy", 80, "ann", "hush")


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("socks5://proxy", SOCKS),
        ("socks5h://proxy:1080/", SOCKS),
        ("socks5://ann:hush@proxy", SOCKS_WITH_USER),
        ("http://proxy", HTTP),
        ("HTTP://ann:hush@proxy:80", HTTP_WITH_USER),
        ("https://proxy", Proxy("https", "proxy", 443)),
        ("http://a%40b:p%3A%2F@[::1]:8080", Proxy("http", "::1", 8080, "a@b", "p:/")),
        ("http://ann@proxy", Proxy("http", "proxy", 80, "ann", "")),
    ],
)
def test_urls_are_parsed(url: str, proxy: Proxy) -> None:
    assert parse_proxy(url) == proxy


@pytest.mark.parametrize(
    "url",
    [
        "", "proxy:1080", "socks4://hush@proxy", "ftp://hush@proxy", "http://", "http://hush:1@",
        "http://hush@proxy:x", "http://hush@proxy:99999", "http://hush@proxy:0",
        "http://hush@proxy/path", "http://hush@proxy?q", "http://[hush", "http://a%3Ab:hush@proxy",
        f"socks5://ann:{'hush' * 64}@proxy", "socks5://:hush@proxy",
    ],
)  # fmt: skip
def test_invalid_urls_are_errors_without_their_text(url: str) -> None:
    with pytest.raises(KafkaConfigurationError, match="`proxy_url` is not valid") as caught:
        parse_proxy(url)
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_url_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="`proxy_url` should be a str, not bytes"):
        parse_proxy(b"http://proxy")


def test_texts_contain_no_credentials() -> None:
    for text in (repr(HTTP_WITH_USER), str(HTTP_WITH_USER), repr(SOCKS_WITH_USER)):
        assert "hush" not in text
        assert "ann" not in text
    assert str(Proxy("http", "::1", 80)) == "http://[::1]:80"


def exchange(
    proxy: Proxy, answers: bytes, host: str = "broker.example", port: int = 9092
) -> tuple[bytes, bytes]:
    """The client's bytes for a proxy with these responses, and the responses that it does not
    read."""
    sent = b""
    handshake = proxy.handshake(host, port)
    wanted = next(handshake)
    try:
        while True:
            if isinstance(wanted, bytes):
                sent += wanted
                wanted = handshake.send(b"")
            else:
                assert 0 < wanted <= 258
                data, answers = answers[:wanted], answers[wanted:]
                if len(data) < wanted:
                    raise EOFError
                wanted = handshake.send(data)
    except StopIteration:
        return sent, answers


def test_socks5_without_credentials() -> None:
    sent, rest = exchange(SOCKS, b"\5\0" + b"\5\0\0\1\x7f\0\0\1\x23\x84" + b"kafka")
    assert sent == b"\5\1\0" + b"\5\1\0\3\x0ebroker.example\x23\x84"
    assert rest == b"kafka"


def test_socks5_with_credentials() -> None:
    sent, rest = exchange(SOCKS_WITH_USER, b"\5\2\1\0" + b"\5\0\0\4" + bytes(18))
    assert sent == b"\5\2\0\2" + b"\1\3ann\4hush" + b"\5\1\0\3\x0ebroker.example\x23\x84"
    assert rest == b""
    sent, _ = exchange(SOCKS_WITH_USER, b"\5\0" + b"\5\0\0\3\1x\0\0")
    assert b"hush" not in sent  # the proxy did not ask for it


@pytest.mark.parametrize(
    ("host", "encoded"),
    [
        ("10.1.2.3", b"\1\x0a\1\2\3"),
        ("::1", b"\4" + bytes(15) + b"\1"),
        ("bücher.example", b"\3\x15xn--bcher-kva.example"),
    ],
)
def test_socks5_addresses(host: str, encoded: bytes) -> None:
    sent, _ = exchange(SOCKS, b"\5\0" + b"\5\0\0\1" + bytes(6), host)
    assert sent == b"\5\1\0" + b"\5\1\0" + encoded + b"\x23\x84"


@pytest.mark.parametrize(
    ("proxy", "answers", "kind", "words"),
    [
        (SOCKS, b"HT", KafkaConnectionError, "does not answer like a SOCKS5 proxy"),
        (SOCKS, b"\5\xff", AuthenticationFailedError, "neither connections without credentials"),
        (SOCKS, b"\5\2", AuthenticationFailedError, "add them to `proxy_url`"),
        (SOCKS_WITH_USER, b"\5\2\1\1", AuthenticationFailedError, "refused its user or password"),
        (SOCKS, b"\5\0\5\5\0\1", KafkaConnectionError, "broker.example:9092: connection refused"),
        (SOCKS, b"\5\0\5\x63\0\1", KafkaConnectionError, "broker.example:9092: error 99"),
        (SOCKS, b"\5\0\4\0\0\1", KafkaConnectionError, "does not answer like a SOCKS5 proxy"),
        (SOCKS, b"\5\0\5\0\0\7", KafkaConnectionError, "does not answer like a SOCKS5 proxy"),
        (HTTP, b"\0\0\0\4what", KafkaConnectionError, "does not answer like an HTTP proxy"),
        (HTTP, b"HTTP/1.1\r\n\r\n", KafkaConnectionError, "does not answer like an HTTP proxy"),
        (HTTP, b"HTTP/1.1 " + b"x" * LONGEST_HEAD, KafkaConnectionError, "does not answer like"),
        (HTTP, b"HTTP/1.1 407 No\r\n\r\n", AuthenticationFailedError, "requires a user and pass"),
        (HTTP_WITH_USER, b"HTTP/1.1 407 No\r\n\r\n", AuthenticationFailedError, "refused its user"),
        (HTTP, b"HTTP/1.1 502 Bad\x1b[31m\r\nA: b\r\n\r\n", KafkaConnectionError,
            "cannot connect to broker.example:9092: 502 Bad?[31m"),
    ],
)  # fmt: skip
def test_refusals_and_nonsense_are_errors(
    proxy: Proxy, answers: bytes, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)) as caught:
        exchange(proxy, answers)
    assert "hush" not in str(caught.value)


def test_http_connect() -> None:
    answer = b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n"
    sent, rest = exchange(HTTP, answer + b"kafka")
    assert sent == b"CONNECT broker.example:9092 HTTP/1.1\r\nHost: broker.example:9092\r\n\r\n"
    assert rest == b"kafka"
    sent, _ = exchange(HTTP_WITH_USER, answer, "::1")
    assert sent == (
        b"CONNECT [::1]:9092 HTTP/1.1\r\nHost: [::1]:9092\r\n"
        b"Proxy-Authorization: Basic YW5uOmh1c2g=\r\n\r\n"
    )


def test_every_cut_and_every_flipped_byte_ends_the_handshake() -> None:
    for proxy, answers in (
        (SOCKS_WITH_USER, b"\5\2\1\0\5\0\0\3\7example\0\1"),
        (HTTP, b"HTTP/1.1 200 OK\r\n\r\n"),
    ):
        for place in range(len(answers)):
            with pytest.raises(EOFError):
                exchange(proxy, answers[:place])
            for bit in range(8):
                damaged = bytearray(answers)
                damaged[place] ^= 1 << bit
                try:
                    exchange(proxy, bytes(damaged))
                except (EOFError, KafkaConnectionError, AuthenticationFailedError):
                    pass


@pytest.mark.parametrize("proxy", [HTTP, SOCKS], ids=["http", "socks5"])
@pytest.mark.parametrize("host", ["", "a b", "a\r\nX: y", "\x7f", "é" * 70, "é..é"])
def test_names_from_a_hostile_broker_never_reach_the_proxy(proxy: Proxy, host: str) -> None:
    handshake = proxy.handshake(host, 9092)
    if proxy is SOCKS:
        assert [next(handshake), handshake.send(b"")] == [b"\5\1\0", 2]
    with pytest.raises(KafkaConnectionError, match="is not a host name"):
        handshake.send(None if proxy is HTTP else b"\5\0")  # type: ignore[arg-type]
