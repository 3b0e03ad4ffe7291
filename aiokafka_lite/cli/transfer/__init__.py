"""The work of `produce`, `consume`, `topic copy` and `bench`."""

from typing import Final

STOP_MS: Final = 5000
"""Milliseconds to deliver the records that were sent before Ctrl-C."""
