"""`kafka.*` options as client arguments: supported, ignored and rejected options."""

import inspect
import logging
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.kafka_options.client_options import (
    CONSUMER_OPTIONS,
    PRODUCER_OPTIONS,
    consumer_arguments,
    producer_arguments,
)
from aiokafka_lite.spark.kafka_options.jaas import parse_jaas
from aiokafka_lite.spark.kafka_options.shipped_file import ShippedFile
from aiokafka_lite.spark.kafka_options.tokens import ClientCredentials
from aiokafka_lite.spark.options import ReadOptions
from aiokafka_lite.spark.runtime import client_key
from aiokafka_lite.spark.task_reading import ReadSettings

KAFKA = {"kafka.bootstrap.servers": "a:1,b:2"}
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required {};"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" {};'
READING = {
    "allow_auto_create_topics": False,
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
}


def consumer(**options: str) -> dict[str, object]:
    """With underscores for dots, as Python's keywords want them."""
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    arguments = consumer_arguments({**KAFKA, **named})
    return {name: each for name, each in arguments.items() if name not in READING}


def producer(**options: str) -> dict[str, object]:
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return producer_arguments({**KAFKA, **named})


def test_consumers_do_not_reset_commit_or_create_topics() -> None:
    arguments = consumer_arguments({**KAFKA, "subscribe": "t"})
    assert arguments == {"bootstrap_servers": "a:1,b:2", **READING}
    assert producer_arguments({**KAFKA, "topic": "t"}) == {"bootstrap_servers": "a:1,b:2"}


@pytest.mark.parametrize("arguments", [consumer_arguments, producer_arguments])
def test_bootstrap_servers_are_required(arguments: object) -> None:
    assert callable(arguments)
    with pytest.raises(KafkaConfigurationError, match=r"'kafka.bootstrap.servers' must be spec"):
        arguments({"subscribe": "t"})


def test_every_argument_exists() -> None:
    for table, face in ((CONSUMER_OPTIONS, AIOKafkaConsumer), (PRODUCER_OPTIONS, AIOKafkaProducer)):
        assert {name for name, _ in table.values()} <= set(inspect.signature(face).parameters)


def test_values_become_client_arguments() -> None:
    assert consumer(
        fetch_max_bytes="1000", check_crcs="False", isolation_level="READ_COMMITTED",
        connections_max_idle_ms="-1", client_rack="r",
    ) == {
        "bootstrap_servers": "a:1,b:2", "fetch_max_bytes": 1000, "check_crcs": False,
        "isolation_level": "read_committed", "connections_max_idle_ms": None, "client_rack": "r",
    }  # fmt: skip
    assert consumer(socket_connection_setup_timeout_max_ms="9")[
        "socket_connection_setup_timeout_max_ms"
    ] == 9  # fmt: skip
    assert producer(metadata_max_idle_ms="60000")["metadata_max_idle_ms"] == 60_000
    told = producer(acks="-1", compression_type="ZSTD", compression_zstd_level="3", linger_ms="5")
    del told["bootstrap_servers"]
    assert told == {
        "acks": "all", "compression_type": "zstd", "compression_level": 3, "linger_ms": 5
    }  # fmt: skip
    assert producer(acks="1")["acks"] == 1
    assert producer(compression_type="none")["compression_type"] is None
    assert "compression_level" not in producer(compression_type="lz4", compression_gzip_level="9")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("auto.offset.reset", "Instead set the source option 'startingOffsets'"),
        ("key.deserializer", "Use DataFrame operations to explicitly deserialize the keys"),
        ("value.deserializer", "deserialize the values"),
        ("enable.auto.commit", "is not supported"),
        ("interceptor.classes", "is not supported"),
        ("metric.reporters", "Java classes"),
        ("fetch.max.byte", "did you mean 'kafka.fetch.max.bytes'"),
        ("nonsense", "Kafka has no consumer option 'nonsense'"),
    ],
)
def test_options_that_readers_reject(name: str, words: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=re.escape(words)) as error:
        consumer_arguments({**KAFKA, f"kafka.{name}": "x"})
    assert f"'{name}'" in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("key.serializer", "x", "is not supported"),
        ("value.serializer", "x", "is not supported"),
        ("partitioner.class", "x", "the column 'partition'"),
        ("transactional.id", "x", "exactly_once"),
        ("interceptor.classes", "x", "Java classes"),
        ("retries", "0", "delivery.timeout.ms"),
        ("client.dns.lookup", "default", "should be use_all_dns_ips or resolve_canonical_boot"),
        ("metadata.recovery.strategy", "wait", "should be rebootstrap or none, not 'wait'"),
        ("linger.ms", "soon", "'linger.ms' should be a whole number"),
        ("enable.idempotence", "1", "'enable.idempotence' should be true or false"),
        ("linger", "1", "did you mean 'kafka.linger.ms'"),
    ],
)
def test_options_that_writers_reject(name: str, value: str, words: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=re.escape(words)):
        producer_arguments({**KAFKA, f"kafka.{name}": value})


def test_options_without_effect_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="aiokafka_lite.spark"):
        assert consumer(session_timeout_ms="1", max_poll_records="5", group_id="g") == consumer()
        assert producer(retries="3", metrics_num_samples="7") == producer()
        assert not caplog.records
        assert consumer(linger_ms="5") == consumer()  # the producer's, in one set for both
    assert [record.getMessage() for record in caplog.records] == [
        "Kafka option 'linger.ms' has no effect on a consumer"
    ]


def test_an_invalid_isolation_level_is_an_error() -> None:
    with pytest.raises(KafkaConfigurationError, match=r"isolation.level.*'committed'"):
        consumer(isolation_level="committed")


# SASL


def test_user_name_and_password() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    told = consumer(
        security_protocol="sasl_plaintext", sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=f"{module} required\n username='u' password=\"a\\\"b;=\\n\";",
    )  # fmt: skip
    assert told["security_protocol"] == "SASL_PLAINTEXT"
    assert told["sasl_mechanism"] == "SCRAM-SHA-512"
    assert told["sasl_plain_username"] == "u"
    assert told["sasl_plain_password"] == 'a"b;=\n'


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "GSSAPI (Kafka's default), which requires 'kafka.sasl.kerberos.service.name'"),
        ({"sasl_mechanism": "PLAIN"}, "'sasl.jaas.config' must be specified with PLAIN"),
        ({"sasl_mechanism": "NTLM"}, "should be one of PLAIN"),
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "must be specified with AWS_MSK_IAM"),
        (
            {"sasl_mechanism": "AWS_MSK_IAM", "sasl_jaas_config": IAM.format("awsRoleArn=a")},
            "'awsRoleArn', which is not supported",
        ),
        (
            {"sasl_mechanism": "GSSAPI", "sasl_jaas_config": PLAIN.format("")},
            "requires Krb5LoginModule",
        ),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN.format("")}, "name a 'password'"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN.format("x")[:-1]}, "semicolon"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN.format("x")}, "name=value"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN.format('x="')}, "not closed"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": "a.B maybe x=y;"}, "required"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": "a.B required; a.B required;"}, "one lo"),
        (
            {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": PLAIN.format("")},
            "requires Scram",
        ),
        ({"sasl_mechanism": "PLAIN", "sasl_login_class": "x"}, "Java class"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "token.endpoint.url' must be specified"),
    ],
)
def test_invalid_sasl_options_are_errors(options: dict[str, str], words: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=re.escape(words)):
        consumer(security_protocol="SASL_PLAINTEXT", **options)


def test_errors_contain_no_password() -> None:
    with pytest.raises(KafkaConfigurationError) as error:
        consumer(
            security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
            sasl_jaas_config=PLAIN.format('password "hush"'),
        )  # fmt: skip
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["hush required username=u;", "u=hush;", "hush", "x.Hush maybe;", "hush; hush; hush;"]
)
def test_no_password_where_a_login_module_should_be(text: str) -> None:
    with pytest.raises(KafkaConfigurationError) as error:
        consumer(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=text)
    assert "hush" not in str(error.value).lower()


@pytest.mark.parametrize(
    "url", ["me:hush@login", "https://me:hush@login/token", "https://[hush/", "ftp://x/hush", ""]
)
def test_errors_do_not_contain_the_token_endpoint(url: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=r"token\.endpoint\.url") as error:
        consumer(
            security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=url,
            sasl_oauthbearer_client_credentials_client_id="me",
            sasl_oauthbearer_client_credentials_client_secret="hush",
        )  # fmt: skip
    assert "hush" not in str(error.value)


def test_repr_contains_no_secret(tls_files: tuple[Path, Path]) -> None:
    """Objects may be printed in a query plan, a log or a traceback."""
    cert, key = (each.read_text() for each in tls_files)
    options = {
        "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": PLAIN.format('password="hush"'),
        "kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": cert,
        "kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.certificate.chain": cert,
        "kafka.ssl.keystore.key": key, "kafka.ssl.key.password": "hush",
    }  # fmt: skip
    arguments = consumer_arguments({**KAFKA, **options})
    assert arguments["sasl_plain_password"] == "hush"
    assert arguments["ssl_password"] == "hush"
    login = parse_jaas(options["kafka.sasl.jaas.config"])
    parsed = ReadOptions.parse({**KAFKA, **options, "subscribe": "t"}, streaming=True)
    for each in (ReadSettings(arguments), login, parsed):
        assert "hush" not in repr(each)
        assert "PRIVATE KEY" not in repr(each)


def test_delegation_token() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    told = consumer(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256",
        sasl_jaas_config=f'{module} required username=id password="aG1hYw==" tokenauth="true";',
    )  # fmt: skip
    assert {name: value for name, value in told.items() if name.startswith("sasl_")} == {
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "id",
        "sasl_plain_password": "aG1hYw==",
        "sasl_scram_tokenauth": True,
    }


async def test_kerberos_with_a_shipped_keytab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = consumer(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        sasl_kerberos_kinit_cmd="/usr/bin/kinit",
        sasl_jaas_config=(
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            'keyTab="./alice.keytab" principal="alice@EXAMPLE.COM" ;'
        ),
    )  # fmt: skip
    keytab = told["sasl_kerberos_keytab"]
    assert isinstance(keytab, ShippedFile)
    assert {name: value for name, value in told.items() if name.startswith("sasl_")} == {
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_principal": "alice@EXAMPLE.COM",
        "sasl_kerberos_keytab": ShippedFile("./alice.keytab"),
    }
    assert pickle.loads(pickle.dumps(keytab)) == keytab
    monkeypatch.chdir(tmp_path)
    assert os.fspath(keytab) == "./alice.keytab"  # not found: the error contains the original name
    pyspark = pytest.importorskip("pyspark")
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped/alice.keytab").write_bytes(b"keys")
    monkeypatch.setattr(
        pyspark.SparkFiles, "getRootDirectory", classmethod(lambda _: str(tmp_path / "shipped"))
    )
    assert os.fspath(keytab) == str(tmp_path / "shipped/alice.keytab")
    (tmp_path / "alice.keytab").write_bytes(b"keys")
    assert os.fspath(keytab) == "./alice.keytab"  # the working directory, as on YARN
    await AIOKafkaConsumer(**told).stop()  # type: ignore[arg-type]


def test_kerberos_with_a_ticket_cache() -> None:
    told = consumer(
        security_protocol="SASL_PLAINTEXT",
        sasl_jaas_config=(
            "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true "
            'ticketCache="/tmp/krb5cc_7" serviceName="brokers";'
        ),
    )  # fmt: skip
    assert told["sasl_kerberos_cache"] == "/tmp/krb5cc_7"
    assert told["sasl_kerberos_service_name"] == "brokers"


def test_aws_msk_iam() -> None:
    told = consumer(
        security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM",
        sasl_jaas_config=IAM.format(""),
        sasl_client_callback_handler_class="software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    )  # fmt: skip
    assert told["sasl_mechanism"] == "AWS_MSK_IAM"


def test_token_providers_can_be_pickled_and_compared() -> None:
    told = consumer(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://login.example/token",
        sasl_jaas_config=(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            "clientId=me clientSecret=hush scope=read extension_tenant=t1;"
        ),
    )  # fmt: skip
    provider = told["sasl_oauth_token_provider"]
    assert isinstance(provider, ClientCredentials)
    assert provider == ClientCredentials(
        "https://login.example/token", "me", "hush", "read", (("tenant", "t1"),)
    )
    assert provider.extensions() == {"tenant": "t1"}
    assert pickle.loads(pickle.dumps(provider)) == provider
    assert "hush" not in repr(provider)


# TLS


def test_tls_options_become_plain_arguments(tls_files: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = tls_files
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + cert.read_text())
    options = {
        "security_protocol": "SSL", "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(cert), "ssl_keystore_type": "pem",
        "ssl_keystore_location": str(both), "ssl_enabled_protocols": "TLSv1.3",
        "ssl_endpoint_identification_algorithm": "",
    }  # fmt: skip
    arguments = consumer(**options)
    assert arguments == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SSL",
        "ssl_cafile": str(cert),
        "ssl_certfile": str(both),
        "ssl_check_hostname": False,
        "ssl_enabled_protocols": ("TLSv1.3",),
    }
    there = pickle.loads(pickle.dumps(arguments))
    assert client_key(there) == client_key(arguments)


def test_tls_without_options_uses_the_system_s_authorities() -> None:
    expected = {"bootstrap_servers": "a:1,b:2", "security_protocol": "SSL"}
    assert consumer(security_protocol="SSL") == expected


def test_certificates_as_text(tls_files: tuple[Path, Path]) -> None:
    cert, key = (each.read_text() for each in tls_files)
    arguments = consumer(
        security_protocol="SASL_SSL", sasl_mechanism="PLAIN",
        sasl_jaas_config=PLAIN.format("password=p"), ssl_truststore_type="PEM",
        ssl_truststore_certificates=cert, ssl_keystore_type="PEM",
        ssl_keystore_certificate_chain=cert, ssl_keystore_key=key,
    )  # fmt: skip
    assert arguments["ssl_cadata"] == cert
    assert arguments["ssl_certfile"] == f"{key.strip()}\n{cert.strip()}\n"


@pytest.mark.parametrize("spelling", [str, lambda name: name.replace("_", ".")])
def test_the_clients_own_names_of_tls_options(
    spelling: Callable[[str], str], tls_files: tuple[Path, Path]
) -> None:
    cert, key = map(str, tls_files)
    given = {
        "ssl_cafile": cert, "ssl_certfile": cert, "ssl_keyfile": key, "ssl_password": "p",
        "ssl_check_hostname": "false", "ssl_ciphers": "ECDHE+AESGCM",
        "ssl_cadata": Path(cert).read_text(),
    }  # fmt: skip
    options = {f"kafka.{spelling(name)}": value for name, value in given.items()}
    arguments = producer_arguments({**KAFKA, "kafka.security.protocol": "SSL", **options})
    assert {name: arguments[name] for name in given} == {**given, "ssl_check_hostname": False}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ssl_truststore_location": "/x.jks"}, "Convert the store"),
        ({"ssl_keystore_type": "PKCS12"}, "Convert the store"),
        ({"ssl_truststore_type": "PEM", "ssl_truststore_password": "p"}, "cannot be set with"),
        ({"ssl_truststore_type": "PEM", "ssl_truststore_location": "/none.pem"}, "cannot be used"),
        ({"ssl_cipher_suites": "X"}, "specific to Java"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "should name TLSv1.2 and TLSv1.3"),
        ({"ssl_endpoint_identification_algorithm": "LDAPS"}, "should be 'https'"),
        ({"ssl_keystore_type": "PEM", "ssl_keystore_key": "k"}, "must be set together"),
        ({"ssl_check_hostname": "maybe"}, "should be true or false, not 'maybe'"),
        ({"ssl_check_hostname": "no", "ssl_endpoint_identification_algorithm": ""}, "exclusive"),
        (
            {"ssl_cafile": "a", "ssl_truststore_type": "PEM", "ssl_truststore_location": "b"},
            "'ssl.cafile' and 'ssl.truststore.location' are mutually exclusive",
        ),
    ],
)
def test_invalid_tls_options_are_errors(options: dict[str, str], words: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=re.escape(words)):
        consumer(security_protocol="SSL", **options)


def test_an_unknown_security_protocol_is_an_error() -> None:
    with pytest.raises(KafkaConfigurationError, match=r"security.protocol.*'TLS'"):
        consumer(security_protocol="TLS")
