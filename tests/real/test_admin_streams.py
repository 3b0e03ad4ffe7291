"""A Kafka Streams application of the streams protocol (KIP-1071), described by the admin client."""

import asyncio
import contextlib
import subprocess
import uuid
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    NewTopic,
    StreamsGroupDescription,
    StreamsNodeType,
    TopologyDescriptionStatus,
)
from aiokafka_lite.errors import GroupIdNotFound, NonEmptyGroup
from aiokafka_lite.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tools.kafka import KafkaCluster, jars, java
from tools.kafka.jars import KafkaNotAvailable

JAVA = Path(__file__).parent / "java"
STREAMS = "4.3.1"
"""The newest release of Kafka Streams that is complete in the registry."""
WORDS = ("tea", "milk", "tea", "rice", "tea")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar of a plugin that stores descriptions of topologies (KIP-1331)."""
    folder = tmp_path_factory.mktemp("plugin")
    compiler = [jars.java(), "--module", "jdk.compiler/com.sun.tools.javac.Main"]
    class_path = ":".join(str(each) for each in jars.resolve().glob("*.jar"))
    source = str(JAVA / "TopologyPlugin.java")
    command = [*compiler, "-cp", class_path, "-d", str(folder), source]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    jar = folder / "plugin.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Premain-Class: TopologyPlugin\n")
        archive.write(folder / "TopologyPlugin.class", "TopologyPlugin.class")
    return jar


@pytest.fixture(scope="module")
def streams_class_path() -> str:
    try:
        streams = jars.resolve_artifact("org.apache.kafka", "kafka-streams", STREAMS)
        return f"{jars.class_path(STREAMS)}:{streams}"
    except KafkaNotAvailable as error:
        pytest.skip(f"Kafka Streams {STREAMS} is not available: {error}")


@pytest.fixture(scope="module")
def cluster(plugin: Path) -> Iterator[KafkaCluster]:
    config = {"group.streams.topology.description.plugin.class": "TopologyPlugin"}
    with pytest.MonkeyPatch.context() as environment:
        # An agent's jar is on the class path, also that of the program that formats the disk.
        environment.setenv("JDK_JAVA_OPTIONS", f"-javaagent:{plugin}")
        cluster = KafkaCluster(config=config)
        cluster.__enter__()
    with contextlib.ExitStack() as stack:
        stack.push(cluster)
        yield cluster


@pytest.fixture
async def admin(cluster: KafkaCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


class Application:
    """The application of `StreamsApplication.java`.

    Attributes:
        group: Its application id.
    """

    def __init__(self, cluster: KafkaCluster, class_path: str) -> None:
        self.group = f"words-{uuid.uuid4().hex[:8]}"
        self.source, self.sink = f"{self.group}-in", f"{self.group}-out"
        self._servers = cluster.bootstrap_servers
        options = ["-Xmx200m", "-XX:+UseSerialGC", "-Dorg.apache.logging.log4j.level=OFF"]
        self._command = [jars.java(), *options, "-cp", class_path]
        self._command += [str(JAVA / "StreamsApplication.java"), self._servers]
        self._command += [self.group, self.source, self.sink]
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "Application":
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 60)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            raise

    async def counts(self, wanted: int) -> dict[bytes | None, bytes | None]:
        """Send the words, and return their counts once as many have arrived."""
        async with AIOKafkaProducer(bootstrap_servers=self._servers) as producer:
            for word in WORDS:
                await producer.send_and_wait(self.source, word.encode())
        found: dict[bytes | None, bytes | None] = {}
        arrived = 0
        async with AIOKafkaConsumer(
            self.sink, bootstrap_servers=self._servers, auto_offset_reset="earliest"
        ) as consumer:
            async with asyncio.timeout(90):
                while arrived < wanted:
                    record = await consumer.getone()
                    found[record.key] = record.value
                    arrived = sum(int(value or 0) for value in found.values())
        return found


def a_description() -> TopologyDescription:
    """What a client of Kafka 4.4 sends about such an application."""
    source = TopologyDescriptionNode("SOURCE-0", 1, ["in"], successors=["FILTER-1"])
    filtering = TopologyDescriptionNode("FILTER-1", 2, stores=["seen"], successors=["SINK-2"])
    sink = TopologyDescriptionNode("SINK-2", 3, sink_topic="out")
    store = TopologyDescriptionGlobalStore(
        TopologyDescriptionNode("GLOBAL-3", 1, ["prices"], successors=["FILL-4"]),
        TopologyDescriptionNode("FILL-4", 2, stores=["prices-store"]),
    )
    parts = [TopologyDescriptionSubtopology("0", [source, filtering, sink])]
    return TopologyDescription(parts, [store])


async def until(condition: Any) -> None:
    """Wait until a coroutine function returns a true value."""
    async with asyncio.timeout(90):
        while not await condition():
            await asyncio.sleep(0.1)


@pytest.mark.timeout(600)
@pytest.mark.long
async def test_streams_application_is_described(
    admin: AIOKafkaAdminClient, cluster: KafkaCluster, streams_class_path: str
) -> None:
    application = Application(cluster, streams_class_path)
    new = [NewTopic(application.source, 2, 1), NewTopic(application.sink, 1, 1)]
    await admin.create_topics(new, raise_errors=True)
    await admin.wait_for_topics([application.source, application.sink])
    group = application.group

    async def describe(**options: Any) -> StreamsGroupDescription | None:
        found = await admin.describe_streams_groups([group], **options)
        return None if isinstance(found[group], GroupIdNotFound) else found.value(group)

    async def stable() -> bool:
        found = await describe()
        return found is not None and found.state == "Stable" and bool(found.members)

    async with application:
        await until(stable)
        counts = await application.counts(len(WORDS))
        assert counts == {b"tea": b"3", b"milk": b"1", b"rice": b"1"}
        found = await describe(include_authorized_operations=True)
        assert found is not None
        assert found.group_epoch == found.assignment_epoch
        assert found.authorized_operations
        assert found.coordinator_id == 0
        assert found.topology is not None
        first, second = found.topology.subtopologies or ()
        [repartition] = second.repartition_source_topics
        assert first.source_topics == (application.source,)
        assert first.repartition_sink_topics == (repartition.name,)
        [changelog] = second.state_changelog_topics
        assert changelog.name == f"{group}-counts-changelog"
        assert changelog.configs["cleanup.policy"] == "compact"
        assert {changelog.name, repartition.name} <= set(await admin.list_topics())

        member = found.members[0]
        assert member.client_id.startswith("words")
        assert not member.is_classic
        tasks = {task for each in found.members for task in each.assignment.active}
        assert tasks == {
            (part.subtopology_id, partition) for part in (first, second) for partition in (0, 1)
        }
        listed = {each.group_id: each.type for each in (await admin.list_groups()).valid()}
        assert listed[group] == "streams"
        busy = await admin.delete_streams_groups([group])
        assert isinstance(busy[group], NonEmptyGroup)

        arguments = ["--bootstrap-server", cluster.bootstrap_servers, "--describe"]
        arguments += ["--group", group, "--members"]
        seen = await asyncio.to_thread(
            java.run, "org.apache.kafka.tools.streams.StreamsGroupCommand", arguments, STREAMS
        )
        assert any(member.member_id in line for line in seen), seen

        # A client of Kafka 4.3 sends no description of its topology.
        none = await describe(include_topology_description=True)
        assert none is not None
        assert none.topology_description_status is TopologyDescriptionStatus.NOT_STORED
        assert none.topology_description is None
        request = StreamsGroupTopologyDescriptionUpdateRequest(
            group, member.member_id, found.topology.epoch, a_description()
        )
        async with AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            response = await client.send(found.coordinator_id, request)
            assert response.error_code == 0, response
        described = await describe(include_topology_description=True)
        assert described is not None
        assert described.topology_description_status is TopologyDescriptionStatus.AVAILABLE
        assert described.topology_description is not None
        [nodes] = described.topology_description.subtopologies.values()
        source, filtering, sink = sorted(nodes, key=lambda node: node.type)
        assert (source.type, source.source_topics) == (StreamsNodeType.SOURCE, {"in"})
        assert (filtering.stores, filtering.predecessors) == ({"seen"}, {"SOURCE-0"})
        assert (sink.sink_topic, sink.predecessors, sink.successors) == ("out", {"FILTER-1"}, set())
        [(of_store, filling)] = described.topology_description.global_stores
        assert (of_store.name, filling.stores) == ("GLOBAL-3", {"prices-store"})
        assert filling.predecessors == {"GLOBAL-3"}
        assert (await describe() or found).topology_description is None  # not requested

    async def empty() -> bool:
        found = await describe()
        return found is not None and found.state == "Empty"

    await until(empty)
    (await admin.delete_streams_groups([group])).raise_for_errors()
    assert await describe() is None
