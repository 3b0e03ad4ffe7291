"""TLS and SASL listeners in addition to the plain one, with new certificates and given users.

The `openssl` program creates the certificates: a CA, and signed by it one for the brokers and one
for a client, both valid for `localhost` and 127.0.0.1.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.kafka.jars import KafkaNotAvailable

_LISTENERS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN = "org.apache.kafka.common.security"


@dataclass
class Security:
    """The secured listeners of a cluster.

    Attributes:
        listeners: Any of `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`.
        users: Password by name, for PLAIN and for SCRAM-SHA-256 and -512.
        client_auth: True if TLS clients must present a certificate.
        host: Name that these listeners advertise, for what depends on names, such as Kerberos.
        folder: The folder of the certificates, once the cluster is up.
    """

    listeners: tuple[str, ...] = _LISTENERS
    users: Mapping[str, str] = field(default_factory=lambda: {"alice": "alice-secret"})
    client_auth: bool = False
    host: str = "127.0.0.1"
    folder: Path = Path()

    def __post_init__(self) -> None:
        unknown = set(self.listeners) - set(_LISTENERS)
        if unknown:
            raise ValueError(f"unknown listeners: {', '.join(sorted(unknown))}")

    @property
    def ca_file(self) -> Path:
        """The CA that signed both certificates, PEM."""
        return self.folder / "ca.pem"

    @property
    def client_certificate(self) -> Path:
        """The client's certificate, PEM."""
        return self.folder / "client.pem"

    @property
    def client_key(self) -> Path:
        """The client's unencrypted private key, PEM."""
        return self.folder / "client.key"

    def settings(self, cluster_folder: Path) -> dict[str, object]:
        """Create the certificates in `cluster_folder` and return the broker settings for them.

        Raises:
            KafkaNotAvailable: The `openssl` program is missing.
        """
        settings: dict[str, object] = {}
        if any(name.endswith("SSL") for name in self.listeners):
            self.folder = cluster_folder / "tls"
            self._make_certificates()
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.folder / "broker-with-key.pem",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.ca_file,
                "ssl.client.auth": "required" if self.client_auth else "none",
            }
        if any(name.startswith("SASL") for name in self.listeners):
            settings["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
            for listener in self.listeners:
                if listener.startswith("SASL"):
                    settings |= self._logins(listener)
        return settings

    def format_arguments(self) -> list[str]:
        """The arguments of StorageTool that create the SCRAM users."""
        if not any(name.startswith("SASL") for name in self.listeners):
            return []
        return [
            argument
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for name, password in self.users.items()
            for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]

    def _logins(self, listener: str) -> dict[str, object]:
        prefix = f"listener.name.{listener.lower()}"
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        plain = f"{_LOGIN}.plain.PlainLoginModule required {users};"
        scram = f"{_LOGIN}.scram.ScramLoginModule required;"
        return {
            f"{prefix}.plain.sasl.jaas.config": plain,
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
        }

    def _make_certificates(self) -> None:
        self.folder.mkdir()
        key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        self._openssl(
            f"req -x509 {key} -days 30 -subj /CN=test-ca -keyout ca.key -out ca.pem "
            "-addext keyUsage=critical,keyCertSign"
        )
        extensions = self.folder / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        for name in ("broker", "client"):
            self._openssl(f"req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr")
            self._openssl(
                f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 "
                f"-extfile extensions -out {name}.pem"
            )
        both = (self.folder / "broker.key").read_text() + (self.folder / "broker.pem").read_text()
        (self.folder / "broker-with-key.pem").write_text(both)

    def _openssl(self, arguments: str) -> None:
        try:
            done = subprocess.run(
                ["openssl", *arguments.split()],
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=60,
            )
        except FileNotFoundError:
            raise KafkaNotAvailable(
                "openssl is not installed (it makes the certificates)"
            ) from None
        if done.returncode:
            raise RuntimeError(f"openssl {arguments.split()[0]} failed: {done.stderr.strip()}")
