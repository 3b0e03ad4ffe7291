"""Connection options are checked once, when they are created."""

import ssl
from typing import Any

import pytest

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.connection_options import ConnectionOptions
from tests.unit.net.mechanisms import Password


def test_defaults_are_valid() -> None:
    options = ConnectionOptions()
    assert options.client_id == "aiokafka_lite"
    assert not options.tls
    assert not options.sasl


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request_timeout", 0),
        ("request_timeout", -1),
        ("request_timeout", float("nan")),
        ("request_timeout", float("inf")),
        ("connect_timeout", 0),
        ("connect_timeout_max", 0),
        ("connections_max_idle", 0),
        ("reconnect_backoff", -0.1),
        ("reconnect_backoff_max", -1),
        ("max_response_bytes", 0),
        ("max_response_bytes", 2**31),
        ("send_buffer_bytes", 0),
        ("receive_buffer_bytes", -2),
        ("api_version", "newest"),
        ("api_version", "1."),
        ("security_protocol", "TLS"),
        ("client_software_name", "with spaces"),
        ("client_software_version", ""),
    ],
)
def test_values_out_of_range_raise(name: str, value: object) -> None:
    with pytest.raises(KafkaConfigurationError, match=name) as caught:
        ConnectionOptions(**{name: value})  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client_id", 7),
        ("client_id", b"bytes"),
        ("request_timeout", "40"),
        ("request_timeout", True),
        ("connect_timeout", None),
        ("max_response_bytes", 1.5),
        ("send_buffer_bytes", "1"),
        ("api_version", (0, 9)),
        ("ssl_context", "context"),
        ("security_protocol", None),
    ],
)
def test_values_of_a_wrong_type_raise(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=name):
        ConnectionOptions(**{name: value})  # type: ignore[arg-type]


def test_the_setup_timeout_doubles_with_each_failed_attempt() -> None:
    options = ConnectionOptions(connect_timeout=10.0, connect_timeout_max=60.0)
    assert options.setup_timeout(0) == 10.0  # without jitter
    for failures, mean in ((1, 20.0), (2, 40.0)):
        found = [options.setup_timeout(failures) for _ in range(200)]
        assert 0.8 * mean <= min(found) < mean < max(found) <= 1.2 * mean
    assert 48.0 <= options.setup_timeout(10_000) <= 60.0


def test_a_lower_maximum_lowers_the_setup_timeout() -> None:
    options = ConnectionOptions(connect_timeout=10.0, connect_timeout_max=3.0)
    assert options.setup_timeout(0) == 3.0
    assert options.setup_timeout(5) <= 3.0


def test_none_and_minus_one_mean_the_default() -> None:
    options = ConnectionOptions(
        client_id=None,
        connections_max_idle=None,
        send_buffer_bytes=-1,
        receive_buffer_bytes=-1,
        api_version="auto",
    )
    assert options.send_buffer_bytes is None
    assert options.receive_buffer_bytes is None
    assert options.api_version is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"security_protocol": "SSL"}, "needs an ssl_context"),
        ({"ssl_context": ssl.create_default_context()}, "does not encrypt"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "needs a SASL mechanism"),
        ({"mechanism": Password()}, "does not authenticate"),
        ({"security_protocol": "SASL_SSL", "mechanism": Password()}, "needs an ssl_context"),
    ],
)
def test_contradictory_security_options_raise(given: dict[str, Any], text: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=text):
        ConnectionOptions(**given)


def test_consistent_security_options() -> None:
    options = ConnectionOptions(
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(),
        mechanism=Password(),
    )
    assert options.tls
    assert options.sasl
