"""No repr, log line, error, traceback or metric contains a client's password or token."""

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.oauth import AwsCredentials
from aiokafka_lite.testing import FakeCluster

SECRET = "s3cret"


class Provider(AbstractTokenProvider):
    async def token(self) -> str:
        return SECRET

    def __repr__(self) -> str:
        return "<Provider>"


def reprs(objects: list[object]) -> dict[str, str]:
    """The repr and str of objects, by class."""
    found: dict[str, list[str]] = {}
    for each in objects:
        name = f"{type(each).__module__}.{type(each).__qualname__}"
        found.setdefault(name, []).append(f"{each!r} {each}")
    return {name: "\n".join(texts) for name, texts in found.items()}


@pytest.mark.parametrize("known", [SECRET, "another"])
@pytest.mark.parametrize(
    ("mechanism", "credentials"),
    [
        ("PLAIN", {"sasl_plain_username": "ann", "sasl_plain_password": SECRET}),
        ("SCRAM-SHA-256", {"sasl_plain_username": "ann", "sasl_plain_password": SECRET}),
        (
            "SCRAM-SHA-512",
            {
                "sasl_plain_username": "ann",
                "sasl_plain_password": SECRET,
                "sasl_scram_tokenauth": True,
            },
        ),
        ("OAUTHBEARER", {"sasl_oauth_token_provider": Provider()}),
        (
            "AWS_MSK_IAM",
            {
                "sasl_aws_credentials": AwsCredentials("ann", SECRET, SECRET),
                "sasl_aws_region": "eu-west-1",
            },
        ),
    ],
)
async def test_no_object_of_a_client_shows_its_secret(
    mechanism: str,
    credentials: dict[str, Any],
    known: str,
    caplog: pytest.LogCaptureFixture,
    package_objects: Callable[[], list[object]],
) -> None:
    caplog.set_level("DEBUG", "aiokafka_lite")
    async with FakeCluster(topics={"orders": 1}, users={"ann": known}) as cluster:
        options = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            **credentials,
        }
        producer, consumer = AIOKafkaProducer(**options), AIOKafkaConsumer("orders", **options)
        errors = []
        for client in (producer, consumer):
            try:
                await client.start()
            except KafkaError as error:  # this broker offers only PLAIN and SCRAM
                errors += [repr(error), *traceback.format_exception(error)]
        shown = reprs(package_objects())
        shown["metrics"] = repr([producer.metrics(), consumer.metrics()])
        await producer.stop()
        await consumer.stop()
    assert "aiokafka_lite.net.connection_options.ConnectionOptions" in shown
    assert bool(errors) == (known != SECRET or mechanism in ("OAUTHBEARER", "AWS_MSK_IAM"))
    assert [name for name, text in shown.items() if SECRET in text] == []
    assert SECRET not in " ".join(errors)
    assert SECRET not in caplog.text
