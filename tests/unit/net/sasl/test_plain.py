"""SASL/PLAIN as in its RFC."""

import pytest

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.sasl.plain import Plain


async def test_name_and_password_between_nuls() -> None:
    exchange = await Plain("alice", "p\N{LATIN SMALL LETTER SHARP S}").begin("any")
    assert next(exchange) == b"\0alice\0p\xc3\x9f"
    with pytest.raises(StopIteration):
        exchange.send(b"")


@pytest.mark.parametrize("pair", [("a\0b", "p"), ("a", "p\0q")])
def test_nul_in_credentials_raises(pair: tuple[str, str]) -> None:
    with pytest.raises(KafkaConfigurationError, match="NUL"):
        Plain(*pair)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Plain("alice", "secret"))


@pytest.mark.parametrize(("name", "password"), [("ann", "s3cret\udc80"), ("ann\udc80", "s3cret")])
def test_unencodable_credentials_raise_without_showing_them(name: str, password: str) -> None:
    with pytest.raises(KafkaConfigurationError, match="lone surrogate") as caught:
        Plain(name, password)
    assert "s3cret" not in repr(caught.value)
    assert caught.value.__context__ is None
