"""The client's view of a cluster: start, refresh, waiting, lost brokers and close."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest

from aiokafka_lite.cluster import retry
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.metadata import LeaderHint, Node
from aiokafka_lite.cluster.refresh import refresh_task
from aiokafka_lite.errors import (
    IllegalStateError,
    InvalidTopicError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.registry import ApiKey


def names_asked(request: MetadataRequest) -> list[str] | None:
    return None if request.topics is None else [topic.name for topic in request.topics]


class TestStart:
    async def test_start_learns_the_brokers(self, tiny_kafka, cluster_of):
        kafka = await tiny_kafka(brokers=3)
        cluster = cluster_of(kafka)
        assert cluster.metadata.version == 0
        await cluster.start()
        assert set(cluster.metadata.brokers) == {1, 2, 3}
        assert cluster.metadata.cluster_id == "tiny"
        assert cluster.metadata.controller_id == 1
        assert cluster.broker(2).node == Node(2, "127.0.0.1", kafka.brokers[2].port)
        assert names_asked(kafka.metadata_requests[0]) == []
        # The bootstrap connection is kept.
        await asyncio.gather(*(cluster.broker(n).connection() for n in (1, 2, 3)))
        assert [broker.connections for broker in kafka.brokers.values()] == [1, 1, 1]

    @pytest.mark.parametrize("release", ["0.8.2", "0.9", "0.10.0", "0.11", "2.3", "2.8", "4.4"])
    async def test_start_with_any_release(self, release, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka(release=release)
        kafka.ids["t"] = UUID(int=7)
        kafka.topics["other"] = {0: (1, 0)}
        cluster = cluster_of(kafka, options={"connect_timeout": 0.3})
        await cluster.start()
        assert cluster.metadata.topics == {}
        assert (await cluster.partitions_of("t", soon()))[0].leader == 1
        assert set(cluster.metadata.topics) == {"t"}
        v0 = release in ("0.8.2", "0.9")
        assert cluster.metadata.controller_id == (-1 if v0 else 1)
        assert (cluster.metadata.topics["t"].topic_id is not None) == (release in ("2.8", "4.4"))

    async def test_start_with_an_old_cluster_without_topics(self, tiny_kafka, cluster_of, soon):
        """0.8.2 lists no broker before the first topic, which is created when requested."""
        kafka = await tiny_kafka(release="0.8.2")
        respond = kafka.answers[ApiKey.METADATA]

        def answer(broker, request, version):
            made = "t" in (names_asked(request) or ())
            kafka.hidden = set() if made or not kafka.hidden else {1}
            return respond(broker, request, version)

        kafka.answers[ApiKey.METADATA] = answer
        kafka.hidden = {1}
        cluster = cluster_of(kafka, options={"connect_timeout": 0.3})
        await cluster.start()
        assert cluster.metadata.brokers == {}
        assert cluster.least_loaded() is None
        assert cluster.any_broker().node_id < 0
        await cluster.partitions_of("t", soon())
        assert cluster.metadata.leader("t", 0) == cluster.broker(1).node

    async def test_start_skips_dead_addresses(self, tiny_kafka, cluster_of, dead_address):
        kafka = await tiny_kafka()
        for _ in range(5):  # the order is random
            await cluster_of([dead_address, *kafka.bootstrap]).start()

    async def test_start_without_deadline_waits_for_each_address(
        self, tiny_kafka, cluster_of, monkeypatch
    ):
        monkeypatch.setattr(refresh_task, "PATIENCE", 0.001)
        kafka = await tiny_kafka()
        kafka.brokers[1].speaking.clear()
        asyncio.get_running_loop().call_later(0.1, kafka.brokers[1].speaking.set)
        await cluster_of(kafka).start()

    async def test_start_moves_on_from_an_unresponsive_address(
        self, tiny_kafka, cluster_of, soon, monkeypatch
    ):
        monkeypatch.setattr(refresh_task, "PATIENCE", 0.05)
        kafka = await tiny_kafka(brokers=3)
        kafka.brokers[1].speaking.clear()
        kafka.brokers[2].speaking.clear()
        for _ in range(5):  # the order is random
            await cluster_of(kafka).start(soon())

    async def test_start_raises_if_no_broker_answers(self, cluster_of, dead_address):
        cluster = cluster_of([dead_address])
        for _ in range(2):
            with pytest.raises(KafkaConnectionError, match=f"127.0.0.1:{dead_address[1]}"):
                await cluster.start()
            assert not cluster.started
            with pytest.raises(IllegalStateError, match="not started"):
                cluster.check_open()

    async def test_start_again_after_a_failure(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        await kafka.stop()
        cluster = cluster_of(kafka)
        cluster.add_topic("t")
        seen = []
        cluster.add_listener(seen.append)
        for _ in range(3):
            with pytest.raises(KafkaConnectionError):
                await cluster.start()
        await kafka.start()
        await cluster.start()
        assert seen == [cluster.metadata]
        assert set(cluster.metadata.brokers) == {1}
        assert await cluster.partitions_of("t", soon())

    async def test_reset_forgets_brokers_and_wakes_waiting_callers(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        version = cluster.metadata.version
        kafka.brokers[1].speaking.clear()
        waiting = asyncio.create_task(cluster.refresh(soon()))
        await asyncio.sleep(0)
        cluster.reset()
        with pytest.raises(IllegalStateError, match="not started"):
            await waiting
        await until(lambda: kafka.brokers[1].open_connections == 0)
        assert not cluster.metadata.brokers
        kafka.brokers[1].speaking.set()
        await cluster.start()
        assert (
            cluster.metadata.version > version
        )  # no caller mistakes an old response for a new one

    async def test_start_retries_until_the_deadline(self, tiny_kafka, cluster_of, soon, until):
        kafka = await tiny_kafka()
        await kafka.stop()
        cluster = cluster_of(kafka)
        starting = asyncio.create_task(cluster.start(soon()))
        await asyncio.sleep(0.05)
        await kafka.start()
        await starting
        assert cluster.metadata.version > 0

    async def test_start_raises_at_the_deadline(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        kafka.brokers[1].speaking.clear()
        cluster = cluster_of(kafka)
        with pytest.raises(KafkaConnectionError, match="bootstrap"):
            await cluster.start(soon(0.05))
        kafka.brokers[1].speaking.set()
        await cluster.start(soon())
        assert cluster.metadata.brokers

    async def test_cancelled_start_leaves_nothing_open(self, tiny_kafka, cluster_of, until):
        kafka = await tiny_kafka()
        kafka.brokers[1].speaking.clear()
        cluster = cluster_of(kafka)
        starting = asyncio.create_task(cluster.start())
        await until(lambda: kafka.brokers[1].connections)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await until(lambda: kafka.brokers[1].open_connections == 0)
        kafka.brokers[1].speaking.set()
        await cluster.start()
        assert cluster.metadata.brokers

    async def test_starting_twice_raises(self, tiny_kafka, cluster_of):
        cluster = cluster_of(await tiny_kafka())
        await cluster.start()
        with pytest.raises(IllegalStateError):
            await cluster.start()
        assert not cluster.closed

    def test_invalid_addresses_raise(self, cluster_of):
        with pytest.raises(KafkaConfigurationError):
            cluster_of([("", 1)])


class TestRefresh:
    async def test_concurrent_callers_share_one_refresh(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        got = await asyncio.gather(*(cluster.refresh(soon()) for _ in range(100)))
        assert len(kafka.metadata_requests) == 2
        assert len(set(map(id, got))) == 1

    async def test_request_during_a_refresh_waits_for_the_next_one(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        server = kafka.brokers[1]
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.broker(1).connection()
        server.speaking.clear()
        first = asyncio.create_task(cluster.refresh(soon()))
        await until(lambda: len(kafka.metadata_requests) == 2)
        later = [asyncio.create_task(cluster.refresh(soon())) for _ in range(100)]
        await asyncio.sleep(0.02)
        assert len(kafka.metadata_requests) == 2
        server.speaking.set()
        before = (await first).version
        assert {metadata.version for metadata in await asyncio.gather(*later)} == {before + 1}
        assert len(kafka.metadata_requests) == 3

    async def test_topic_added_during_a_refresh_is_in_the_next_one(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        server = kafka.brokers[1]
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.broker(1).connection()
        server.speaking.clear()
        cluster.request_update()
        await until(lambda: len(kafka.metadata_requests) == 2)
        asking = [asyncio.create_task(cluster.partitions_of("t", soon())) for _ in range(10)]
        await asyncio.sleep(0.02)
        server.speaking.set()
        await asyncio.gather(*asking)
        assert [names_asked(r) for r in kafka.metadata_requests[1:]] == [[], ["t"]]

    async def test_topic_in_a_pending_request_is_not_requested_twice(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        server = kafka.brokers[1]
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.broker(1).connection()
        server.speaking.clear()
        first = asyncio.create_task(cluster.partitions_of("t", soon()))
        await until(lambda: len(kafka.metadata_requests) == 2)
        second = asyncio.create_task(cluster.partitions_of("t", soon()))
        await asyncio.sleep(0.02)
        server.speaking.set()
        assert await first == await second
        await asyncio.sleep(0.05)
        assert len(kafka.metadata_requests) == 2

    async def test_cancelling_one_caller_keeps_the_refresh_for_others(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        server = kafka.brokers[1]
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.broker(1).connection()
        server.speaking.clear()
        first, second = (asyncio.create_task(cluster.refresh(soon())) for _ in range(2))
        await until(lambda: len(kafka.metadata_requests) == 2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        server.speaking.set()
        assert (await second).version == 2
        assert len(kafka.metadata_requests) == 2

    async def test_refresh_by_age(self, tiny_kafka, cluster_of, until):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka, metadata_max_age=0.02)
        await cluster.start()
        await until(lambda: cluster.metadata.version >= 4)

    async def test_deadline_of_one_caller_does_not_end_the_refresh(
        self, tiny_kafka, cluster_of, soon
    ):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        kafka.brokers[1].speaking.clear()
        with pytest.raises(KafkaTimeoutError):
            await cluster.refresh(soon(0.02))
        kafka.brokers[1].speaking.set()
        assert (await cluster.refresh(soon())).version > 1

    async def test_timeout_names_the_last_error(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        await kafka.stop()
        with pytest.raises(KafkaTimeoutError, match=r"127\.0\.0\.1") as caught:
            await cluster.refresh(soon(0.1))
        assert isinstance(caught.value.__cause__, KafkaConnectionError)

    async def test_refresh_moves_on_from_an_unresponsive_broker(
        self, tiny_kafka, cluster_of, soon, monkeypatch
    ):
        monkeypatch.setattr(refresh_task, "PATIENCE", 0.05)
        kafka = await tiny_kafka(brokers=3)
        cluster = cluster_of(kafka)
        await cluster.start()
        kafka.brokers[1].speaking.clear()
        kafka.brokers[2].speaking.clear()
        for _ in range(5):
            await cluster.refresh(soon())
        assert len(kafka.brokers[3].asked(MetadataRequest)) >= 5

    @pytest.mark.parametrize("brokers", [1, 2])
    async def test_refresh_gets_metadata_from_brokers_that_are_all_slow(
        self, tiny_kafka, cluster_of, soon, monkeypatch, brokers
    ):
        monkeypatch.setattr(refresh_task, "PATIENCE", 0.05)
        kafka = await tiny_kafka(brokers=brokers)
        cluster = cluster_of(kafka)
        await cluster.start()
        answer = kafka.answers[ApiKey.METADATA]

        async def answer_slowly(*question):
            await asyncio.sleep(0.08)
            return answer(*question)

        kafka.answers[ApiKey.METADATA] = answer_slowly
        await cluster.refresh(soon())
        before = len(kafka.metadata_requests)
        await cluster.refresh(soon())  # it has measured how long they take
        assert len(kafka.metadata_requests) == before + 1

    async def test_auto_create_flag_is_sent(self, tiny_kafka, cluster_of, soon):
        for allowed in (True, False):
            kafka = await tiny_kafka()
            cluster = cluster_of(kafka, allow_auto_create_topics=allowed)
            await cluster.start()
            assert kafka.metadata_requests[-1].allow_auto_topic_creation is allowed


class TestTopics:
    async def test_only_tracked_topics_are_requested(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        kafka.topics |= {"u": {0: (1, 0)}, "v": {0: (1, 0)}}
        cluster = cluster_of(kafka)
        cluster.set_topics(["t"])
        await cluster.start()
        assert set(cluster.metadata.topics) == {"t"}
        await cluster.wait_for_version(cluster.add_topic("u"), soon())
        assert names_asked(kafka.metadata_requests[-1]) == ["u"], "the new one alone"
        await cluster.refresh(soon())
        assert names_asked(kafka.metadata_requests[-1]) == ["t", "u"]

    async def test_known_topics_cause_no_request(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.partitions_of("t", soon())
        sent = len(kafka.metadata_requests)
        for _ in range(3):
            await cluster.partitions_of("t", soon())
            await cluster.wait_for_version(cluster.add_topic("t"), soon())
            await cluster.wait_for_version(cluster.set_topics(["t"]), soon())
        await asyncio.sleep(0.05)
        assert len(kafka.metadata_requests) == sent

    async def test_set_topics_replaces_the_previous_set(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        kafka.topics["u"] = {0: (1, 0)}
        cluster = cluster_of(kafka)
        await cluster.start()
        assert set((await cluster.wait_for_version(cluster.set_topics(["t"]), soon())).topics) == {
            "t"
        }
        assert set((await cluster.wait_for_version(cluster.set_topics(["u"]), soon())).topics) == {
            "u"
        }

    async def test_unused_topics_are_forgotten(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka, topic_expiry=0.0)
        await cluster.start()
        await cluster.partitions_of("t", soon())
        await cluster.refresh(soon())
        await cluster.refresh(soon())
        assert cluster.metadata.topics == {}
        assert names_asked(kafka.metadata_requests[-1]) == []

    async def test_awaited_topic_is_not_forgotten(self, tiny_kafka, cluster_of, soon):
        """However long the wait is: the expiry of unused topics may be shorter."""
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka, topic_expiry=0.05)
        await cluster.start()
        waiting = asyncio.create_task(cluster.partitions_of("new", soon()))
        await asyncio.sleep(0.2)
        kafka.topics["new"] = {0: (1, 0)}
        assert 0 in await waiting

    @pytest.mark.parametrize("release", ["0.9", "4.4"])
    async def test_all_topics(self, release, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka(release=release)
        kafka.topics["u"] = {0: (1, 0)}
        cluster = cluster_of(kafka, options={"connect_timeout": 0.3})
        await cluster.start()
        metadata = await cluster.wait_for_version(cluster.set_topics(None), soon())
        assert set(metadata.topics) == {"t", "u"}
        assert names_asked(kafka.metadata_requests[-1]) == ([] if release == "0.9" else None)
        # A missing topic is created only by a request that names it.
        waiting = asyncio.create_task(cluster.partitions_of("new", soon()))
        await asyncio.sleep(0.02)
        kafka.topics["new"] = {0: (1, 0)}
        assert 0 in await waiting
        assert set(cluster.metadata.topics) == {"t", "u", "new"}
        cluster.set_topics(["t"])
        await cluster.refresh(soon())
        assert set(cluster.metadata.topics) == {"t", "new"}

    async def test_partitions_of_waits_until_the_topic_exists(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        kafka.errors["new"] = 5
        cluster = cluster_of(kafka)
        await cluster.start()
        waiting = asyncio.create_task(cluster.partitions_of("new", soon()))
        await until(lambda: "new" in cluster.metadata.topics)
        kafka.errors["new"] = 3
        await until(lambda: cluster.metadata.topics["new"].error is UnknownTopicOrPartitionError)
        del kafka.errors["new"]
        kafka.topics["new"] = {0: (1, 0), 1: (-1, 0)}
        assert set(await waiting) == {0, 1}
        # Without any caller, a partition without a leader is requested until it has one.
        kafka.topics["new"] = {0: (1, 0), 1: (1, 1)}
        await until(lambda: cluster.metadata.leader("new", 1))

    async def test_partitions_of_a_missing_topic_times_out(self, tiny_kafka, cluster_of, soon):
        cluster = cluster_of(await tiny_kafka())
        await cluster.start()
        with pytest.raises(KafkaTimeoutError, match=r"'nowhere'.*UnknownTopic") as caught:
            await cluster.partitions_of("nowhere", soon(0.1))
        assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)

    @pytest.mark.parametrize(
        ("code", "error"), [(17, InvalidTopicError), (29, TopicAuthorizationFailedError)]
    )
    async def test_lasting_topic_error_is_raised_at_once_and_requested_again(
        self, code, error, tiny_kafka, cluster_of, soon
    ):
        kafka = await tiny_kafka()
        kafka.errors["t"] = code
        cluster = cluster_of(kafka)
        await cluster.start()
        with pytest.raises(error, match="t"):
            await cluster.partitions_of("t", soon(60.0))
        del kafka.errors["t"]
        assert 0 in await cluster.partitions_of("t", soon())


class TestBrokers:
    async def test_unknown_broker_raises(self, tiny_kafka, cluster_of):
        cluster = cluster_of(await tiny_kafka())
        await cluster.start()
        with pytest.raises(NodeNotReadyError):
            cluster.broker(9)

    async def test_least_loaded_broker_is_random_among_equals(self, tiny_kafka, cluster_of, until):
        kafka = await tiny_kafka(brokers=3)
        cluster = cluster_of(kafka)
        await cluster.start()
        await asyncio.gather(*(cluster.broker(n).connection() for n in (1, 2, 3)))
        drawn = Counter(cluster.least_loaded().node_id for _ in range(300))
        assert set(drawn) == {1, 2, 3}
        for n in (1, 2):
            kafka.brokers[n].speaking.clear()
        asking = [
            asyncio.create_task(cluster.broker(n).request(MetadataRequest(), purpose))
            for n, purpose in ((1, Purpose.GENERAL), (2, Purpose.GENERAL))
        ]
        await until(lambda: cluster.broker(1).in_flight and cluster.broker(2).in_flight)
        assert {cluster.least_loaded().node_id for _ in range(50)} == {3}
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)

    async def test_throttling_broker_is_chosen_last(self, tiny_kafka, cluster_of, soon, until):
        """It looks idle: nothing is in flight while it throttles."""

        def throttled(broker, request, version):
            response = type(broker.kafka).metadata(broker, request, version)
            if broker.node_id == 1:
                response.throttle_time_ms = 60_000
            return response

        kafka = await tiny_kafka(3)
        cluster = cluster_of(kafka)
        await cluster.start()
        for node_id in (1, 2, 3):
            await cluster.broker(node_id).connection()
        kafka.answers[ApiKey.METADATA] = throttled
        first = cluster.broker(1)
        request = MetadataRequest(topics=[])
        await first.request(request, latest=12)
        assert first.throttles
        kept_back = asyncio.create_task(first.request(request, latest=12))
        await until(lambda: first.in_flight == 1)
        other = asyncio.create_task(cluster.broker(2).request(request, latest=12))
        assert {cluster.least_loaded().node_id for _ in range(50)} <= {2, 3}
        async with asyncio.timeout_at(soon()):
            await other
            for _ in range(20):
                await cluster.refresh(soon())
        assert not kept_back.done()
        kept_back.cancel()

    async def test_connected_broker_is_preferred(self, tiny_kafka, cluster_of):
        kafka = await tiny_kafka(brokers=3)
        cluster = cluster_of(kafka)
        await cluster.start()
        for n in (1, 3):
            cluster.broker(n).disconnect()
        await cluster.broker(2).connection()
        assert {cluster.least_loaded().node_id for _ in range(50)} == {2}

    async def test_blacked_out_broker_is_not_chosen(self, tiny_kafka, cluster_of):
        kafka = await tiny_kafka(brokers=2)
        cluster = cluster_of(kafka, options={})
        await cluster.start()
        await kafka.brokers[1].stop()
        cluster.broker(1).disconnect()
        with pytest.raises(KafkaConnectionError):
            await cluster.broker(1).connection()
        cluster.broker(1).next_attempt_at += 60.0
        assert {cluster.least_loaded().node_id for _ in range(50)} == {2}
        cluster.broker(2).disconnect()
        cluster.broker(2).next_attempt_at += asyncio.get_running_loop().time() + 50.0
        assert cluster.least_loaded() is None
        assert cluster.any_broker().node_id < 0, "then a bootstrap address"

    async def test_lost_connection_requests_metadata(self, tiny_kafka, cluster_of, until):
        kafka = await tiny_kafka(brokers=2)
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.broker(2).connection(Purpose.FETCH)
        kafka.hidden.add(2)
        version = cluster.metadata.version
        await kafka.brokers[2].stop()
        await until(lambda: cluster.metadata.version > version)
        assert set(cluster.metadata.brokers) == {1}
        with pytest.raises(NodeNotReadyError):
            cluster.broker(2)

    async def test_broker_at_a_new_address(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka(brokers=2)
        cluster = cluster_of(kafka)
        await cluster.start()
        broker = cluster.broker(2)
        await broker.connection()
        await kafka.brokers[2].stop()
        kafka.brokers[2].port = 0
        await kafka.brokers[2].start()
        await cluster.refresh(soon())
        assert cluster.broker(2) is broker
        await broker.request(MetadataRequest())
        assert kafka.brokers[2].received

    async def test_rebootstraps_when_all_known_brokers_are_dead(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka(brokers=3)
        seed = kafka.bootstrap[:1]
        kafka.hidden = {1, 3}  # the bootstrap address is a name for several brokers
        cluster = cluster_of(seed)
        await cluster.start()
        assert set(cluster.metadata.brokers) == {2}
        await cluster.refresh(soon())
        asked_at_seed = len(kafka.brokers[1].asked(MetadataRequest))
        assert asked_at_seed == 1
        await kafka.brokers[2].stop()
        kafka.hidden = {1, 2}
        await cluster.refresh(soon())
        assert set(cluster.metadata.brokers) == {3}
        await until(lambda: kafka.brokers[1].open_connections == 0)

    async def test_rebootstraps_when_a_broker_requires_it(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka(brokers=3)
        kafka.hidden = {1, 3}
        cluster = cluster_of(kafka.bootstrap[:1])
        await cluster.start()
        respond = kafka.answers[ApiKey.METADATA]

        def answer(broker, request, version):
            response = respond(broker, request, version)
            if broker.node_id == 2:
                response.error_code = 129  # REBOOTSTRAP_REQUIRED (KIP-1102)
                response.brokers = [b for b in response.brokers if b.node_id == 2]
            return response

        kafka.answers[ApiKey.METADATA] = answer
        kafka.hidden = {1}
        await cluster.refresh(soon())
        assert set(cluster.metadata.brokers) == {2, 3}

    async def test_refresh_that_waits_too_long_rebootstraps(
        self, tiny_kafka, cluster_of, soon, monkeypatch
    ):
        """Many silent brokers must not delay the bootstrap addresses (KIP-1102)."""
        monkeypatch.setattr(refresh_task, "PATIENCE", 0.2)
        kafka = await tiny_kafka(brokers=5)
        kafka.hidden = {1}
        cluster = cluster_of(kafka.bootstrap[:1], options={"rebootstrap_after": 0.1})
        await cluster.start()
        assert set(cluster.metadata.brokers) == {2, 3, 4, 5}
        for node_id in (2, 3, 4, 5):
            kafka.brokers[node_id].speaking.clear()
        kafka.hidden = {2, 3, 4, 5}
        await cluster.refresh(soon())
        assert set(cluster.metadata.brokers) == {1}
        asked = sum(bool(kafka.brokers[each].connections) for each in (2, 3, 4, 5))
        assert asked == 1, "the others were not waited for"

    async def test_rebootstrap_closes_every_connection(self, tiny_kafka, cluster_of, soon, until):
        kafka = await tiny_kafka(brokers=3)
        kafka.hidden = {1}
        cluster = cluster_of(kafka.bootstrap[:1])
        await cluster.start()
        for node_id in (2, 3):
            await cluster.broker(node_id).connection(Purpose.PRODUCE)
        heard = []
        cluster.add_listener(lambda metadata: heard.append(set(metadata.brokers)))
        respond = kafka.answers[ApiKey.METADATA]

        def answer(broker, request, version):
            response = respond(broker, request, version)
            response.error_code = 129 if broker.node_id != 1 else 0
            return response

        kafka.answers[ApiKey.METADATA] = answer
        await cluster.refresh(soon())
        assert heard == [set(), {2, 3}]
        await until(lambda: kafka.brokers[2].open_connections == 0)
        await until(lambda: kafka.brokers[3].open_connections == 0)
        assert (await cluster.broker(2).connection()).in_flight == 0

    async def test_caller_of_a_bootstrap_address_that_is_replaced_tries_another(
        self, tiny_kafka, cluster_of, soon, until, monkeypatch, dead_address
    ):
        """The canonical names of the bootstrap addresses may change."""
        kafka = await tiny_kafka()
        silent = await tiny_kafka()
        silent.brokers[1].speaking.clear()
        canonical = kafka.bootstrap

        async def canonical_addresses(addresses, timeout):
            return canonical

        monkeypatch.setattr(refresh_task, "canonical_addresses", canonical_addresses)
        monkeypatch.setattr(refresh_task, "PATIENCE", 0.05)
        cluster = cluster_of(kafka, options={"canonical_bootstrap": True})
        await cluster.start()
        canonical = [*silent.bootstrap, dead_address]
        cluster._refresh.rebootstrap("a test wants it")
        await until(lambda: silent.brokers[1].connections)
        request = MetadataRequest(topics=[])
        asking = asyncio.create_task(retry.call(cluster, request, retry.ANY, soon()))
        await asyncio.sleep(0.1)  # it waits for the attempt to connect
        canonical = kafka.bootstrap
        assert (await asking).cluster_id == "tiny"

    async def test_no_rebootstrap_with_strategy_none(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka(brokers=2)
        kafka.hidden = {1}
        cluster = cluster_of(kafka.bootstrap[:1], options={"rebootstrap_after": None})
        await cluster.start()
        asked = len(kafka.brokers[1].asked(MetadataRequest))
        await kafka.brokers[2].stop()
        with pytest.raises(KafkaTimeoutError):
            await cluster.refresh(asyncio.get_running_loop().time() + 0.5)
        assert len(kafka.brokers[1].asked(MetadataRequest)) == asked
        await kafka.brokers[2].start()
        await cluster.refresh(soon())

    async def test_known_address_of_another_cluster_is_rejected(self, tiny_kafka, cluster_of, soon):
        ours, theirs = await tiny_kafka(brokers=2), await tiny_kafka()
        ours.hidden = {1}
        theirs.cluster_id = "theirs"
        cluster = cluster_of(ours.bootstrap[:1])
        await cluster.start()
        await ours.brokers[2].stop()
        port = ours.brokers[2].port
        await theirs.brokers[1].stop()
        theirs.brokers[1].port = port
        await theirs.brokers[1].start()
        ours.hidden = {2}
        await cluster.refresh(soon())
        assert cluster.metadata.cluster_id == "tiny"
        assert set(cluster.metadata.brokers) == {1}
        assert theirs.metadata_requests, "it was asked"


class TestTelling:
    async def test_listeners_receive_each_snapshot(self, tiny_kafka, cluster_of, soon, caplog):
        cluster = cluster_of(await tiny_kafka())
        heard = []

        def fails(metadata):
            raise ValueError("a listener's mistake")

        cluster.add_listener(fails)
        cluster.add_listener(heard.append)
        await cluster.start()
        assert heard == [cluster.metadata]
        assert "a listener's mistake" in caplog.text
        await cluster.refresh(soon())
        assert heard[1:] == [cluster.metadata]

    async def test_leader_hints_are_adopted_once(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka(brokers=2)
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.partitions_of("t", soon())
        version = cluster.metadata.version
        heard = []
        cluster.add_listener(heard.append)
        assert not cluster.apply_leader_hints([LeaderHint("t", 0, 2, 0)])
        assert not heard
        assert cluster.apply_leader_hints([LeaderHint("t", 0, 2, 1)])
        assert cluster.metadata.leader("t", 0).node_id == 2
        assert cluster.metadata.version == version
        assert heard == [cluster.metadata]
        third = Node(3, "127.0.0.1", 1)
        assert cluster.apply_leader_hints([LeaderHint("t", 0, 3, 2, third)])
        assert cluster.broker(3).node == third
        # The response of a lagging broker does not undo it.
        await cluster.refresh(soon())
        assert cluster.metadata.partition("t", 0).leader == 3


class TestClose:
    async def test_close_before_the_start(self, tiny_kafka, cluster_of, soon):
        cluster = cluster_of(await tiny_kafka())
        with pytest.raises(IllegalStateError, match="not started"):
            await cluster.refresh(soon())
        await cluster.close(soon())
        with pytest.raises(IllegalStateError):
            await cluster.start()

    async def test_close_while_starting(self, tiny_kafka, cluster_of, soon, until):
        kafka = await tiny_kafka()
        kafka.brokers[1].speaking.clear()
        cluster = cluster_of(kafka)
        starting = asyncio.create_task(cluster.start())
        await until(lambda: kafka.brokers[1].connections)
        await cluster.close(soon())
        with pytest.raises(IllegalStateError):
            await starting

    async def test_close_while_idle_is_idempotent(self, tiny_kafka, cluster_of, soon, until):
        kafka = await tiny_kafka(brokers=2)
        cluster = cluster_of(kafka)
        await cluster.start()
        await asyncio.gather(cluster.broker(1).connection(), cluster.broker(2).connection())
        await cluster.close(soon())
        await cluster.close(soon())
        await until(lambda: not any(b.open_connections for b in kafka.brokers.values()))
        for call in (
            lambda: cluster.refresh(soon()),
            lambda: cluster.partitions_of("t", soon()),
            lambda: cluster.wait_for_version(-1, soon()),
        ):
            with pytest.raises(IllegalStateError, match="closed"):
                await call()
        for call in (lambda: cluster.broker(1), cluster.least_loaded, cluster.any_broker):
            with pytest.raises(IllegalStateError, match="closed"):
                call()

    async def test_close_during_a_refresh_fails_waiting_callers(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        await cluster.broker(1).connection()
        kafka.brokers[1].speaking.clear()
        waiting = [
            asyncio.create_task(wait)
            for wait in (
                cluster.refresh(soon()),
                cluster.partitions_of("t", soon()),
                cluster.wait_for_version(99, soon()),
            )
        ]
        await until(lambda: len(kafka.metadata_requests) == 2)
        await cluster.close(soon())
        for task in waiting:
            with pytest.raises(IllegalStateError, match="closed"):
                await task

    async def test_close_while_backing_off(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka, retry_backoff=60.0, retry_backoff_max=60.0)
        await cluster.start()
        waiting = asyncio.create_task(cluster.refresh(soon()))
        await asyncio.sleep(0.01)
        await cluster.close(soon())
        with pytest.raises(IllegalStateError, match="closed"):
            await waiting

    async def test_close_returns_at_its_deadline(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        kafka.brokers[1].speaking.clear()
        waiting = asyncio.create_task(cluster.refresh(soon()))
        await asyncio.sleep(0.02)
        await asyncio.wait_for(cluster.close(soon(0.0)), 5.0)
        with pytest.raises(IllegalStateError, match="closed"):
            await waiting

    async def test_abort_closes_everything_without_awaiting(
        self, tiny_kafka, cluster_of, soon, until
    ):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        cluster.abort()
        await until(lambda: kafka.brokers[1].open_connections == 0)
        await until(
            lambda: not [t for t in asyncio.all_tasks() if t.get_name().startswith("cluster: ")]
        )


class TestSenselessAnswers:
    async def test_invalid_response_does_not_end_the_refresh_task(
        self, tiny_kafka, cluster_of, soon, monkeypatch
    ):
        kafka = await tiny_kafka()
        kafka.topics["t"] = {0: (1, 0)}
        cluster = cluster_of(kafka)
        await cluster.start()
        merging, left = refresh_task.Merging, [2]

        def stumble(*args, **more):
            if left[0]:
                left[0] -= 1
                raise LookupError("what is this?")
            return merging(*args, **more)

        monkeypatch.setattr(refresh_task, "Merging", stumble)
        assert 0 in await cluster.partitions_of("t", soon())
        assert left == [0]

    async def test_topic_without_partitions_is_awaited(self, tiny_kafka, cluster_of, soon):
        kafka = await tiny_kafka()
        kafka.topics["t"] = {}
        cluster = cluster_of(kafka)
        await cluster.start()
        waiting = asyncio.create_task(cluster.partitions_of("t", soon()))
        await cluster.refresh(soon())
        assert not waiting.done()
        kafka.topics["t"] = {0: (1, 0)}
        assert list(await waiting) == [0]

    async def test_each_caller_gets_its_own_copy_of_a_lasting_error(
        self, tiny_kafka, cluster_of, soon
    ):
        kafka = await tiny_kafka()
        cluster = cluster_of(kafka)
        await cluster.start()
        failed = TopicAuthorizationFailedError("no")
        cluster._waits.record(failed)
        number = cluster.metadata.version
        cluster._refresh._wake.clear()
        waits = [asyncio.create_task(cluster.wait_for_version(number, soon())) for _ in range(3)]
        await asyncio.sleep(0)
        cluster._waits.wake()
        errors = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(error) for error in errors] == [TopicAuthorizationFailedError] * 3
        assert len({id(error) for error in (failed, *errors)}) == 4
        assert failed.__traceback__ is None


@pytest.mark.parametrize("name", ["\ud800", "y" * 70000, 5])
async def test_unencodable_topic_name_fails_only_its_caller(tiny_kafka, cluster_of, soon, name):
    kafka = await tiny_kafka()
    kafka.topics["t"] = {0: (1, 0)}
    cluster = cluster_of(kafka)
    await cluster.start()
    refused = TypeError if name == 5 else InvalidTopicError
    with pytest.raises(refused, match="`topic`"):
        cluster.add_topic(name)
    with pytest.raises(refused, match="`topic`"):
        cluster.set_topics(["t", name])
    with pytest.raises(refused, match="`topic`"):
        await cluster.partitions_of(name, soon())
    assert 0 in await cluster.partitions_of("t", soon())
    await cluster.refresh(soon())
