"""Every code block of docs/web-services.md is run; frameworks are replaced by small classes."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafka_lite.errors import DeliveryTimeoutError, KafkaError, TopicAuthorizationFailedError
from aiokafka_lite.testing import FakeCluster
from tests.unit.guides import Guide
from tests.unit.web_frameworks import install_aiohttp, install_fastapi, install_litestar

GUIDE = Guide("web-services.md")
pytestmark = pytest.mark.timeout(120)


def service(framework: str, cluster: FakeCluster) -> dict[str, Any]:
    """The names that the page's block for a framework defines."""
    (code,) = (code for language, code in GUIDE.blocks if language == f"python {framework}")
    code = code.replace("localhost:9092", cluster.bootstrap_servers)
    for option, short in (("request", 2_000), ("delivery", 5_000)):
        assert f"{option}_timeout_ms={short:_}" in code
        code = code.replace(f"{option}_timeout_ms={short:_}", f"{option}_timeout_ms=200")
    names: dict[str, Any] = {"__name__": "service"}
    exec(code, names)
    return names


async def read() -> bytes:
    return b"one tea"


def test_there_are_no_other_blocks():
    GUIDE.check_blocks("python fastapi", "python aiohttp", "python litestar")


def test_blocks(pytester: pytest.Pytester):
    GUIDE.run(pytester)


async def test_fastapi_block(monkeypatch: pytest.MonkeyPatch):
    install_fastapi(monkeypatch)
    async with FakeCluster(topics=["orders"]) as cluster:
        app = service("fastapi", cluster)["app"]
        request = SimpleNamespace(app=app, body=read)
        async with app.lifespan(app):
            assert await app.routes["/orders"](request) == {"partition": 0, "offset": 0}
            assert (await app.routes["/metrics.json"](request))["record-send-total"] == 1
            assert await app.routes["/ready"](request) == ("", 200)
            cluster.kill(0)
            with pytest.raises(KafkaError) as caught:
                await app.routes["/orders"](request)
            answer = app.errors[KafkaError]
            stored = "unknown" if caught.value.ambiguous else "no"  # written before the kill?
            assert await answer(request, caught.value) == (
                {"error": "DeliveryTimeoutError", "stored": stored},
                503,
            )
            assert (await answer(request, TopicAuthorizationFailedError()))[1] == 500
            lost = DeliveryTimeoutError("lost")
            for lost.ambiguous, stored in ((True, "unknown"), (False, "no")):
                assert (await answer(request, lost))[0]["stored"] == stored
            while await app.routes["/ready"](request) == ("", 200):
                await asyncio.sleep(0.01)
            assert (await app.routes["/alive"](request))[1] == 200


async def test_aiohttp_block(monkeypatch: pytest.MonkeyPatch):
    install_aiohttp(monkeypatch)
    async with FakeCluster(topics=["orders"]) as cluster:
        app = service("aiohttp", cluster)["app"]
        (kafka,) = app.cleanup_ctx
        (middleware,) = app.middlewares
        request = SimpleNamespace(app=app, read=read)
        async with asynccontextmanager(kafka)(app):
            order = app.routes["/orders"]
            assert await middleware(request, order) == {"partition": 0, "offset": 0}
            cluster.kill(0)
            failed = await middleware(request, order)
            assert failed == ({"error": "DeliveryTimeoutError"}, 503)


async def test_litestar_block(monkeypatch: pytest.MonkeyPatch):
    install_litestar(monkeypatch)
    async with FakeCluster(topics=["orders"]) as cluster:
        app = service("litestar", cluster)["app"]
        request = SimpleNamespace(app=app, body=read)
        async with app.lifespan(app):
            assert await app.route(request) == {"partition": 0, "offset": 0}
            cluster.kill(0)
            with pytest.raises(KafkaError) as caught:
                await app.route(request)
            (answer,) = app.errors.values()
            assert answer(request, caught.value) == ({"error": "DeliveryTimeoutError"}, 503)
