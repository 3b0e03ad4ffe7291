"""The event loop that a client lives in, and the check that a call is made in it.

A client's timers, connections and futures belong to the loop it was made in. Used from another
loop, or from another thread, it would wait for something that never comes, or change state under
the loop's hands. Such a call is refused before it does anything.
"""

import asyncio

from aiokafka_lite.errors import IllegalStateError

__all__ = ["check_home"]


def check_home(loop: asyncio.AbstractEventLoop, name: str, remedy: str) -> None:
    """Raise unless a call may be made here.

    Calls between two runs of the loop are allowed, as long as no other loop runs in this thread.

    Args:
        loop: The client's.
        name: Of the client, for the error.
        remedy: What the caller should do instead, for the error.

    Raises:
        IllegalStateError: (a RuntimeError) The client's loop is closed, runs in another thread, or
            is not the one that runs in this thread.
    """
    running = asyncio._get_running_loop()
    if running is loop:
        return
    if loop.is_closed():
        raise IllegalStateError(
            f"the event loop of {name} is closed: make a new one in the event loop that uses it"
        )
    if running is not None:
        raise IllegalStateError(f"{name} belongs to another event loop: {remedy}")
    if loop.is_running():
        raise IllegalStateError(f"the event loop of {name} runs in another thread: {remedy}")
