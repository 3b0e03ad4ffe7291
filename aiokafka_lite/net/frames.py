"""The receive side of Kafka's framing: native if it was compiled, otherwise the twin."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite.net._frames_python import (
    FIRST_SCRATCH,
    LARGEST_SCRATCH,
    WINDOW_AFTER_LARGE,
    Frame,
)

if TYPE_CHECKING:
    from aiokafka_lite.net._frames_python import FrameReceiver
else:
    FrameReceiver = pick(
        "aiokafka_lite.net._frames_native", "aiokafka_lite.net._frames_python"
    ).FrameReceiver

__all__ = ["FIRST_SCRATCH", "LARGEST_SCRATCH", "WINDOW_AFTER_LARGE", "Frame", "FrameReceiver"]
