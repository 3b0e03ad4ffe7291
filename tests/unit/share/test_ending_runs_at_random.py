"""`run` and `stop` end at random moments: no acknowledgement is lost or forged."""

import random

import pytest

from aiokafka_lite import AIOKafkaShareConsumer
from aiokafka_lite.errors import KafkaConnectionError
from aiokafka_lite.testing import ApiKey
from tests.seeds import seeds
from tests.skipping_loop import SkippingLoop
from tests.unit.share.ending_walk import (
    LIVES,
    PARTITIONS,
    RECORDS,
    Walk,
    acknowledges,
    embedded,
    run_skipping,
)
from tests.unit.share.watched_brokers import Brokers, Delivery


@pytest.mark.parametrize("seed", seeds(8))
def test_ends_of_run_lose_and_forge_no_acknowledgement(seed: int) -> None:
    loop = SkippingLoop(delay=0.0)
    brokers = Brokers(loop)

    async def walk() -> None:
        async with embedded(loop) as cluster:
            lives = Walk(cluster, brokers, loop, random.Random(seed))
            for _ in range(LIVES):
                await lives.live()
            await lives.finish()

    with brokers.watched():
        run_skipping(loop, walk())
    assert brokers.seen["finished and accepted"] > RECORDS


@pytest.mark.parametrize("api", [ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_FETCH])
def test_stop_reports_an_unanswered_acceptance_as_unknown_and_not_as_refused(api: ApiKey) -> None:
    """The broker has applied it, so that its record is not delivered again."""
    loop = SkippingLoop(delay=0.0)
    brokers = Brokers(loop)

    async def stop_before_the_answer() -> None:
        async with embedded(loop) as cluster:
            cluster.produce("jobs", b"v", partition=0)
            consumer = AIOKafkaShareConsumer(
                "jobs", bootstrap_servers=cluster.bootstrap_servers, group_id="workers"
            )
            await consumer.start()
            record = await consumer.getone()
            lost = cluster.control(api, when=acknowledges, drop=True, after_handling=True)
            brokers.finished[Delivery(0, 0, 1)] = loop.time()
            mark = record.accept()
            if api is ApiKey.SHARE_FETCH:
                await consumer.getmany(timeout_ms=1)  # its fetch carries the acceptance
            await lost.struck()
            failed = consumer.metrics()["acknowledgements-error-total"]
            await consumer.stop()
            assert brokers.accepted == {Delivery(0, 0, 1)}
            with pytest.raises(KafkaConnectionError, match="stopped before broker 0 answered"):
                await mark
            assert (failed, consumer.metrics()["acknowledgements-error-total"]) == (0, 1)

    with brokers.watched():
        run_skipping(loop, stop_before_the_answer())


def test_stop_sends_the_last_acceptances_although_another_leader_does_not_answer() -> None:
    loop = SkippingLoop(delay=0.0)
    brokers = Brokers(loop)

    async def stop_with_a_mute_leader() -> None:
        async with embedded(loop) as cluster:
            consumer = AIOKafkaShareConsumer(
                "jobs", bootstrap_servers=cluster.bootstrap_servers, group_id="workers"
            )
            await consumer.start()
            records = []
            for partition in range(PARTITIONS):
                cluster.produce("jobs", b"v", partition=partition)
                records.append(await consumer.getone())
                brokers.finished[Delivery(partition, 0, 1)] = loop.time()
            mute = cluster.control(ApiKey.SHARE_ACKNOWLEDGE, node=0, drop=True)
            records[0].accept()
            await mute.struck()
            mark = records[1].accept()
            await consumer.stop()
            assert mark.done()
            assert mark.exception() is None
            assert brokers.accepted == {Delivery(1, 0, 1)}

    with brokers.watched():
        run_skipping(loop, stop_with_a_mute_leader())
