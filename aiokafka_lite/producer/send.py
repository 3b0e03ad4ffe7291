"""`send` and `send_and_wait`: the native module or its Python twin."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.producer._send_python import Sends, Sent, Stored
else:
    _module = pick("aiokafka_lite.producer._send_native", "aiokafka_lite.producer._send_python")
    Sends, Sent, Stored = _module.Sends, _module.Sent, _module.Stored

__all__ = ["Sends", "Sent", "Stored"]
