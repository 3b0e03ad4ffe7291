"""A client that reads from a follower in its rack, through sockets (KIP-392)."""

import pytest
from confluent_kafka import Consumer, Producer

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster


def read_one(cluster: FakeCluster, rack: str) -> set[int]:
    """Consume the only record; return the brokers that received fetches."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"in-{rack}",
            "client.rack": rack,
            "client.id": f"client-{rack}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    try:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
    finally:
        consumer.close()
    return {
        seen.node_id
        for seen in cluster.requests
        if seen.api_key == ApiKey.FETCH and seen.client_id == f"client-{rack}"
    }


def test_a_consumer_is_sent_to_the_follower_in_its_rack() -> None:
    racks = ["a", "b", "c"]
    with FakeCluster(3, {"orders": 1}, racks=racks, replica_selector="rack_aware") as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("orders", b"value")
        assert producer.flush(20) == 0
        leader = cluster.partition("orders", 0).leader
        assert read_one(cluster, racks[leader]) == {leader}
        follower = (leader + 1) % 3
        assert read_one(cluster, racks[follower]) == {leader, follower}


def test_other_selectors_are_not_known() -> None:
    with pytest.raises(ValueError, match="nearest"):
        FakeCluster(replica_selector="nearest")
