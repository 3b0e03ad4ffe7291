"""A Kerberos KDC (MIT's krb5kdc) on loopback, which needs no root privileges, and a Kafka for it.

The realm is KAFKA.TEST. Principals get random keys, which are in keytab files.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.kafka import KafkaCluster, Security
from tools.kafka.broker import free_ports

REALM = "KAFKA.TEST"
LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
BROKER = "kafka/localhost"
"""The brokers' principal."""
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
SYSTEM_FOLDERS = "/usr/sbin:/sbin:/usr/lib/mit/sbin"
"""Where distributions install the programs; often not in PATH."""


def find_program(name: str) -> str | None:
    """Return the path of a Kerberos program; None if it is not installed."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":" + SYSTEM_FOLDERS)


def missing_programs() -> list[str]:
    """The programs that are not installed (Debian: krb5-kdc, krb5-admin-server)."""
    return [name for name in PROGRAMS if find_program(name) is None]


class Kdc:
    """A KDC, as a context manager; while it is up, KRB5_CONFIG of this process refers to it.

    Args:
        folder: An empty folder for its database and keytabs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._environment: dict[str, str] = {}
        self._before: str | None = None

    @property
    def config(self) -> Path:
        """krb5.conf, for clients and for Java."""
        return self.folder / "krb5.conf"

    def keytab(self, principal: str) -> Path:
        """The keytab of a principal given to `add`."""
        return self.folder / f"{principal.replace('/', '-')}.keytab"

    def short_tickets(self, seconds: int) -> Path:
        """Write another krb5.conf, whose clients request tickets with this lifetime."""
        path = self.folder / f"krb5-{seconds}.conf"
        path.write_text(
            self.config.read_text().replace(
                "[libdefaults]", f"[libdefaults]\n ticket_lifetime = {seconds}"
            )
        )
        return path

    def logins(self, principal: str) -> int:
        """The number of initial tickets that a principal got."""
        log = (self.folder / "kdc.log").read_text()
        return sum(
            "AS_REQ" in line and "ISSUE" in line and f"{principal}@{REALM} for krbtgt" in line
            for line in log.splitlines()
        )

    def __enter__(self) -> Self:
        (self.port,) = free_ports(1)  # which nobody takes while the server is stopped
        self._write_configuration()
        self._environment = {
            **os.environ,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
        }
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self.start()
        self._before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = str(self.config)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._before is None:
            del os.environ["KRB5_CONFIG"]
        else:
            os.environ["KRB5_CONFIG"] = self._before

    def start(self) -> None:
        """Start the server and wait until it listens."""
        program = find_program("krb5kdc")
        assert program is not None
        with (self.folder / "kdc.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-n", "-P", str(self.folder / "pid")],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 30
        while True:
            assert self._process.poll() is None, (self.folder / "kdc.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
            except OSError:
                assert time.monotonic() < deadline, "krb5kdc does not listen"
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop the server; its database stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def add(self, *principals: str) -> None:
        """Create principals and their keytabs."""
        for principal in principals:
            self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-q", f"ktadd -k {self.keytab(principal)} {principal}")

    def _run(self, program: str, *arguments: str) -> None:
        path = find_program(program)
        assert path is not None
        command: Sequence[str] = (path, *arguments)
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def _write_configuration(self) -> None:
        self.config.write_text(
            f"""\
[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{self.port}
 }}
[dbmodules]
 {REALM} = {{
  db_library = db2
  database_name = {self.folder}/principal
 }}
[logging]
 kdc = FILE:{self.folder}/kdc.log
"""
        )
        (self.folder / "kdc.conf").write_text(
            f"""\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{self.port}
 kdc_tcp_listen = 127.0.0.1:{self.port}
[realms]
 {REALM} = {{
  database_name = {self.folder}/principal
  key_stash_file = {self.folder}/stash
  acl_file = {self.folder}/acl
  supported_enctypes = aes256-cts:normal
 }}
"""
        )


def kerberos_cluster(kdc: Kdc, session_ms: int = 0) -> KafkaCluster:
    """A cluster with GSSAPI on its listener SASL_PLAINTEXT, at localhost.

    Args:
        kdc: Its KDC, which is running and has the principal `BROKER`.
        session_ms: Session lifetime; 0 for no limit.
    """
    listener = "listener.name.sasl_plaintext"
    login = (
        f"{LOGIN_MODULE} required useKeyTab=true storeKey=true doNotPrompt=true "
        f'keyTab="{kdc.keytab(BROKER)}" principal="{BROKER}@{REALM}";'
    )
    config = {
        f"{listener}.sasl.enabled.mechanisms": "GSSAPI",
        f"{listener}.gssapi.sasl.jaas.config": login,
        "sasl.kerberos.service.name": "kafka",
        "connections.max.reauth.ms": session_ms,
    }
    return KafkaCluster(
        config=config,
        security=Security(("SASL_PLAINTEXT",), {}, host="localhost"),
        jvm_options=[f"-Djava.security.krb5.conf={kdc.config}"],
    )
