"""Fixtures of the transaction tests: a broker, and its producers."""

import pytest

from tests.unit.testing.raw import SocketlessBroker
from tests.unit.testing.transactions.writer import Writer


@pytest.fixture
def broker() -> SocketlessBroker:
    """A broker with the topic "orders" of two partitions."""
    made = SocketlessBroker()
    made.state.create_topic("orders", 2)
    return made


@pytest.fixture
def writer(broker: SocketlessBroker) -> Writer:
    """A producer that has its identity."""
    made = Writer(broker)
    assert made.init() == 0
    return made
