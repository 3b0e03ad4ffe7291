"""A token in a file that another process keeps current."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.net.sasl.oauthbearer import TOKEN
from aiokafka_lite.oauth.token_source import Token, TokenSource, check_path, jwt_times

__all__ = ["TokenFile"]

MAX_BYTES: Final = 1024 * 1024


class TokenFile(TokenSource):
    """Reads the token from a file, such as a projected Kubernetes token. Not in aiokafka.

    The file is read for each authentication, so a replaced token is used at once.

    Args:
        path: The file, which holds the token alone; white space around it is ignored.
        extensions: As in `TokenSource`.

    Raises:
        KafkaConfigurationError: The path is itself a JWT.
    """

    def __init__(self, path: str | Path, *, extensions: Mapping[str, str] | None = None) -> None:
        super().__init__(extensions=extensions)
        check_path("path", path)
        self._path = Path(path)

    async def token(self) -> str:
        """Read the token.

        Raises:
            KafkaConnectionError: The file cannot be read, or holds no token; the client tries
                again.
        """
        return (await self.fetch()).value

    async def fetch(self) -> Token:
        """Read the token; raises as `token`."""
        try:
            with self._path.open(encoding="ascii") as file:
                value = file.read(MAX_BYTES).strip()
        except (OSError, ValueError) as error:
            raise KafkaConnectionError(f"cannot read the token in {self._path}: {error}") from error
        if not value:
            raise KafkaConnectionError(f"the token file {self._path} is empty")
        if not TOKEN.fullmatch(value):  # it may be written at this moment
            raise KafkaConnectionError(
                f"the token file {self._path} contains no valid bearer token"
            )
        issued, expires = jwt_times(value)
        return Token(value, math.inf if expires is None else expires, issued)

    def __repr__(self) -> str:
        return f"<TokenFile {str(self._path)!r}>"
