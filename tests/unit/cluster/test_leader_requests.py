"""Metadata requests while an assigned partition has no leader."""

from __future__ import annotations

import asyncio

from aiokafka_lite.cluster.leader_requests import LeaderRequests


async def test_metadata_is_requested_while_a_leader_is_missing(tiny_kafka, cluster_of, until):
    kafka = await tiny_kafka()
    cluster = cluster_of(kafka)
    await cluster.start()
    known = len(kafka.metadata_requests)
    requests = LeaderRequests(cluster, asyncio.get_running_loop())
    for more in (1, 2):
        requests.update(missing=True)
        await until(lambda more=more: len(kafka.metadata_requests) == known + more)


async def test_nothing_is_requested_once_the_leader_is_known(tiny_kafka, cluster_of, monkeypatch):
    kafka = await tiny_kafka()
    cluster = cluster_of(kafka)
    await cluster.start()
    known = len(kafka.metadata_requests)
    loop = asyncio.get_running_loop()
    requests = LeaderRequests(cluster, loop)
    timers = []
    monkeypatch.setattr(loop, "call_later", lambda _, then: timers.append(then))
    requests.update(missing=True)
    requests.update(missing=False)  # the answer to a request for another reason
    monkeypatch.undo()
    (fire,) = timers
    fire()
    await asyncio.sleep(0.1)  # ten times the pause between two requests
    assert len(kafka.metadata_requests) == known
