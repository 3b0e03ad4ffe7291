"""`send` and `send_and_wait`: the native module or its Python twin."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.producer._send_python import SendCalls, SendResult, StoredResult
else:
    _module = pick("aiokafka_lite.producer._send_native", "aiokafka_lite.producer._send_python")
    SendCalls, SendResult, StoredResult = (
        _module.SendCalls,
        _module.SendResult,
        _module.StoredResult,
    )

__all__ = ["SendCalls", "SendResult", "StoredResult"]
