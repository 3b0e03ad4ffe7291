"""When a client abandons its brokers and bootstraps again."""

import pytest

from aiokafka_lite.cluster.refresh.recovery import Recovery
from aiokafka_lite.errors import KafkaConnectionError, NodeNotReadyError, RebootstrapRequiredError
from aiokafka_lite.net.handshake import OtherBrokerError


def test_time_counts_from_the_first_failed_attempt() -> None:
    recovery = Recovery(300.0)
    assert recovery.overdue(1000.0) is None  # no request was sent
    recovery.on_attempt(1000.0)
    recovery.on_attempt(1200.0)
    assert recovery.overdue(1299.9) is None
    assert recovery.overdue(1300.0) == 300.0
    recovery.on_metadata()
    assert recovery.overdue(9000.0) is None
    recovery.on_attempt(9000.0)
    assert recovery.overdue(9300.0) == 300.0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RebootstrapRequiredError(), True),
        (OtherBrokerError("b"), True),
        (NodeNotReadyError("b"), False),
        (KafkaConnectionError("b"), False),
    ],
)
def test_some_errors_require_it(error: Exception, expected: bool) -> None:
    assert Recovery(300.0).is_required(error) is expected  # type: ignore[arg-type]
    assert not Recovery(None).is_required(error)  # type: ignore[arg-type]


def test_strategy_none_never_bootstraps_again() -> None:
    recovery = Recovery(None)
    recovery.on_attempt(0.0)
    assert recovery.overdue(1e9) is None
    assert not recovery.enabled
