"""A token endpoint on loopback, whose answers a test chooses."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Received:
    """A request that the server received."""

    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


def unsigned_jwt(lifetime: float, subject: str = "alice") -> str:
    """Return an unsigned JWT, which a broker without configured keys accepts."""
    now = time.time()
    claims = {"sub": subject, "iat": int(now), "exp": int(now + lifetime)}
    parts = [json.dumps({"alg": "none"}), json.dumps(claims)]
    encoded = [base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


def success(token: str, **more: Any) -> Answer:
    return 200, {}, json.dumps({"access_token": token, "token_type": "Bearer", **more}).encode()


@dataclass
class OidcServer:
    """The server; a context manager.

    Attributes:
        answer: Makes the response to each request; may be replaced at any time.
        context: The server's TLS configuration; None: plain HTTP.
        received: The requests so far.
        port: 0 (any) before the first start. A server that is entered again keeps its port.
    """

    answer: Callable[[Received], Answer]
    context: ssl.SSLContext | None = None
    received: list[Received] = field(default_factory=list)
    port: int = 0

    def __enter__(self) -> Self:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                request = Received(self.command, self.path, dict(self.headers), form)
                server.received.append(request)
                status, headers, answer = server.answer(request)
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)
                except ConnectionError:
                    pass  # the client timed out and closed the connection

            do_GET = do_POST = serve

            def log_message(self, *_: Any) -> None:
                """Nothing is logged."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A client that rejects the certificate breaks off the handshake."""

        self._http = Server(("127.0.0.1", self.port), Handler)
        self.port = self._http.server_address[1]
        if self.context is not None:
            self._http.socket = self.context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        scheme = "http" if self.context is None else "https"
        return f"{scheme}://localhost:{self.port}/token"
