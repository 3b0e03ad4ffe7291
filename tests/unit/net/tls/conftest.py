from pathlib import Path

import pytest

from tests.certificates import Authority, Certificate


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture(scope="package")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An untrusted authority."""
    return Authority(tmp_path_factory.mktemp("stranger") / "ca", "another-ca")


@pytest.fixture(scope="package")
def client(authority: Authority) -> Certificate:
    return authority.issue("client")


@pytest.fixture(scope="package")
def encrypted(authority: Authority) -> Certificate:
    return authority.issue("encrypted", password="hush")


@pytest.fixture(scope="package")
def expired(authority: Authority) -> Certificate:
    return authority.issue("expired", expires="210203040506Z")


@pytest.fixture(scope="package")
def broker(authority: Authority) -> Certificate:
    return authority.issue("broker")


@pytest.fixture
def der(tmp_path: Path) -> Path:
    path = tmp_path / "store.p12"
    path.write_bytes(b"\x30\x82\x01\x00")
    return path
