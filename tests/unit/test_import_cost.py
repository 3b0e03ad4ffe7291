"""Importing both clients loads only what every client needs for its construction.

The limit is on modules, because times vary between machines. Importing `aiokafka_lite` and both
clients takes about as much CPU time as importing aiokafka.
"""

import json
import subprocess
import sys

import pytest

IMPORT = "from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer"
PRODUCER = "from aiokafka_lite import AIOKafkaProducer"
LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"

UNWANTED = {
    "aiokafka_lite.admin": "administration",
    "aiokafka_lite.cli": "the command line",
    "aiokafka_lite.client": "AIOKafkaClient",
    "aiokafka_lite.cluster.cluster": "connections, made by a constructor",
    "aiokafka_lite.consumer.core": "the parts of a consumer",
    "aiokafka_lite.group.membership": "groups",
    "aiokafka_lite.metrics_push.metrics_push": "pushing metrics",
    "aiokafka_lite.net.authenticate": "SASL",
    "aiokafka_lite.net.aws": "credentials of AWS",
    "aiokafka_lite.net.connection": "sockets",
    "aiokafka_lite.net.route": "proxies",
    "aiokafka_lite.net.tls": "TLS",
    "aiokafka_lite.oauth": "token providers",
    "aiokafka_lite.otel": "OpenTelemetry",
    "aiokafka_lite.producer.sending": "the sender",
    "aiokafka_lite.producer.transactions": "transactions",
    "aiokafka_lite.prometheus": "Prometheus",
    "aiokafka_lite.record.columnar": "reading columns",
    "aiokafka_lite.schemas": "schema registries",
    "aiokafka_lite.share": "share groups",
    "aiokafka_lite.spark": "Spark",
    "aiokafka_lite.testing": "the embedded broker",
    "cramjam": "snappy",
    "email": "HTTP",
    "http": "HTTP",
    "lz4": "lz4",
    "pyarrow": "columns",
    "urllib": "HTTP",
    "zstandard": "zstd",
}


def loaded_by(code: str) -> set[str]:
    text = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, check=True
    ).stdout
    return set(json.loads(text))


@pytest.fixture(scope="module")
def both_clients() -> set[str]:
    return loaded_by(IMPORT) - loaded_by("import asyncio")


@pytest.mark.parametrize("module", UNWANTED)
def test_importing_both_clients_does_not_import(module: str, both_clients: set[str]) -> None:
    found = {name for name in both_clients if name == module or name.startswith(f"{module}.")}
    assert not found, f"imported eagerly, but only needed for {UNWANTED[module]}"


def test_the_number_of_modules_is_bounded(both_clients: set[str]) -> None:
    own = {name for name in both_clients if name.startswith("aiokafka_lite")}
    assert "aiokafka_lite.producer.producer" in own
    assert "aiokafka_lite.consumer.consumer" in own
    assert len(own) <= 120, "each module costs about 0.2 ms: import it where it is used"


def test_the_package_alone_imports_no_client() -> None:
    own = {name for name in loaded_by("import aiokafka_lite") if name.startswith("aiokafka_lite")}
    assert own == {"aiokafka_lite", "aiokafka_lite._version"}


def test_a_producer_starts_without_what_is_slow_to_create() -> None:
    """A dataclass takes as long to import as forty classes, and an enumeration of a hundred members
    as long as sixty."""
    made = "async def main(): AIOKafkaProducer(bootstrap_servers='127.0.0.1:9092')"
    parts = "import aiokafka_lite.producer.sending.sender, aiokafka_lite.metrics_push.metrics_push"
    loaded = loaded_by(f"import asyncio\n{PRODUCER}\n{parts}\n{made}\nasyncio.run(main())")
    assert {"aiokafka_lite.cluster.cluster", "aiokafka_lite.net.connection"} <= loaded
    loaded -= loaded_by("import asyncio")
    slow = {"aiokafka_lite.protocol.api_keys", "aiokafka_lite.structs.health", "dataclasses"}
    assert not slow & loaded


def test_a_plain_host_name_does_not_load_the_idna_codec() -> None:
    made = "async def main(): AIOKafkaProducer(bootstrap_servers='kafka.example.com:9092')"
    loaded = loaded_by(f"import asyncio\n{IMPORT}\n{made}\nasyncio.run(main())")
    assert "aiokafka_lite.cluster.bootstrap" in loaded
    assert not {"encodings.idna", "stringprep", "unicodedata"} & loaded
