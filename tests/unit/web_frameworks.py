"""The parts of web frameworks that the examples use, so that tests do not need them installed."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Handler = Callable[..., Any]


class FastAPI:
    def __init__(self, *, lifespan: Callable[["FastAPI"], Any]) -> None:
        self.lifespan = lifespan
        self.state = SimpleNamespace()
        self.routes: dict[str, Handler] = {}
        self.errors: dict[type[Exception], Handler] = {}

    def post(self, path: str) -> Callable[[Handler], Handler]:
        return lambda handler: self.routes.setdefault(path, handler)

    get = websocket = post

    def exception_handler(self, error: type[Exception]) -> Callable[[Handler], Handler]:
        return lambda handler: self.errors.setdefault(error, handler)


class WebSocket:
    """A client that only listens."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.accepted = asyncio.Event()
        self.sent: list[bytes] = []
        self.closed: list[int] = []

    async def accept(self) -> None:
        self.accepted.set()

    async def send_bytes(self, value: bytes) -> None:
        self.sent.append(value)

    async def receive(self) -> None:
        await asyncio.Event().wait()

    async def close(self, code: int) -> None:
        self.closed.append(code)


def install(monkeypatch: pytest.MonkeyPatch, name: str, **members: object) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def install_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `import fastapi` return these classes; a response is the tuple of its arguments."""

    def response(*answer: object) -> tuple[object, ...]:
        return answer

    def streaming(content: AsyncIterator[bytes], media_type: str) -> tuple[object, ...]:
        return content, media_type

    install(
        monkeypatch,
        "fastapi",
        FastAPI=FastAPI,
        Request=object,
        Response=response,
        WebSocket=WebSocket,
    )
    install(monkeypatch, "fastapi.responses", JSONResponse=response, StreamingResponse=streaming)


class Application(dict[Any, Any]):
    """An aiohttp application."""

    def __init__(self, middlewares: list[Handler] | None = None) -> None:
        self.middlewares = middlewares or []
        self.cleanup_ctx: list[Callable[[Application], AsyncIterator[None]]] = []
        self.routes: dict[str, Handler] = {}

    def add_routes(self, routes: list[tuple[str, Handler]]) -> None:
        self.routes.update(routes)


def install_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `from aiohttp import web` return these classes."""

    def json_response(answer: object, status: int = 200) -> object:
        return answer if status == 200 else (answer, status)

    web = SimpleNamespace(Application=Application, Request=object, json_response=json_response)
    web.AppKey = lambda name, kind: name
    web.middleware = lambda function: function
    web.post = web.get = lambda path, handler: (path, handler)
    web.Response = lambda text, status: (text, status)
    install(monkeypatch, "aiohttp", web=web)


class Litestar:
    """Also the application of the test: it has one route."""

    def __init__(
        self,
        routes: list[Handler],
        *,
        lifespan: list[Callable[["Litestar"], Any]],
        exception_handlers: dict[type[Exception], Handler],
    ) -> None:
        (self.route,) = routes
        (self.lifespan,) = lifespan
        self.errors = exception_handlers
        self.state = SimpleNamespace()


def install_litestar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `import litestar` return these classes."""

    def response(answer: object, *, status_code: int) -> tuple[object, int]:
        return answer, status_code

    install(
        monkeypatch,
        "litestar",
        Litestar=Litestar,
        Request=object,
        Response=response,
        post=lambda path, status_code: lambda handler: handler,
    )
