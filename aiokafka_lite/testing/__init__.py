"""The embedded broker: a Kafka in the process, with faults on demand, for any client's tests.

- ``FakeCluster``: brokers on loopback; ``control`` makes their requests go wrong;
- ``tampering``: ready-made ways to damage a response's bytes;
- ``apis``: what is served, one module an API.

It stands on the protocol and record rooms alone and knows nothing of the clients.
"""

from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.cluster import FakeCluster
from aiokafka_lite.testing.control import Fault, SeenRequest

__all__ = ["FakeCluster", "Fault", "SeenRequest", "VirtualClock"]
