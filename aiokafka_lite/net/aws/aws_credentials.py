"""AWS credentials: given, from the environment, or from botocore's chain."""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from aiokafka_lite._threads import lookup_threads
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError

__all__ = [
    "AwsCredentials",
    "BotocoreChain",
    "CredentialSource",
    "CurrentCredentials",
    "from_environment",
    "region_of_environment",
]

LONGEST_SIGNATURE: Final = 900
"""Seconds that a signature is valid, the most that brokers of Amazon MSK accept."""


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """An AWS access key. Not in aiokafka.

    Attributes:
        access_key_id: The key's id.
        secret_access_key: The key; not shown.
        session_token: Of temporary credentials; not shown.
        expires_at: Seconds since the epoch; infinite for permanent credentials.
    """

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: float = math.inf


CredentialSource: TypeAlias = Callable[[], AwsCredentials | Awaitable[AwsCredentials]]
"""Returns the current credentials; called for each token. A coroutine function is awaited."""


def from_environment() -> AwsCredentials | None:
    """Return the credentials of AWS's environment variables; None if they are not set."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return AwsCredentials(key, secret, os.environ.get("AWS_SESSION_TOKEN") or None)


class BotocoreChain:
    """botocore's credential chain: profiles, web identity, containers, instances.

    One session is kept, because each new one would assume a role under a new session name, and
    brokers do not accept another principal when a client re-authenticates.

    Raises:
        AuthenticationFailedError: botocore is not installed; raised by the constructor.
    """

    def __init__(self) -> None:
        try:
            botocore: Any = importlib.import_module("botocore.session")
        except ImportError:
            raise AuthenticationFailedError(
                "there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "pass `credentials`, or install aiokafka_lite[aws] for profiles and roles"
            ) from None
        self._session: Any = botocore.get_session()

    async def __call__(self) -> AwsCredentials:
        """Return the current credentials; botocore renews them.

        Raises:
            AuthenticationFailedError: The chain has no credentials.
            KafkaConnectionError: The chain failed.
        """
        return await lookup_threads.run(asyncio.get_running_loop(), self._look_up)

    def _look_up(self) -> AwsCredentials:
        from datetime import datetime  # slow to import, and few clients have AWS credentials

        try:
            found = self._session.get_credentials()
            frozen = None if found is None else found.get_frozen_credentials()
        except Exception as error:  # its own classes, which have no useful base
            raise KafkaConnectionError(f"botocore found no AWS credentials: {error}") from error
        if frozen is None:
            raise AuthenticationFailedError("botocore's chain has no AWS credentials")
        # botocore has no public name for the expiry of credentials that it renews.
        expiry = getattr(found, "_expiry_time", None)
        return AwsCredentials(
            frozen.access_key,
            frozen.secret_key,
            frozen.token,
            expiry.timestamp() if isinstance(expiry, datetime) else math.inf,
        )


class CurrentCredentials:
    """The current credentials of one client.

    Args:
        given: `AwsCredentials` or a source of them; None for the environment variables and, without
            them, botocore's chain.
    """

    def __init__(self, given: AwsCredentials | CredentialSource | None) -> None:
        self._given = given
        self.chain: BotocoreChain | None = None

    async def get(self, now: float) -> tuple[AwsCredentials, int]:
        """Return the credentials, and the seconds that a signature with them may be valid.

        Args:
            now: Seconds since the epoch.

        Raises:
            AuthenticationFailedError: There are no credentials, or they have expired.
            KafkaConnectionError: botocore failed to get credentials.
            TypeError: The source returned something else.
        """
        credentials = await self._get()
        if credentials.expires_at <= now:
            raise AuthenticationFailedError(
                f"the AWS credentials {credentials.access_key_id} have expired"
            )
        return credentials, int(min(LONGEST_SIGNATURE, max(credentials.expires_at - now, 1)))

    async def _get(self) -> AwsCredentials:
        given = self._given
        if isinstance(given, AwsCredentials):
            return given
        if given is not None:
            found = given()
            if isawaitable(found):
                found = await found
            if not isinstance(found, AwsCredentials):
                raise TypeError(
                    f"`credentials` returned {type(found).__name__}, not AwsCredentials"
                )
            return found
        variables = from_environment()
        if variables is not None:
            return variables
        if self.chain is None:
            self.chain = BotocoreChain()
        return await self.chain()


REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")
"""The form of a region's name."""

ENVIRONMENT_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


def region_of_environment() -> str | None:
    """Return the region of AWS's environment variables."""
    return next(filter(None, map(os.environ.get, ENVIRONMENT_REGIONS)), None)
