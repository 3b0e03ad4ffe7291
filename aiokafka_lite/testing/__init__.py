"""The embedded broker: a Kafka in the process, with faults on demand, for any client's tests.

- `FakeCluster`: brokers on loopback; `control` makes their requests go wrong;
- `VirtualClock`: a time that stands still until the test moves it;
- `ApiKey`, `CoordinatorType`, `Operation`, `Resource`: Kafka's numbers by name;
- `tampering`: ready-made ways to damage a response's bytes;
- `apis`: what is served, one module an API.

It stands on the protocol and record rooms alone and knows nothing of the clients.
"""

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.control import Fault, SeenRequest
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.fake_cluster import FakeCluster
from aiokafka_lite.testing.security.acls import Operation, Resource

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
