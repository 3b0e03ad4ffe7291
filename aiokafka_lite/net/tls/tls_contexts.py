"""The TLS context of a client's connections, recreated when its files change.

Certificates that live for hours are replaced on disk while a client runs. So each connection
attempt compares the files' identities and, if one changed, creates a new context in a thread. The
new context replaces the old one only if it was loaded completely: a failed load leaves a context
without its certificate. Loading into the old context would keep authorities that were removed. Open
connections keep their session.
"""

import asyncio
import logging
import ssl
from typing import Final

from aiokafka_lite._threads import NoThreadError, lookup_threads
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.net.tls.tls_options import (
    FileVersion,
    Loaded,
    TlsOptions,
    file_versions,
    own_expiry,
    unreadable,
)

log = logging.getLogger(__name__)

LONGEST_WAIT: Final = 1.0
"""Seconds that a connection attempt waits for the files, which may be on a hung network drive."""


class TlsContexts:
    """Makes the contexts; one object serves all connections of a client.

    Args:
        options: The options; the files are read at once, which blocks for some milliseconds.
        name: The client's name in log lines.

    Raises:
        KafkaConfigurationError: A file cannot be read or used; the message names it.
    """

    def __init__(self, options: TlsOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._loaded = options.load()
        self._refused: dict[str, FileVersion | None] | None = None  # that could not be loaded
        self._complaint: str | None = None  # the last warning; None while the files are good
        self._looking: asyncio.Future[Loaded | None] | None = None
        self._warn_of_expiry()

    async def current(self) -> ssl.SSLContext:
        """Return the context for a new connection, made from the current files.

        If they cannot be used, it is the last good one, and a warning says why, once.

        Cancellation: safe; a load that has started continues.
        """
        if self._options.paths:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + LONGEST_WAIT
            earlier = self._looking
            if earlier is not None and earlier.get_loop() is loop:
                # It may have read the files before the latest change.
                await asyncio.wait([earlier], timeout=LONGEST_WAIT)
            looking = self._looking
            if looking is None or looking.get_loop() is not loop:
                looking = lookup_threads.run(loop, self._look)
                looking.add_done_callback(self._on_looked)
                self._looking = looking
            await asyncio.wait([looking], timeout=max(0.0, deadline - loop.time()))
            if not looking.done():
                self._complain(f"reading them takes longer than {LONGEST_WAIT:g} s")
        return self._loaded.context

    @property
    def own_expiry(self) -> str:
        """The text " expired on DATE" if the client's certificate has expired, else ""."""
        return own_expiry(self._loaded)

    def __repr__(self) -> str:
        return f"<TlsContexts of {', '.join(self._options.paths) or 'text'}>"

    def _look(self) -> Loaded | None:
        """Load the files if they changed; runs in a thread."""
        present = file_versions(self._options.paths)
        if present in (self._loaded.versions, self._refused):
            return None
        try:
            return self._options.load()
        except KafkaConfigurationError as error:
            # A file that cannot be read may be readable next time with the same version: the
            # version does not reflect a change of owner or mode, or a shortage of descriptors.
            self._refused = None if unreadable(error) else present
            raise

    def _on_looked(self, looking: asyncio.Future[Loaded | None]) -> None:
        if self._looking is looking:
            self._looking = None
        if looking.cancelled():
            return
        error = looking.exception()
        if error is None:
            loaded = looking.result()
            if loaded is None:
                return
            self._loaded = loaded
            self._refused = self._complaint = None
            log.info("%s: loaded the changed TLS files %s", self._name, ", ".join(loaded.versions))
            self._warn_of_expiry()
        elif not isinstance(error, KafkaConfigurationError | NoThreadError):
            log.error("%s: the TLS files could not be checked", self._name, exc_info=error)
        else:
            self._complain(str(error))

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            log.warning(
                "%s: the TLS files cannot be read again, so connections keep using the last good "
                "ones: %s",
                self._name,
                text,
            )

    def _warn_of_expiry(self) -> None:
        if self.own_expiry:
            log.warning(
                "%s: the client certificate%s; brokers will refuse it",
                self._name,
                self.own_expiry,
            )
