"""A SASL mechanism for tests: the client sends a password, and the broker requests it again."""

from aiokafka_lite.errors import AuthenticationFailedError
from aiokafka_lite.net.authenticate import Exchange


class Password:
    name = "PASSWORD"
    hint = ""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.closed = 0

    async def begin(self, host: str) -> Exchange:
        self.hosts.append(host)
        return self._exchange()

    def _exchange(self) -> Exchange:
        try:
            challenge = yield b"secret"
            answer = yield b"again:" + challenge
            if answer != b"welcome":
                raise AuthenticationFailedError("the broker proved nothing")
        finally:
            self.closed += 1
