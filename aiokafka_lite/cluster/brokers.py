"""All brokers of a cluster, and the choice of the one to send a request to.

Known brokers come from the metadata and live as long as the client: one `Broker` for each node id,
even while the node is down. Seeds are the bootstrap addresses, used while no known broker answers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Iterator

from aiokafka_lite._backoff import Backoff
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Broker
from aiokafka_lite.cluster.metadata import Node
from aiokafka_lite.errors import KafkaConnectionError, KafkaError
from aiokafka_lite.net.connection_options import ConnectionOptions

SUSPECT_AFTER = 1.0
"""Seconds that a response may be overdue before other brokers are preferred."""


class Brokers:
    """The brokers, by node id and by load.

    Args:
        addresses: The bootstrap list.
        options: Options of every connection.
        tasks: Owner of the connection attempts' tasks.
        on_lost: Called with a broker and the error when a connection to it is lost.
        on_refused, cluster_id: As of `Broker`.
        recovers: True if the bootstrap addresses are used again when no live broker answers.
    """

    def __init__(
        self,
        addresses: Iterable[tuple[str, int]],
        options: ConnectionOptions,
        tasks: TaskOwner,
        on_lost: Callable[[Broker, BaseException], None],
        on_refused: Callable[[Broker, KafkaError], None],
        cluster_id: Callable[[], str | None],
        recovers: bool = True,
    ) -> None:
        self._options = options
        self._backoff = Backoff(options.reconnect_backoff, options.reconnect_backoff_max)
        self._tasks = tasks
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._cluster_id = cluster_id
        self._recovers = recovers
        self._addresses = list(addresses)
        self._seeds: list[Broker] = []
        self._known: dict[int, Broker] = {}  # every node id ever reported; update() adds
        self._live: list[Broker] = []  # those in the current metadata; update() replaces
        self.begin_anew()

    def begin_anew(self) -> None:
        """Close every connection and drop every broker except the bootstrap addresses."""
        self.close()
        self._seeds = [
            self._new(Node(-1 - i, host, port)) for i, (host, port) in enumerate(self._addresses)
        ]
        random.shuffle(self._seeds)  # so that many clients do not all start with the first one
        self._known = {}
        self._live = []

    def forget_live(self) -> None:
        """Close every connection, and use only the bootstrap addresses until the next metadata."""
        for broker in self:
            broker.disconnect()
        for seed in self._seeds:
            seed.next_attempt_at = 0.0
        random.shuffle(self._seeds)
        self._live = []

    def use_seeds(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Replace the bootstrap addresses, such as by their canonical names."""
        present = {(seed.node.host, seed.node.port): seed for seed in self._seeds}
        wanted = list(dict.fromkeys(addresses))
        for address, seed in present.items():
            if address not in wanted:
                # The cluster is open: callers that wait for this address try another one.
                seed.close(KafkaConnectionError(f"{seed} was replaced"))
        lowest = min((seed.node_id for seed in self._seeds), default=0)
        self._seeds = [
            present.get(address) or self._new(Node(lowest - 1 - i, *address))
            for i, address in enumerate(wanted)
        ]
        random.shuffle(self._seeds)

    def update(self, nodes: Collection[Node]) -> None:
        """Adopt the live nodes and their addresses from new metadata."""
        for node in nodes:
            if node.node_id in self._known:
                self._known[node.node_id].move(node)
            else:
                self._known[node.node_id] = self._new(node)
        self._live = [self._known[node.node_id] for node in nodes]

    def leave_seeds(self) -> None:
        """Stop using the seeds after a successful refresh; use the live brokers from now on.

        A live broker at a bootstrap address takes over the connection.
        """
        if not self._live:
            return  # 0.8.2 without topics reports no broker: only the seeds can be used
        by_address = {(broker.node.host, broker.node.port): broker for broker in self._live}
        for seed in self._seeds:
            broker = by_address.get((seed.node.host, seed.node.port))
            if broker is not None:
                broker.take_over(seed)
            seed.disconnect()

    def __getitem__(self, node_id: int) -> Broker:
        return self._known[node_id]

    def least_loaded(self) -> Broker | None:
        """The live broker with the fewest requests in flight or held; None if all are blacked out.

        Ties go to connected brokers, then to a random one. Brokers that throttle this client come
        last.
        """
        return next(iter(_by_load(self._live)), None)

    def next_to_ask(self, tried: Collection[Broker] = ()) -> Broker | None:
        """The next broker for a request that any broker can answer.

        Live brokers come first, by load, then the seeds (KIP-899). If all are blacked out, it is
        the one whose backoff ends first.

        Returns:
            None if every candidate is in `tried`.
        """
        seeds = self._seeds if self._recovers or not self._live else []
        for brokers in (self._live, seeds):
            for broker in _by_load(brokers):
                if broker not in tried:
                    return broker
        if tried:
            return None
        return min((*self._live, *seeds), key=lambda broker: broker.next_attempt_at)

    def __iter__(self) -> Iterator[Broker]:
        """Every known broker, and the bootstrap addresses."""
        return iter((*self._known.values(), *self._seeds))

    def close(self) -> None:
        """Close every connection permanently and at once."""
        for broker in self:
            broker.close()

    def _new(self, node: Node) -> Broker:
        return Broker(
            node,
            self._options,
            self._backoff,
            self._tasks,
            self._on_lost,
            self._on_refused,
            self._cluster_id,
        )

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The bootstrap list."""
        return list(self._addresses)

    @property
    def bootstrap_servers(self) -> list[str]:
        """The bootstrap addresses, as "host:port"."""
        return [f"{host}:{port}" for host, port in self._addresses]

    def __str__(self) -> str:
        return ", ".join(self.bootstrap_servers)


def _by_load(brokers: Iterable[Broker]) -> list[Broker]:
    """Brokers that are not blacked out, least loaded first, in random order among equals."""
    now = asyncio.get_running_loop().time()
    usable = [b for b in brokers if b.connected() is not None or not b.blacked_out(now)]
    random.shuffle(usable)
    # A broker that throttles does not answer for a while, however few requests are in flight, and
    # one with an overdue response may not answer at all.
    usable.sort(
        key=lambda broker: (
            broker.throttles,
            (broker.silent_for(now) or 0.0) >= SUSPECT_AFTER,
            broker.in_flight,
            broker.connected() is None,
        )
    )
    return usable
