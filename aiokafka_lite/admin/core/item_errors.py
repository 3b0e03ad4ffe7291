"""Shared handling of item errors: which to retry, and how to report them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from aiokafka_lite.admin.core.item_outcomes import Outcomes
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.errors import (
    BrokerResponseError,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    UnknownError,
)

__all__ = ["code_of", "message_of", "only_controller_errors", "perhaps_ours", "report"]

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


def code_of(outcome: object) -> int:
    """Return the error code of an outcome as aiokafka's responses have it; 0: no error."""
    if not isinstance(outcome, KafkaError):
        return 0
    if isinstance(outcome, BrokerResponseError):
        return outcome.errno
    return RequestTimedOutError.errno if outcome.retriable else UnknownError.errno


def message_of(outcome: object, label: str) -> str | None:
    """Return the message that goes with `code_of`, without the item's label; None: no error."""
    if not isinstance(outcome, KafkaError):
        return None
    return str(outcome.args[0] if outcome.args else outcome).removeprefix(f"{label}: ")


def only_controller_errors(retry_on_quota_violation: bool = True) -> Callable[[KafkaError], bool]:
    """The item errors that Java retries when it changes something through the controller.

    Others are final although Kafka's table calls them retriable: after REQUEST_TIMED_OUT, for
    example, the change may have been made.
    """
    kinds: tuple[type[KafkaError], ...] = (NotControllerError,)
    if retry_on_quota_violation:
        kinds += (ThrottlingQuotaExceededError,)
    return lambda error: isinstance(error, kinds)


def perhaps_ours(outcomes: Outcomes[K, Any], item: K, done: str, message: str | None) -> str | None:
    """Add to a message that an earlier attempt of the same call may have caused the error.

    Args:
        done: What the attempt may have done: "created".
    """
    if not outcomes.was_interrupted(item):
        return message
    reason = message or "the broker gives no reason"
    return f"{reason} (an earlier attempt of this call got no response and may have {done} it)"


def report(results: Results[Any, Any], what: str, raise_errors: bool) -> None:
    """Raise the first error of a result, or log each error: for calls in which aiokafka drops them.

    Args:
        what: What failed: "create_topics".

    Raises:
        KafkaError: `raise_errors` is set.
    """
    if raise_errors:
        results.raise_for_errors()
    for error in results.errors().values():
        log.warning(
            "%s: %s (to raise this error, pass raise_errors=True or call the result's "
            "raise_for_errors())",
            what,
            error,
        )
