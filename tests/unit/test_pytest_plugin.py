"""The pytest plugin as users run it: installed by entry point, in separate pytest runs."""

import pytest

pytestmark = pytest.mark.timeout(120)  # each run is a process that imports its frameworks

ROUND_TRIP = """
from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer

async def round_trip(servers, topic):
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(topic, b"one tea")
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest"
    ) as consumer:
        return (await consumer.getone()).value
"""


ASYNCIO = ("-p", "no:anyio", "-o", "asyncio_mode=auto")
ASYNCIO += ("-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "no:asyncio")
NEITHER = ("-p", "no:asyncio", "-p", "no:anyio")


def run(
    pytester: pytest.Pytester, code: str, framework: tuple[str, ...] = NEITHER
) -> pytest.RunResult:
    pytester.makepyfile(code)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", *framework)


def test_sync_tests(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import socket, threading, time
        import pytest
        from aiokafka_lite.testing import FakeCluster, VirtualClock

        pytestmark = pytest.mark.kafka(topics={"orders": 6}, default_partitions=4)
        seen = []

        def test_one(kafka_broker, kafka_topic):
            assert isinstance(kafka_broker, FakeCluster)
            host, port = kafka_broker.bootstrap_servers.split(":")
            socket.create_connection((host, int(port))).close()
            assert kafka_broker.produce("orders", b"x") == 0
            assert kafka_broker.produce(kafka_topic, b"x") == 0
            seen.append((kafka_broker.bootstrap_servers, threading.active_count()))

        def test_another_is_another(kafka_broker):
            assert kafka_broker.records("orders") == []
            assert threading.active_count() == seen[0][1]
            with pytest.raises(OSError):
                host, port = seen[0][0].split(":")
                socket.create_connection((host, int(port)))

        @pytest.mark.kafka(topics=["mine"], brokers=2)
        def test_the_nearer_marker(kafka_cluster, kafka_topic_factory):
            assert kafka_cluster.bootstrap_servers.count(",") == 1
            assert list(kafka_cluster.state.topics) == ["mine"]
            assert len(kafka_cluster.create_topic("more").partitions) == 4
            names = [kafka_topic_factory(2, {"cleanup.policy": "compact"}) for _ in range(2)]
            assert names == ["test_the_nearer_marker-1", "test_the_nearer_marker-2"]
            assert kafka_cluster.partition(names[0], 1).topic.is_compacted

        @pytest.mark.parametrize("text", ["a b/ü"])
        def test_names_that_kafka_takes(kafka_topic, text):
            assert kafka_topic == "test_names_that_kafka_takes-a-b-xfc-1"

        @pytest.mark.kafka(clock=VirtualClock)
        @pytest.mark.parametrize("number", [1, 2])
        def test_each_has_a_clock_of_its_own(kafka_broker, number):
            kafka_broker.advance(3600)
            assert 3590 < kafka_broker.state.clock.now_ms() / 1000 - time.time() <= 3600

        def test_three(kafka_cluster):
            assert kafka_cluster.bootstrap_servers.count(",") == 2
        """,
    )
    result.assert_outcomes(passed=7)


def test_asyncio_tests(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        ROUND_TRIP
        + """
async def test_with_our_client(kafka_broker, kafka_topic):
    assert await round_trip(kafka_broker.bootstrap_servers, kafka_topic) == b"one tea"

async def test_a_restarted_broker(kafka_cluster, kafka_topic):
    kafka_cluster.kill(0)
    await kafka_cluster.restart(0)
    assert await round_trip(kafka_cluster.bootstrap_servers, kafka_topic) == b"one tea"
""",
        ASYNCIO,
    )
    result.assert_outcomes(passed=2)


def test_anyio_tests_on_both_backends(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        ROUND_TRIP
        + """
import anyio, pytest, sniffio
from aiokafka_lite.protocol.registry import ApiKey

pytestmark = pytest.mark.anyio

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

async def test_controls(kafka_broker, kafka_topic):
    kafka_broker.kill(0)
    host, port = kafka_broker.bootstrap_servers.split(":")
    with pytest.raises(OSError):
        await anyio.connect_tcp(host, int(port))
    await kafka_broker.restart(0)
    async with await anyio.connect_tcp(host, int(port)):
        assert kafka_broker.produce(kafka_topic, b"x") == 0

async def test_a_client_in_a_thread(kafka_broker, kafka_topic):
    import asyncio
    trip = round_trip(kafka_broker.bootstrap_servers, kafka_topic)
    fault = kafka_broker.control(ApiKey.PRODUCE, delay=0.01)
    assert await anyio.to_thread.run_sync(asyncio.run, trip) == b"one tea"
    assert fault.hits == 1
""",
        ANYIO,
    )
    result.assert_outcomes(passed=4)


def test_foreign_clients(pytester: pytest.Pytester) -> None:
    pytest.importorskip("confluent_kafka")
    result = run(
        pytester,
        """
        import confluent_kafka

        def test_a_foreign_client(kafka_broker, kafka_topic):
            servers = kafka_broker.bootstrap_servers
            producer = confluent_kafka.Producer({"bootstrap.servers": servers})
            producer.produce(kafka_topic, b"one tea", b"table 4")
            assert producer.flush(20) == 0
            (record,) = kafka_broker.records(kafka_topic)
            assert (record.key, record.value) == (b"table 4", b"one tea")
        """,
    )
    result.assert_outcomes(passed=1)


def test_internal_broker_error_fails_the_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import socket
        import pytest

        def ask_something(cluster):
            cluster.control(when=lambda request: 1 / 0, drop=True)
            host, port = cluster.bootstrap_servers.split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
                assert client.recv(1) == b""

        def test_that_would_pass(kafka_broker):
            ask_something(kafka_broker)

        @pytest.fixture
        def late(kafka_broker):
            yield
            ask_something(kafka_broker)

        def test_whose_fixture_fails_the_broker(late):
            pass

        def test_that_fails_by_itself(kafka_broker):
            ask_something(kafka_broker)
            raise LookupError("its own reason")
        """,
    )
    result.assert_outcomes(passed=1, failed=2, errors=2)
    result.stdout.fnmatch_lines(["*ZeroDivisionError*", "*LookupError: its own reason*"])


def test_bad_markers(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kafka(broker=3)
        def test_a_name_that_is_wrong(kafka_broker): ...

        @pytest.mark.kafka(brokers=0)
        def test_a_value_that_is_wrong(kafka_broker): ...

        @pytest.mark.kafka(3)
        def test_without_names(kafka_broker): ...
        """,
    )
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*unexpected keyword argument 'broker'*",
            "*must be at least 1*",
            "*keyword arguments only*",
        ]
    )


def test_plugin_imports_nothing_unless_used(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import sys

        def test_it():
            assert "pytest_aiokafka_lite" in sys.modules
            assert [name for name in sys.modules if name.startswith("aiokafka_lite")] == []
        """,
    )
    result.assert_outcomes(passed=1)
