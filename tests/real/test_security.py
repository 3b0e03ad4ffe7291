"""The secured listeners of the harness: Java's client connects with valid credentials only."""

from pathlib import Path

import pytest

from tools.kafka import KafkaCluster, Security
from tools.kafka.java import JavaFailed, JavaTools, Record

LOGIN = "org.apache.kafka.common.security"


def settings(listener: str, mechanism: str, security: Security, password: str) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "security.protocol": listener,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.ca_file),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{LOGIN}.{module} required username="alice" password="{password}";',
    }


@pytest.mark.long
def test_java_connects_to_every_listener() -> None:
    security = Security()
    with KafkaCluster(security=security) as cluster:
        assert security.client_certificate.is_file()
        assert security.client_key.is_file()
        cluster.create_topic("guarded")
        for number, (listener, mechanism) in enumerate(
            [("SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "PLAIN")]
        ):
            chosen = settings(listener, mechanism, security, "alice-secret")
            java = JavaTools(cluster.bootstrap_of(listener), settings=chosen)
            assert java.load("guarded", [Record(value=listener.encode())]) == [number]
        assert [record.value for record in java.dump("guarded")] == [
            b"SSL",
            b"SASL_PLAINTEXT",
            b"SASL_SSL",
        ]
        wrong = settings("SASL_PLAINTEXT", "SCRAM-SHA-512", security, "guessed")
        java = JavaTools(cluster.bootstrap_of("SASL_PLAINTEXT"), settings=wrong)
        with pytest.raises(JavaFailed, match="Authentication failed"):
            java.load("guarded", [Record(value=b"refused")])
        folder = security.folder
    assert folder != Path()
    assert not folder.exists()
