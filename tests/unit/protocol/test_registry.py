"""API keys and names, and lazy imports of messages."""

import subprocess
import sys

from aiokafka_lite.protocol.registry import API_MODULES, ApiKey, api_name, listeners

LAZY = """
import sys
import aiokafka_lite.protocol.framing, aiokafka_lite.protocol.versions
from aiokafka_lite.protocol.registry import API_MODULES, request_class
loaded = lambda: {n.rpartition(".")[2] for n in sys.modules if ".messages." in n}
before = loaded()
assert len(before) < len(API_MODULES) / 2, before
request_class(33)
assert loaded() - before == {"alter_configs"}, loaded()
"""


def test_messages_are_imported_on_first_use() -> None:
    subprocess.run([sys.executable, "-c", LAZY], check=True, timeout=60)


def test_api_names() -> None:
    assert api_name(ApiKey.INIT_PRODUCER_ID) == "InitProducerId"
    assert api_name(ApiKey.VOTE) == "VOTE"
    assert api_name(1234) == "API 1234"


def test_apis_by_listener() -> None:
    assert listeners(ApiKey.METADATA) == ("broker",)
    assert set(listeners(ApiKey.CREATE_TOPICS)) == {"broker", "controller"}
    assert listeners(ApiKey.VOTE) == ()


def test_every_generated_api_has_a_key() -> None:
    assert set(API_MODULES) <= set(ApiKey)
    assert len(API_MODULES) == len({module for module, _, _ in API_MODULES.values()})
