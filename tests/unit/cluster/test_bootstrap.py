"""The values of bootstrap_servers."""

from __future__ import annotations

import pytest

from aiokafka_lite.cluster.bootstrap import parse_bootstrap
from aiokafka_lite.errors import KafkaConfigurationError


@pytest.mark.parametrize(
    ("written", "addresses"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , b ,", [("a", 1), ("b", 9092)]),
        (["a:1", "b:2,c:3"], [("a", 1), ("b", 2), ("c", 3)]),
        ([("a", 1)], [("a", 1)]),
        (("a:1", "a:1"), [("a", 1)]),
        ("[::1]:1", [("::1", 1)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
        ("fe80::1%eth0", [("fe80::1%eth0", 9092)]),
    ],
)
def test_parse_addresses(written, addresses):
    assert parse_bootstrap(written) == addresses


@pytest.mark.parametrize(
    "written",
    [
        *("", ",", [], ":9092", "a:", "a:b", "a:0", "a:65536", "a:-1", "[::1]x", [("", 1)], "a:٣"),
        *("\ud800:1", "a..b:1", "x" * 64 + ":1", [("a", 1.0)]),
    ],
)
def test_invalid_address_raises(written):
    with pytest.raises(KafkaConfigurationError, match="bootstrap_servers"):
        parse_bootstrap(written)


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("kafka://host:9092", "begins with the scheme kafka://.*write 'host:9092'"),
        (["a:1", "SASL_SSL://b:2"], "SASL_SSL://.*security_protocol"),
        ("a:1:2", "'a:1:2' is not host:port"),
    ],
)
def test_wrong_address_syntax_gets_a_hint(written, hint):
    with pytest.raises(KafkaConfigurationError, match=hint):
        parse_bootstrap(written)


@pytest.mark.parametrize("written", [5, None, b"a:1", ["a:1", 7], [("a",)], [(b"a", 1)]])
def test_wrong_type_raises_type_error(written):
    with pytest.raises(TypeError, match="`bootstrap_servers`"):
        parse_bootstrap(written)
