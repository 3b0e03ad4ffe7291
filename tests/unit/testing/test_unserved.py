"""Unsupported APIs: every API is listed, and the documentation is generated from the code."""

from pathlib import Path

import pytest

from aiokafka_lite.protocol.registry import API_MODULES, api_name, request_class
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.apis.unserved import NOT_OFFERED, REFUSED
from tests.unit.testing.raw import SocketlessBroker
from tools.broker_docs.page import page

PAGE = Path(__file__).parents[3] / "docs" / "embedded-broker.md"


def test_every_api_is_served_or_listed_as_unserved() -> None:
    assert SERVED.keys() | NOT_OFFERED.keys() == API_MODULES.keys()
    assert not SERVED.keys() & NOT_OFFERED.keys()
    assert REFUSED.keys() <= SERVED.keys()


@pytest.mark.parametrize("key", REFUSED, ids=lambda key: key.name)
def test_rejected_apis_return_an_error(broker: SocketlessBroker, key: int) -> None:
    request = request_class(key)()
    (first, last) = SERVED[key]
    for version in range(first, last + 1):
        answer = broker.ask(request, version)
        lists = [getattr(answer, name, []) for name in ("results", "groups")]
        errors = [item.error_code for found in lists for item in found]
        assert all([getattr(answer, "error_code", 1), *errors])


def test_the_documentation_lists_all_unserved_apis() -> None:
    told = page()
    for key in API_MODULES:
        assert f"| {key} | {api_name(key)} |" in told
    for why in {*REFUSED.values(), *NOT_OFFERED.values()}:
        assert why in told
    for name in ("`broker_configs`", "`truncate()`", "`tamper`", "`retention.ms`", "| 2.8 | "):
        assert name in told
    assert PAGE.read_text().startswith("# The embedded broker")
