"""What the tests of transactions share: a broker, and producers that ask it."""

import pytest

from tests.unit.testing.raw import SocketlessBroker
from tests.unit.testing.transactions.writer import Writer


@pytest.fixture
def broker() -> SocketlessBroker:
    """With the topic "orders" of two partitions."""
    made = SocketlessBroker()
    made.state.create_topic("orders", 2)
    return made


@pytest.fixture
def writer(broker: SocketlessBroker) -> Writer:
    """One that has its identity."""
    made = Writer(broker)
    assert made.init() == 0
    return made
