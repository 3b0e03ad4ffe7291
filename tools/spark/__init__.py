"""Spark for tests and benchmarks: a session with flags for small machines, and its own connector.

`missing` tells why no Spark can be had on this machine; `open_session` starts one and
ends its JVM with it; `connector` brings Spark's own `kafka` connector from Maven Central,
to be judged beside.
"""

from tools.spark.jars import CONNECTOR, connector
from tools.spark.session import missing, open_session

__all__ = ["CONNECTOR", "connector", "missing", "open_session"]
