"""What becomes of a client in a forked child: nothing.

A child has its parent's memory, its sockets, and the set of descriptors (epoll) that the parent's
event loop waits on, but not that loop running. A child that closed an inherited connection would
take it out of the shared set, and the parent would hear nothing on it any more. So a child touches
nothing it has inherited, and refuses to use it.

Each client says once that it wants to be told (`watch`); that costs no call anything afterwards.
"""

import os
from typing import Protocol
from weakref import WeakSet

from aiokafka_lite.errors import IllegalStateError


class Forkable(Protocol):
    """A client."""

    def _on_forked(self) -> None:
        """This process is a child that has inherited the client: mark it as unusable. No socket,
        task, timer or event loop may be touched."""


_watched: "WeakSet[Forkable]" = WeakSet()


def watch(client: Forkable) -> None:
    """Call the client's `_on_forked` in each child of this process, while the client is there."""
    _watched.add(client)


def forked_error(what: str) -> IllegalStateError:
    """The error of a client that is used in a child.

    Args:
        what: "producer" for example.
    """
    return IllegalStateError(
        f"this {what} was made in process {os.getppid()}, and {os.getpid()} is its forked child: "
        f"make a {what} of its own in the child, after the fork"
    )


def _in_child() -> None:
    for client in list(_watched):
        client._on_forked()
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
