"""Contexts from files and PEM text, and an error for each way in which a file is unusable."""

import re
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.tls import tls_options as module
from aiokafka_lite.net.tls.expiry import expiry
from aiokafka_lite.net.tls.tls_options import TlsOptions, file_versions, own_expiry, tls_options
from tests.certificates import Authority, Certificate


def load(**arguments: Any) -> ssl.SSLContext:
    return tls_options({f"ssl_{name}": value for name, value in arguments.items()}).load().context


def test_defaults_verify_the_broker_and_use_tls_1_2_or_newer() -> None:
    context = load()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3


def test_defaults_trust_the_system_s_authorities() -> None:
    expected = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    expected.load_default_certs()
    assert load().cert_store_stats() == expected.cert_store_stats()


def test_authorities_come_from_a_file_text_or_both(
    authority: Authority, stranger: Authority
) -> None:
    text = stranger.cert.read_text()
    assert load(cafile=str(authority.cert)).cert_store_stats()["x509"] == 1
    assert load(cafile=authority.cert).cert_store_stats()["x509"] == 1
    assert load(cafile=text).cert_store_stats()["x509"] == 1
    assert load(cafile=authority.cert, cadata=text).cert_store_stats()["x509"] == 2
    der = ssl.PEM_cert_to_DER_cert(text)
    assert load(cadata=der).cert_store_stats()["x509"] == 1


def test_text_between_certificates_is_ignored(authority: Authority, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(f"# Autoridad de Certificación\n{authority.cert.read_text()}\nend")
    assert load(cafile=bundle).cert_store_stats()["x509"] == 1


def test_own_certificate_comes_from_files_text_or_one_file(
    client: Certificate, tmp_path: Path
) -> None:
    cert, key = client.cert.read_text(), client.key.read_text()
    both = tmp_path / "both.pem"
    both.write_text(key + cert)
    load(certfile=client.cert, keyfile=client.key)
    load(certfile=cert, keyfile=key)
    load(certfile=client.cert, keyfile=key)
    load(certfile=both)
    load(certfile=cert + key)


def test_key_can_be_encrypted(encrypted: Certificate) -> None:
    load(certfile=encrypted.cert, keyfile=encrypted.key, password="hush")
    load(certfile=encrypted.cert, keyfile=encrypted.key.read_text(), password=b"hush")


def test_key_is_loaded_without_proc(
    client: Certificate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module.os.path, "exists", lambda path: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    load(certfile=client.cert, keyfile=client.key)
    assert list(tmp_path.iterdir()) == []  # the temporary file is gone


def test_other_options_are_applied() -> None:
    context = load(check_hostname=False, enabled_protocols="TLSv1.2", ciphers="AES128-GCM-SHA256")
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert "AES128-GCM-SHA256" in {each["name"] for each in context.get_ciphers()}
    assert load(enabled_protocols=["TLSv1.3"]).minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"cafile": 3}, TypeError, "`ssl_cafile` should be a path or PEM text, not int"),
        ({"cafile": ""}, KafkaConfigurationError, "`ssl_cafile` is empty"),
        ({"cadata": 3}, TypeError, "`ssl_cadata` should be str or bytes, not int"),
        ({"password": 3}, TypeError, "`ssl_password` should be str or bytes, not int"),
        ({"ciphers": b"x"}, TypeError, "`ssl_ciphers` should be str, not bytes"),
        ({"check_hostname": "no"}, TypeError, "`ssl_check_hostname` should be a bool"),
        ({"keyfile": "k.pem"}, KafkaConfigurationError, "`ssl_keyfile` requires `ssl_certfile`"),
        ({"password": "p"}, KafkaConfigurationError, "`ssl_certfile`, which is not set"),
        ({"enabled_protocols": "TLSv1.1"}, KafkaConfigurationError, "not TLSv1.1"),
        ({"enabled_protocols": ()}, KafkaConfigurationError, "not none"),
        ({"enabled_protocols": 12}, TypeError, "`ssl_enabled_protocols` should be a list of str"),
        ({"enabled_protocols": [12]}, KafkaConfigurationError, "not 12"),
        ({"ciphers": "none at all"}, KafkaConfigurationError, "knows none of 'none at all'"),
        ({"cafile": "/none/ca.pem"}, KafkaConfigurationError,
            "`ssl_cafile` '/none/ca.pem' cannot be read: No such file or directory"),
        ({"cafile": "/"}, KafkaConfigurationError, "`ssl_cafile` '/' cannot be read: Is a dir"),
        ({"cafile": "a\0b"}, KafkaConfigurationError, "cannot be read: embedded null"),
        ({"cadata": "nothing"}, KafkaConfigurationError, "`ssl_cadata` has no PEM certificate"),
        ({"cadata": b"nothing"}, KafkaConfigurationError, "`ssl_cadata` has an invalid cert"),
        ({"cafile": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"},
            KafkaConfigurationError, "`ssl_cafile` has an invalid certificate"),
    ],
)  # fmt: skip
def test_unusable_options_are_errors(
    arguments: dict[str, object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        load(**arguments)


def test_unusable_keys_are_errors(
    client: Certificate, encrypted: Certificate, broker: Certificate, der: Path, tmp_path: Path
) -> None:
    jks = tmp_path / "store.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    large = tmp_path / "large.pem"
    with open(large, "wb") as file:
        file.truncate(17 * 1024 * 1024)
    damaged = tmp_path / "damaged.key"
    damaged.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for certfile, keyfile, password, words in (
        (client.cert, broker.key, None, "does not belong to the certificate in `ssl_certfile`"),
        (encrypted.cert, encrypted.key, None, "is encrypted: pass `ssl_password`"),
        (encrypted.cert, encrypted.key, "guessed", "`ssl_password` does not decrypt"),
        (encrypted.cert, encrypted.key, "x" * 2000, "`ssl_password` does not decrypt"),
        (client.cert, None, None, "has no PEM private key: pass the key as `ssl_keyfile`"),
        (client.cert, client.cert, None, f"`ssl_keyfile` '{client.cert}' has no PEM private key"),
        (client.key, None, None, "has no PEM certificate"),
        (client.cert, "/none.key", None, "`ssl_keyfile` '/none.key' cannot be read"),
        (client.cert, damaged, None, "is invalid"),
        (der, None, None, "it is PKCS12 or DER; convert it"),
        (jks, None, None, "it is a Java key store; convert it"),
        (large, None, None, "is larger than 16 MiB"),
    ):
        with pytest.raises(KafkaConfigurationError, match=re.escape(words)) as caught:
            load(certfile=certfile, keyfile=keyfile, password=password)
        assert "guessed" not in str(caught.value)


def test_repr_contains_no_key_and_no_password() -> None:
    options = TlsOptions(certfile="c.pem", keyfile="-----BEGIN PRIVATE KEY-----", password="hush")
    assert "hush" not in repr(options)
    assert "PRIVATE" not in repr(options)
    both = TlsOptions(certfile="-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----hush")
    assert "hush" not in repr(both)


def test_a_file_s_version_changes_with_its_content(tmp_path: Path) -> None:
    path, other = tmp_path / "a.pem", tmp_path / "b.pem"
    path.write_text("one")
    before = file_versions([str(path)])
    assert before[str(path)] is not None
    assert file_versions([str(path)]) == before
    other.write_text("two")
    other.replace(path)
    assert file_versions([str(path)]) != before
    path.unlink()
    assert file_versions([str(path)]) == {str(path): None}


def test_expiry_is_read_from_a_certificate(
    expired: Certificate, client: Certificate, authority: Authority
) -> None:
    assert expiry(expired.cert.read_text()) == datetime(2021, 2, 3, 4, 5, 6, tzinfo=UTC)
    far = authority.issue("far", expires="20600203040506Z")
    assert expiry(far.cert.read_text()) == datetime(2060, 2, 3, 4, 5, 6, tzinfo=UTC)
    valid = expiry(client.cert.read_text())
    assert valid is not None
    assert valid > datetime.now(UTC)
    loaded = TlsOptions(certfile=str(expired.cert), keyfile=str(expired.key)).load()
    assert own_expiry(loaded) == " expired on 2021-02-03 04:05:06 UTC"
    loaded = TlsOptions(certfile=str(client.cert), keyfile=str(client.key)).load()
    assert own_expiry(loaded) == own_expiry(TlsOptions().load()) == ""


def test_expiry_of_a_damaged_certificate_is_unknown(client: Certificate) -> None:
    pem = client.cert.read_text()
    der = ssl.PEM_cert_to_DER_cert(pem)
    assert expiry("") is None
    for cut in range(0, len(der), 7):
        damaged = bytearray(der)
        damaged[cut] ^= 0xFF
        for data in (der[:cut], bytes(damaged)):
            found = expiry(ssl.DER_cert_to_PEM_cert(data))
            assert found is None or isinstance(found, datetime)
