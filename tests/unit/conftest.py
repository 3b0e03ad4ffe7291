"""Fixtures and hooks shared by several folders of unit tests."""

import asyncio
import gc
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from aiokafka_lite._threads import ThreadPool
from aiokafka_lite.net import dial
from aiokafka_lite.testing.server import broker_server
from tests.fair_loop import new_loop
from tests.jumping_loop import JUMPS
from tests.local_sockets import LOCAL_SOCKETS, local_sockets
from tests.skipping_loop import SkippingLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The default loop, or one that skips idle time; folders with uvloop override this hook."""
    if item.get_closest_marker("unhurried") and JUMPS not in os.environ:
        return {"asyncio": lambda: SkippingLoop(delay=0) if LOCAL_SOCKETS else SkippingLoop()}
    # A real broker uses wall-clock time, so its clients must, too.
    real = item.get_closest_marker("real") or "kafka" in getattr(item, "fixturenames", ())
    return {"asyncio": asyncio.new_event_loop if real else new_loop}


def _refuse(*_: object) -> NoReturn:
    pytest.fail("a file marked `unhurried` uses another thread, whose work takes no time there")


@pytest.fixture(autouse=True)
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Deliver at once where idle time is skipped: the loop must skip neither deliveries nor
    work."""
    if request.node.get_closest_marker("unhurried") and LOCAL_SOCKETS:
        monkeypatch.setattr(ThreadPool, "run", _refuse)
        with local_sockets(dial, broker_server):
            yield
    else:
        yield


def _of_package(each: object) -> bool:
    module = str(type(each).__module__)
    return module.startswith("aiokafka_lite.") and not module.startswith("aiokafka_lite.testing")


@pytest.fixture
def package_objects() -> Callable[[], list[object]]:
    """Returns all objects of this package's classes, except for the embedded broker's."""
    gc.collect()  # clients of other tests, whose event loops are closed
    gc.unfreeze()  # objects from before the first test: tests/conftest.py
    before = [each for each in gc.get_objects() if _of_package(each)]
    gc.freeze()
    return lambda: [*before, *(each for each in gc.get_objects() if _of_package(each))]


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
