"""Changed files are loaded for the next connection; broken ones leave the last good context."""

import asyncio
import errno
import logging
import os
import shutil
import ssl
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from aiokafka_lite._threads import NoThreadError, lookup_threads
from aiokafka_lite.net.tls import tls_contexts as module
from aiokafka_lite.net.tls import tls_options
from aiokafka_lite.net.tls.tls_contexts import TlsContexts
from aiokafka_lite.net.tls.tls_options import FileVersion, TlsOptions, file_versions
from tests.certificates import Authority, Certificate


def install(source: Path, target: Path) -> None:
    """Replace a file at once, as certificate agents do."""
    fresh = target.with_suffix(".new")
    shutil.copy(source, fresh)
    os.replace(fresh, target)


@pytest.fixture
def files(tmp_path: Path, authority: Authority, client: Certificate) -> TlsOptions:
    for source, name in ((authority.cert, "ca"), (client.cert, "cert"), (client.key, "key")):
        install(source, tmp_path / f"{name}.pem")
    paths = (str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key"))
    cafile, certfile, keyfile = paths
    return TlsOptions(cafile=cafile, certfile=certfile, keyfile=keyfile)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def test_unchanged_files_keep_their_context(files: TlsOptions) -> None:
    contexts = TlsContexts(files, "c")
    first = await contexts.current()
    assert await contexts.current() is first


async def test_changed_files_make_a_new_context(
    files: TlsOptions, tmp_path: Path, stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "aiokafka_lite")
    contexts = TlsContexts(files, "c")
    first = await contexts.current()
    install(stranger.cert, tmp_path / "ca.pem")
    second = await contexts.current()
    assert second is not first
    [trusted] = second.get_ca_certs()  # without the previous one
    assert dict(pair for (pair,) in trusted["subject"])["commonName"] == "another-ca"
    assert "c: loaded the changed TLS files" in caplog.text
    assert await contexts.current() is second


async def test_a_symbolic_link_to_another_folder_is_noticed(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    """Kubernetes replaces mounted secrets this way."""
    for name, source in (("one", authority), ("two", stranger)):
        (tmp_path / name).mkdir()
        shutil.copy(source.cert, tmp_path / name / "ca.pem")
    (tmp_path / "data").symlink_to(tmp_path / "one")
    contexts = TlsContexts(TlsOptions(cafile=str(tmp_path / "data" / "ca.pem")), "c")
    first = await contexts.current()
    (tmp_path / "fresh").symlink_to(tmp_path / "two")
    os.replace(tmp_path / "fresh", tmp_path / "data")
    assert await contexts.current() is not first


async def test_broken_files_keep_the_context_and_warn_once(
    files: TlsOptions,
    tmp_path: Path,
    broker: Certificate,
    client: Certificate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    contexts = TlsContexts(files, "c")
    first = await contexts.current()
    install(broker.cert, tmp_path / "cert.pem")  # the key is still the old one
    for _ in range(3):
        assert await contexts.current() is first
    [warning] = warnings(caplog)
    assert "does not belong to the certificate in `ssl_certfile`" in warning
    assert str(tmp_path / "key.pem") in warning
    install(broker.key, tmp_path / "key.pem")
    second = await contexts.current()
    assert second is not first
    os.unlink(tmp_path / "key.pem")
    for _ in range(3):
        assert await contexts.current() is second
    assert len(warnings(caplog)) == 2
    assert "No such file" in warnings(caplog)[1]


async def test_a_file_that_becomes_readable_is_loaded(
    files: TlsOptions,
    tmp_path: Path,
    stranger: Authority,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its version does not show a change of owner or mode, as after `cp` and `chown`."""
    monkeypatch.setattr(module, "LONGEST_WAIT", 60.0)
    contexts = TlsContexts(files, "c")
    first = await contexts.current()
    install(stranger.cert, tmp_path / "ca.pem")

    def refuse(path: str, mode: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patched:
        patched.setattr(tls_options, "open", refuse, raising=False)
        for _ in range(2):
            assert await contexts.current() is first
    [warning] = warnings(caplog)
    assert "ca.pem' cannot be read: Permission denied" in warning
    assert await contexts.current() is not first


async def test_concurrent_attempts_load_the_files_once(
    files: TlsOptions, tmp_path: Path, stranger: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = TlsContexts(files, "c")
    loads = []
    load = TlsOptions.load

    def counted(self: TlsOptions) -> object:
        loads.append(threading.current_thread())
        return load(self)

    monkeypatch.setattr(TlsOptions, "load", counted)
    install(stranger.cert, tmp_path / "ca.pem")
    found = await asyncio.gather(*(contexts.current() for _ in range(20)))
    assert len(set(map(id, found))) == 1
    assert len(loads) == 1
    assert loads[0] is not threading.current_thread()


async def test_files_that_change_during_another_attempt_are_used(
    files: TlsOptions, tmp_path: Path, stranger: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = TlsContexts(files, "c")
    old = await contexts.current()
    looked, changed = threading.Event(), threading.Event()
    monkeypatch.setattr(module, "LONGEST_WAIT", 60.0)

    def held(paths: Iterable[str]) -> dict[str, FileVersion | None]:
        found = file_versions(paths)
        looked.set()
        assert changed.wait(60)
        return found

    monkeypatch.setattr(module, "file_versions", held)
    earlier = asyncio.create_task(contexts.current())
    assert await asyncio.to_thread(looked.wait, 60)
    install(stranger.cert, tmp_path / "ca.pem")
    later = asyncio.create_task(contexts.current())
    await asyncio.sleep(0)  # it waits for the check that began before the change
    changed.set()
    assert await earlier is old
    assert await later is not old


async def test_files_that_hang_do_not_delay_connections_for_long(
    files: TlsOptions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = TlsContexts(files, "c")
    first = await contexts.current()
    answered = threading.Event()
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.05)
    monkeypatch.setattr(module, "file_versions", lambda paths: answered.wait(60))
    try:
        assert await contexts.current() is first
        assert await contexts.current() is first
    finally:
        answered.set()
    assert "reading them takes longer than" in warnings(caplog)[0]
    assert len(warnings(caplog)) == 1


async def test_no_thread_keeps_the_context(
    files: TlsOptions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = TlsContexts(files, "c")
    first = await contexts.current()

    def refuse(*args: object) -> asyncio.Future[None]:
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refused.set_exception(NoThreadError("can't start new thread"))
        return refused

    monkeypatch.setattr(lookup_threads, "run", refuse)
    assert await contexts.current() is first
    await asyncio.sleep(0)
    assert "can't start new thread" in warnings(caplog)[0]


async def test_text_needs_no_thread(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("a thread was used")

    contexts = TlsContexts(TlsOptions(cafile=authority.cert.read_text()), "c")
    monkeypatch.setattr(lookup_threads, "run", refuse)
    assert isinstance(await contexts.current(), ssl.SSLContext)


async def test_an_expired_client_certificate_is_logged(
    expired: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    contexts = TlsContexts(TlsOptions(certfile=str(expired.cert), keyfile=str(expired.key)), "c")
    assert "c: the client certificate expired on 2021-02-03 04:05:06 UTC" in warnings(caplog)[0]
    assert contexts.own_expiry
    assert "key" not in repr(TlsContexts(TlsOptions(certfile=expired.cert.read_text()
        + expired.key.read_text()), "c"))  # fmt: skip
