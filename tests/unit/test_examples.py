"""Runs the programs of examples/ and the code blocks of README.md with the embedded broker."""

import ast
import asyncio
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import DeliveryTimeoutError, KafkaError, KafkaTimeoutError
from aiokafka_lite.testing import FakeCluster
from tests.unit.web_frameworks import WebSocket, install_aiohttp, install_fastapi

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BLOCKS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)
NOTEBOOK = (EXAMPLES / "notebook.ipynb").read_text()
SERVERS = "localhost:9092"  # as README.md has it

pytestmark = pytest.mark.timeout(120)


def block(word: str) -> str:
    """The only block of README.md that contains the word."""
    (code,) = (code for code in BLOCKS if word in code)
    return code


HEARS_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Processes that a shell starts in the background ignore these signals, and so do their
children."""


@asynccontextmanager
async def running(
    cluster: FakeCluster, code: str, *arguments: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program in a new process, which ends with the `with` block at the latest."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-u",
        "-c",
        HEARS_INTERRUPTS + code.replace(SERVERS, cluster.bootstrap_servers),
        *arguments,
        env={**os.environ, "KAFKA_BOOTSTRAP": cluster.bootstrap_servers},
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def next_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    line = (await process.stdout.readline()).decode()
    assert line, (await process.stderr.read()).decode()
    return line.strip()


@pytest.fixture
def topics() -> dict[str, int]:
    return {"orders": 1, "shouts": 1}


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ((EXAMPLES / "produce.py").read_text(), [b"order %d" % number for number in range(10)]),
        (block("ack = await"), [b"one tea"]),
    ],
    ids=["examples", "README"],
)
async def test_produce_example(topics: dict[str, int], code: str, values: list[bytes]):
    async with FakeCluster(topics=topics) as cluster, running(cluster, code) as process:
        out, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
        assert len(out.splitlines()) == len(values)
        assert [record.value for record in cluster.records("orders")] == values


@pytest.mark.parametrize(
    "code",
    [(EXAMPLES / "consume.py").read_text(), block("AIOKafkaConsumer(")],
    ids=["examples", "README"],
)
async def test_consume_example(topics: dict[str, int], code: str):
    async with FakeCluster(topics=topics) as cluster:
        cluster.produce("orders", b"one tea", b"table 4")
        async with running(cluster, code) as process:
            assert await next_line(process) == "0 0 b'table 4' b'one tea'"


CELLS = f"""\
from aiokafka_lite import AIOKafkaProducer
producer = AIOKafkaProducer(bootstrap_servers="{SERVERS}")
await producer.start()
(await producer.send_and_wait("orders", b"one tea")).offset
await producer.stop()
"""


async def test_loop_that_runs_between_notebook_cells(topics: dict[str, int]):
    async with FakeCluster(topics=topics) as cluster:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-W", "error", "-m", "asyncio"],
            input=CELLS.replace(SERVERS, cluster.bootstrap_servers),
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
        )
        assert (done.returncode, "Error" in done.stderr) == (0, False)
        assert [record.value for record in cluster.records("orders")] == [b"one tea"]


async def test_interrupt_ends_the_consume_example(topics: dict[str, int]):
    async with FakeCluster(topics=topics) as cluster:
        cluster.produce("orders", b"one tea")
        async with running(cluster, (EXAMPLES / "consume.py").read_text()) as process:
            await next_line(process)
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")


async def test_worker_example_commits_before_it_ends(topics: dict[str, int]):
    async with FakeCluster(topics=topics) as cluster:
        for value in (b"tea", b"cake"):
            cluster.produce("orders", value, b"table 4")
        async with running(cluster, (EXAMPLES / "worker.py").read_text()) as process:
            assert await next_line(process) == "0 0 b'table 4' b'tea'"
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")
        assert cluster.committed("kitchen") == {("orders", 0): 2}
        assert cluster.group("kitchen").state == "Empty"  # it has left the group


async def test_outbox_example_sends_what_was_committed(topics: dict[str, int], tmp_path: Path):
    code = (EXAMPLES / "outbox.py").read_text()
    outbox: dict[str, Any] = {"__name__": "outbox"}
    exec(code, outbox)
    path = str(tmp_path / "orders.db")
    database = outbox["connect"](path)
    outbox["place"](database, "ann", "tea")
    with pytest.raises(AttributeError):  # the record is not text: the order is rolled back
        outbox["place"](database, "eve", None)
    assert database.execute("SELECT guest FROM orders").fetchall() == [("ann",)]
    outbox["place"](database, "bob", "cake")
    async with FakeCluster(topics=topics) as cluster:
        async with running(cluster, code, path) as process:
            assert await next_line(process) == "2 records"
            outbox["place"](database, "ann", "scone")
            assert await next_line(process) == "1 records"
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")
        records = cluster.records("orders")
        assert [record.value for record in records] == [b"tea", b"cake", b"scone"]
        assert records[0].headers == (("id", b"1"),)

        outbox["place"](database, "bob", "jam")
        servers = cluster.bootstrap_servers
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, delivery_timeout_ms=300, request_timeout_ms=200
        )
        async with producer:  # a failed send leaves the row in the outbox
            await producer.partitions_for("orders")
            cluster.kill(0)
            with pytest.raises(DeliveryTimeoutError):
                await outbox["relay_once"](database, producer)
            assert database.execute("SELECT value FROM outbox").fetchall() == [(b"jam",)]
            await cluster.restart(0)
    database.close()


async def test_exactly_once_example_ends_after_its_batch(topics: dict[str, int]):
    async with FakeCluster(topics=topics) as cluster:
        for value in (b"tea", None, b"cake"):
            cluster.produce("orders", value, b"table 4")
        code = (EXAMPLES / "exactly_once.py").read_text()
        async with running(cluster, code, "7") as process:
            assert await next_line(process) == "3 records"
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")
        shouted = cluster.records("shouts", committed_only=True)
        assert [record.value for record in shouted] == [b"TEA", None, b"CAKE"]
        assert cluster.committed("shouters") == {("orders", 0): 3}


@pytest.mark.parametrize(
    "code",
    [(EXAMPLES / "fastapi_service.py").read_text(), block("from fastapi")],
    ids=["examples", "README"],
)
async def test_fastapi_service_example(
    monkeypatch: pytest.MonkeyPatch, topics: dict[str, int], code: str
):
    install_fastapi(monkeypatch)
    async with FakeCluster(topics=topics) as cluster:
        monkeypatch.setenv("KAFKA_BOOTSTRAP", cluster.bootstrap_servers)
        service: dict[str, Any] = {}
        exec(code.replace(SERVERS, cluster.bootstrap_servers), service)
        app = service["app"]

        async def body() -> bytes:
            return b"one tea"

        async with app.lifespan(app):
            request = SimpleNamespace(app=app, body=body)
            answer = await app.routes["/orders"](request)
            if "/ready" in app.routes:
                assert await app.routes["/ready"](request) == ("", 200)
                cluster.kill(0)
                while await app.routes["/ready"](request) == ("", 200):
                    await asyncio.sleep(0.01)
                text, status = await app.routes["/ready"](request)
                assert (status, "no broker" in text) == (503, True)
                assert (await app.routes["/alive"](request))[1] == 200
                kafka_failed = app.errors[KafkaError]
                assert await kafka_failed(request, KafkaTimeoutError()) == (
                    "KafkaTimeoutError",
                    503,
                )
        assert answer["offset"] == 0
        assert [record.value for record in cluster.records("orders")] == [b"one tea"]


QUEUE_BLOCKS = re.findall(
    r"^```python\n(.*?)^```$",
    (ROOT / "docs" / "share-groups.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


def queue_block(word: str) -> str:
    """The only block of docs/share-groups.md that contains the word."""
    (code,) = (code for code in QUEUE_BLOCKS if word in code)
    return code


@pytest.mark.parametrize(
    ("service_code", "worker_code"),
    [
        ((EXAMPLES / "queue_service.py").read_text(), (EXAMPLES / "queue_worker.py").read_text()),
        (queue_block("from fastapi"), queue_block("import signal")),
    ],
    ids=["examples", "docs"],
)
async def test_work_queue_example(
    monkeypatch: pytest.MonkeyPatch, service_code: str, worker_code: str
):
    install_fastapi(monkeypatch)
    jobs = [b'{"to": "a@example.org", "text": "hi"}', b"nonsense"]
    async with FakeCluster() as cluster:
        monkeypatch.setenv("KAFKA_BOOTSTRAP", cluster.bootstrap_servers)
        for _ in range(2):  # the queue may exist
            service: dict[str, Any] = {}
            exec(service_code.replace(SERVERS, cluster.bootstrap_servers), service)
            app = service["app"]
            async with app.lifespan(app):
                job = jobs.pop()

                async def body(job: bytes = job) -> bytes:
                    return job

                answer = await app.routes["/mails"](SimpleNamespace(app=app, body=body))
                assert answer["offset"] == 0 or not jobs
        async with running(cluster, worker_code) as process:
            assert await next_line(process) == "delivery 1 to a@example.org: hi"
            while not cluster.dead_letters("mailers"):
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
            assert process.returncode == 0
            assert errors.count(b"rejected mails-") == 1
        assert not any(cluster.share_group("mailers").acquired.values())
        code = (EXAMPLES / "queue_dead_letters.py").read_text()
        async with running(cluster, code, "--again") as process:
            line = await next_line(process)
            assert line.endswith("b'nonsense': Offset rejected by client.")
            _, errors = await process.communicate()
            assert (process.returncode, errors) == (0, b"")
        values = [record.value for record in cluster.records("mails")]
        assert values.count(b"nonsense") == 2


async def test_streaming_service_example(monkeypatch: pytest.MonkeyPatch, topics: dict[str, int]):
    install_fastapi(monkeypatch)
    async with FakeCluster(topics=topics) as cluster:
        monkeypatch.setenv("KAFKA_BOOTSTRAP", cluster.bootstrap_servers)
        service: dict[str, Any] = {}
        exec((EXAMPLES / "streaming_service.py").read_text(), service)
        app = service["app"]
        request = SimpleNamespace(app=app)
        handler = signal.getsignal(signal.SIGTERM)
        terminated: list[int] = []
        signal.signal(signal.SIGTERM, lambda signum, frame: terminated.append(signum))
        try:
            async with app.lifespan(app):
                (events, media_type) = await app.routes["/events"](request)
                assert media_type == "text/event-stream"
                sent: list[bytes] = []

                async def collect() -> None:
                    sent.extend([part async for part in events])

                client = asyncio.create_task(collect())
                socket = WebSocket(app)
                other = asyncio.create_task(app.routes["/socket"](socket))
                await socket.accepted.wait()
                while not (socket.sent and socket.sent[-1] == b"two\nlines"):
                    cluster.produce("orders", b"two\nlines")
                    await asyncio.sleep(0.01)
                assert await app.routes["/ready"](request) == ("", 200)
                assert await app.routes["/alive"](request) == ("", 200)

                os.kill(os.getpid(), signal.SIGTERM)  # ends the streams before the lifespan
                await client
                await other
            assert terminated == [signal.SIGTERM]
            assert sent[:3] == [b"data: two\n", b"data: lines\n", b"\n"]
            assert socket.closed == [1001]
        finally:
            signal.signal(signal.SIGTERM, handler)


async def test_slow_client_of_the_streaming_service_is_disconnected(
    monkeypatch: pytest.MonkeyPatch,
):
    install_fastapi(monkeypatch)
    service: dict[str, Any] = {}
    exec((EXAMPLES / "streaming_service.py").read_text(), service)
    hub = service["Hub"]()
    slow = hub.values()
    waiting = asyncio.create_task(anext(slow))
    await asyncio.sleep(0)
    for number in range(service["QUEUE"] + 5):
        hub.publish(b"%d" % number)
    values = [await waiting, *[value async for value in slow]]
    assert values == [b"%d" % number for number in range(service["QUEUE"])]


async def test_aiohttp_service_example(monkeypatch: pytest.MonkeyPatch, topics: dict[str, int]):
    install_aiohttp(monkeypatch)
    async with FakeCluster(topics=topics) as cluster:
        monkeypatch.setenv("KAFKA_BOOTSTRAP", cluster.bootstrap_servers)
        service: dict[str, Any] = {"__name__": "service"}
        code = (EXAMPLES / "aiohttp_service.py").read_text()
        for long in ("2_000", "5_000"):
            assert long in code
            code = code.replace(long, "500")
        exec(code, service)
        app = service["app"]

        async def read() -> bytes:
            return b"one tea"

        (kafka,) = app.cleanup_ctx
        async with asynccontextmanager(kafka)(app):
            request = SimpleNamespace(app=app, read=read)
            answer = await app.routes["/orders"](request)
            assert await app.routes["/ready"](request) == ("", 200)
            cluster.kill(0)
            while await app.routes["/ready"](request) == ("", 200):
                await asyncio.sleep(0.01)
            text, status = await app.routes["/ready"](request)
            assert (status, "no broker" in text) == (503, True)
            assert (await app.routes["/alive"](request))[1] == 200
            text, status = await app.routes["/orders"](request)
            assert (text, status) in (("DeliveryTimeoutError", 503), ("KafkaTimeoutError", 503))
        assert answer == {"partition": 0, "offset": 0}
        assert [record.value for record in cluster.records("orders")] == [b"one tea"]


def test_example_test_of_the_readme(pytester: pytest.Pytester):
    code = block("async def test_")
    pytester.makepyfile(code)
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-p", "no:anyio", "-W", "error", *options
    )
    result.assert_outcomes(passed=1)


def test_every_example_is_tested():
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    services = {"fastapi_service", "aiohttp_service", "streaming_service"}
    queue = {"queue_service", "queue_worker", "queue_dead_letters"}
    assert programs == {"produce", "consume", "worker", "exactly_once", "outbox"} | services | queue
    assert len(BLOCKS) == 5  # the fifth needs Spark


async def run_cells(notebook: str) -> dict[str, Any]:
    """Run the cells of a notebook as IPython does: in one namespace, with top-level `await`."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(notebook)["cells"]:
        if cell["cell_type"] != "code":
            continue
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile("".join(cell["source"]), cell["id"], "exec", flags=flags)
        result = eval(code, namespace)
        if inspect.isawaitable(result):
            await result
    return namespace


async def test_notebook(monkeypatch: pytest.MonkeyPatch):
    async with FakeCluster(topics={"orders": 3}) as cluster:
        monkeypatch.setenv("KAFKA_BOOTSTRAP", cluster.bootstrap_servers)
        namespace = await run_cells(NOTEBOOK)
        assert namespace["totals"] == {"tea": 3.5, "coffee": 4.0, "cake": 5.5}
        assert len(cluster.records("orders")) == 3
        again = await run_cells(NOTEBOOK)
        assert again["totals"] == {"tea": 7.0, "coffee": 8.0, "cake": 11.0}


def test_notebook_is_stored_without_results():
    cells = json.loads(NOTEBOOK)["cells"]
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)
    assert len({cell["id"] for cell in cells}) == len(cells)
