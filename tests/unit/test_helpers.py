"""`create_ssl_context` verifies by default and rejects a key without a certificate."""

import ssl
from pathlib import Path

import pytest

from aiokafka_lite.helpers import create_ssl_context


def test_verifies_certificate_and_host_name() -> None:
    context = create_ssl_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_loads_authority_and_client_certificate(tls_files: tuple[Path, Path]) -> None:
    certfile, keyfile = tls_files
    context = create_ssl_context(cafile=certfile, certfile=certfile, keyfile=keyfile)
    assert len(context.get_ca_certs()) == 1
    by_text = create_ssl_context(cadata=certfile.read_text())
    assert len(by_text.get_ca_certs()) == 1


def test_key_without_certificate(tls_files: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="certfile"):
        create_ssl_context(keyfile=tls_files[1])


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"(?i)no such file"):
        create_ssl_context(cafile=tmp_path / "none.pem")
