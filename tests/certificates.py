"""Certificates for tests: an authority, and the certificates that it signs, made by `openssl`."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
LOCAL: Final = "DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and its private key, both PEM."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority with its own folder for its files.

    Args:
        folder: Created if missing. If it contains the files of an authority, that one is used.
        name: The common name of a new authority.
        key_usage: False omits the extension that RFC 5280 requires, as old authorities do.
    """

    def __init__(self, folder: Path, name: str = "test-ca", *, key_usage: bool = True) -> None:
        self.folder = folder
        self.cert = folder / "ca.pem"
        self._issued = 0
        if (folder / "ca.key").exists():
            return
        folder.mkdir(parents=True)
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign") if key_usage else ()
        self._openssl(
            "req", "-x509", *KEY, "-nodes", "-days", "30", "-subj", f"/CN={name}",
            *usage, "-keyout", "ca.key", "-out", "ca.pem",
        )  # fmt: skip

    def issue(
        self,
        name: str = "client",
        *,
        hosts: str = LOCAL,
        expires: str | None = None,
        password: str | None = None,
    ) -> Certificate:
        """Make a key and a signed certificate.

        Args:
            name: The common name.
            hosts: The subject alternative names.
            expires: A date as YYMMDDHHMMSSZ; None: in 30 days.
            password: Encrypts the key.
        """
        self._issued += 1
        base = f"{self._issued}-{name}"
        extensions = self.folder / f"{base}.ext"
        extensions.write_text(f"subjectAltName={hosts}\nbasicConstraints=CA:FALSE\n")
        protect = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
        self._openssl(
            "req", *KEY, *protect, "-subj", f"/CN={name}", "-keyout", f"{base}.key",
            "-out", f"{base}.csr",
        )  # fmt: skip
        if expires is None:
            self._openssl(
                "x509", "-req", "-in", f"{base}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "30", "-extfile", extensions.name,
                "-out", f"{base}.pem",
            )  # fmt: skip
        else:
            (self.folder / "index.txt").write_text("")
            (self.folder / "ca.conf").write_text(
                "[ca]\ndefault_ca=own\n[own]\ndir=.\ndatabase=index.txt\nnew_certs_dir=.\n"
                "serial=own.srl\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n"
            )
            (self.folder / "own.srl").write_text(f"{self._issued:04x}")
            self._openssl(
                "ca", "-batch", "-config", "ca.conf", "-cert", "ca.pem", "-keyfile", "ca.key",
                "-in", f"{base}.csr", "-extfile", extensions.name, "-notext",
                "-startdate", "200101000000Z", "-enddate", expires, "-out", f"{base}.pem",
            )  # fmt: skip
        return Certificate(self.folder / f"{base}.pem", self.folder / f"{base}.key")

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
