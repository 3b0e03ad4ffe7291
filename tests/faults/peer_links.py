"""The connections between brokers through proxies, so that one can be cut off from the others.

A broker connects to each of its peers at a separate address (`tools.kafka.config.peer_address`),
so each direction between two brokers has a proxy: for replication and for the controllers' quorum.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from tests.faults.proxy import Proxy
from tools.kafka.broker import free_ports
from tools.kafka.config import peer_address

__all__ = ["PeerLinks"]


class PeerLinks:
    """Proxies between all pairs of nodes; listens for as long as the `async with` lasts.

    Args:
        count: The number of nodes.

    Attributes:
        ports: Ports of the internal listener and of the controller, by node.
    """

    def __init__(self, count: int) -> None:
        drawn = free_ports(2 * count)
        self.ports: Sequence[tuple[int, int]] = list(zip(drawn[:count], drawn[count:], strict=True))
        self._proxies: dict[tuple[int, int], list[Proxy]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for source in range(len(self.ports)):
            for target, ports in enumerate(self.ports):
                if source != target:
                    self._proxies[source, target] = [
                        await self._listen(peer_address(source, target), port) for port in ports
                    ]
        return self

    async def _listen(self, host: str, port: int) -> Proxy:
        proxy = await self._stack.enter_async_context(Proxy(port, host=host))
        proxy.target = ("127.0.0.1", port)
        return proxy

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def drop(self, node: int) -> None:
        """Drop all bytes between a node and its peers, in either direction."""
        for proxy in self._of(node):
            proxy.drop()

    async def listen(self, node: int) -> None:
        """End `isolate`."""
        for proxy in self._of(node):
            await proxy.listen()

    def _of(self, node: int) -> list[Proxy]:
        return [
            proxy for pair, proxies in self._proxies.items() if node in pair for proxy in proxies
        ]
