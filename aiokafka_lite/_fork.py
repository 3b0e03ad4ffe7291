"""Marks clients as unusable in a forked child.

A child has its parent's memory, its sockets, and the set of descriptors (epoll) that the parent's
event loop waits on, but no running event loop. A child that closed an inherited connection would
remove it from the shared set, and the parent would no longer receive anything on it. So a child
does not touch inherited resources, and calls on an inherited client raise an error.

Each client registers once (`watch`), which adds no cost to later calls.
"""

import os
from typing import Protocol
from weakref import WeakSet

from aiokafka_lite.errors import IllegalStateError


class Forkable(Protocol):
    """A client that can be marked as unusable."""

    def _on_forked(self) -> None:
        """Mark the client as unusable, because this process is a child that inherited it. Must not
        touch any socket, task, timer or event loop."""


_watched: "WeakSet[Forkable]" = WeakSet()


def watch(client: Forkable) -> None:
    """Call the client's `_on_forked` in each child of this process, while the client exists."""
    _watched.add(client)


def forked_error(what: str) -> IllegalStateError:
    """Return the error for a client that is used in a forked child.

    Args:
        what: Kind of client, such as "producer".
    """
    return IllegalStateError(
        f"this {what} belongs to process {os.getppid()} and cannot be used in its forked child "
        f"{os.getpid()}: create a new {what} in the child, after the fork"
    )


def _in_child() -> None:
    for client in list(_watched):
        client._on_forked()
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
