"""The embedded broker: an in-process Kafka with fault injection, for the tests of any client.

- `FakeCluster`: brokers on loopback; its `control` method injects faults;
- `VirtualClock`: a clock that advances only when the test advances it;
- `ApiKey`, `CoordinatorType`, `Operation`, `Resource`: Kafka's protocol numbers by name;
- `tampering`: ready-made functions that corrupt an encoded response;
- `apis`: the request handlers, one module per API.

It depends only on the protocol and record packages, never on the clients.
"""

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.control import Fault, SeenRequest
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.fake_cluster import FakeCluster
from aiokafka_lite.testing.security.acl_table import Operation, Resource

__all__ = [
    "ApiKey",
    "CoordinatorType",
    "FakeCluster",
    "Fault",
    "Operation",
    "Resource",
    "SeenRequest",
    "VirtualClock",
]
