"""The check that a call to a client runs in the client's event loop.

A client's timers, connections and futures belong to the loop it was created in. A call from
another loop or thread could wait forever, or race with the client's loop. Such a call raises before
it does anything.
"""

import asyncio

from aiokafka_lite.errors import IllegalStateError

__all__ = ["check_home"]


def check_home(loop: asyncio.AbstractEventLoop, client: object, remedy: str) -> None:
    """Raise unless the current thread and loop may call the client.

    Calls between two runs of the loop are allowed if no other loop runs in this thread.

    Args:
        loop: The client's event loop.
        client: The client, or its name, for the error.
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
            f"the event loop of {client} is closed: create a new one in the event loop that uses it"
        )
    if running is not None:
        raise IllegalStateError(f"{client} belongs to another event loop: {remedy}")
    if loop.is_running():
        raise IllegalStateError(f"the event loop of {client} runs in another thread: {remedy}")
