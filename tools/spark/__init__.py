"""Spark for tests and benchmarks: a session with flags for small machines, and its own connector.

`missing` returns why no Spark is available on this machine; `open_session` starts a session and
ends its JVM with it; `connector` fetches Spark's own `kafka` connector from Maven Central, for
comparison.
"""

from tools.spark.jars import CONNECTOR, connector
from tools.spark.session import missing, open_session

__all__ = ["CONNECTOR", "connector", "missing", "open_session"]
