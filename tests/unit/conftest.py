"""Fixtures and hooks shared by several folders of unit tests."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fair_loop import new_loop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The default loop; folders that also run on uvloop override it."""
    # A real broker uses wall-clock time, so its clients must, too.
    real = item.get_closest_marker("real") or "kafka" in getattr(item, "fixturenames", ())
    return {"asyncio": asyncio.new_event_loop if real else new_loop}


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key, made by the openssl command."""
    folder = tmp_path_factory.mktemp("tls")
    certfile, keyfile = folder / "cert.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", str(keyfile), "-out", str(certfile)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return certfile, keyfile
