"""aiokafka's `sasl_*` arguments: the mechanisms that they select, and errors."""

from typing import Any

import pytest

from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.sasl import choose

DEFAULTS: dict[str, object] = {
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
}
ALICE = {"sasl_plain_username": "alice", "sasl_plain_password": "secret"}


class Provider(AbstractTokenProvider):
    async def token(self) -> str:
        return "t"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"sasl_mechanism": "PLAIN", **ALICE}, "PLAIN"),
        ({"sasl_mechanism": "SCRAM-SHA-256", **ALICE}, "SCRAM-SHA-256"),
        ({"sasl_mechanism": "SCRAM-SHA-512", **ALICE}, "SCRAM-SHA-512"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()},
            "OAUTHBEARER",
        ),
        ({"sasl_mechanism": "GSSAPI"}, "GSSAPI"),
        ({"sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_region": "eu-west-1"}, "AWS_MSK_IAM"),
        (
            {"sasl_mechanism": "SCRAM-SHA-512", "sasl_scram_tokenauth": True, **ALICE},
            "SCRAM-SHA-512",
        ),
        (
            {
                "sasl_mechanism": "GSSAPI",
                "sasl_kerberos_domain_name": "kafka.example",
                "sasl_kerberos_principal": "alice",
                "sasl_kerberos_keytab": "/alice.keytab",
                "sasl_kerberos_cache": "MEMORY:alice",
            },
            "GSSAPI",
        ),
    ],
)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_mechanism_is_chosen_by_name(protocol: str, given: dict[str, object], name: str) -> None:
    mechanism = choose(protocol, {**DEFAULTS, **given})
    assert mechanism is not None
    assert mechanism.name == name
    assert "secret" not in repr(mechanism)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_credentials_are_ignored_without_sasl(protocol: str) -> None:
    assert choose(protocol, DEFAULTS) is None
    assert choose(protocol, {**DEFAULTS, **ALICE}) is None


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_no_mechanism_is_needed_without_sasl(protocol: str) -> None:
    assert choose(protocol, {**DEFAULTS, "sasl_mechanism": None}) is None


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({}, ValueError, "sasl_plain_username and sasl_plain_password required for PLAIN sasl"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, ValueError, "required for SCRAM-SHA-256 sasl"),
        ({"sasl_mechanism": "OAUTHBEARER"}, ValueError, "sasl_oauth_token_provider"),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": object()},
            ValueError,
            "sasl_oauth_token_provider",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": None},
            KafkaConfigurationError,
            "requires `sasl_kerberos_service_name`",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_keytab": ""},
            KafkaConfigurationError,
            "`sasl_kerberos_keytab` should not be empty",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_principal": "a\0b"},
            KafkaConfigurationError,
            "`sasl_kerberos_principal` should not be empty or contain NUL",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_principal": "a\udc80"},
            KafkaConfigurationError,
            "Kerberos principal cannot be encoded",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_kerberos_cache": 5},
            TypeError,
            "`sasl_kerberos_cache`",
        ),
        (
            {**ALICE, "sasl_kerberos_keytab": "/k"},
            KafkaConfigurationError,
            "`sasl_kerberos_keytab` requires `sasl_mechanism` GSSAPI, not PLAIN",
        ),
        (
            {**ALICE, "sasl_scram_tokenauth": True},
            KafkaConfigurationError,
            "`sasl_scram_tokenauth` requires `sasl_mechanism` SCRAM, not PLAIN",
        ),
        ({**ALICE, "sasl_scram_tokenauth": "true"}, TypeError, "should be a bool, not str"),
        (
            {"sasl_mechanism": "AWS_MSK_IAM", "sasl_aws_credentials": ("id", "key")},
            TypeError,
            "`sasl_aws_credentials` should be aiokafka_lite.oauth.AwsCredentials",
        ),
        ({"sasl_mechanism": "MAGIC"}, ValueError, "only PLAIN, GSSAPI"),
        ({"sasl_mechanism": None}, ValueError, "only PLAIN, GSSAPI"),
        ({**ALICE, "sasl_plain_password": b"p"}, TypeError, "`sasl_plain_password`"),
        ({**ALICE, "sasl_plain_username": 5}, TypeError, "`sasl_plain_username`"),
    ],
)
def test_invalid_arguments_raise(given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        choose("SASL_PLAINTEXT", {**DEFAULTS, **given})
