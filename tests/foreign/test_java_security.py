"""Kafka's own tools set up users, ACLs and quotas; a Java client authenticates."""

import pytest

from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.security.acl_table import AclFilter, Operation, Permission
from tools.kafka import KafkaNotAvailable
from tools.kafka.java import JavaFailed, JavaTools, Record, run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

LOGIN = "org.apache.kafka.common.security"
TOOLS_OF = "3.9.2"
"""The tools of Kafka 4.4 are not published."""


def tool(cluster: FakeCluster, name: str, *arguments: str) -> str:
    servers = ["--bootstrap-server", cluster.bootstrap_servers]
    try:
        return "\n".join(run(f"kafka.admin.{name}", [*servers, *arguments], TOOLS_OF))
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


def test_acl_command() -> None:
    with FakeCluster(super_users=["User:ANONYMOUS"]) as cluster:
        alice = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        assert "Adding ACLs" in tool(cluster, "AclCommand", "--add", *alice)
        (acl,) = cluster.acls.find(AclFilter())
        assert (acl.principal, acl.name) == ("User:alice", "orders")
        assert (acl.operation, acl.permission) == (Operation.READ, Permission.ALLOW)
        listed = tool(cluster, "AclCommand", "--list", "--topic", "orders")
        assert "User:alice" in listed
        tool(cluster, "AclCommand", "--remove", "--force", *alice)
        assert cluster.acls.find(AclFilter()) == []


def test_user_and_quota_commands() -> None:
    with FakeCluster() as cluster:
        frank = ("--entity-type", "users", "--entity-name", "frank")
        changes = "SCRAM-SHA-512=[iterations=8192,password=secret]"
        tool(cluster, "ConfigCommand", "--alter", "--add-config", changes, *frank)
        credential = cluster.state.users.credential("frank", "SCRAM-SHA-512")
        assert credential is not None
        assert credential.iterations == 8192
        tool(cluster, "ConfigCommand", "--alter", "--add-config", "producer_byte_rate=1024", *frank)
        described = tool(cluster, "ConfigCommand", "--describe", *frank)
        assert "producer_byte_rate=1024" in described
        assert "SCRAM-SHA-512=iterations=8192" in described


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_client_authenticates(mechanism: str) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"

    def client(password: str) -> JavaTools:
        login = f'{LOGIN}.{module} required username="alice" password="{password}";'
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": login,
        }
        return JavaTools(cluster.bootstrap_servers, settings=settings)

    with FakeCluster(topics={"orders": 1}, users={"alice": "secret"}) as cluster:
        try:
            assert client("secret").load("orders", [Record(value=b"hello")]) == [0]
        except KafkaNotAvailable as error:
            pytest.skip(f"no real Kafka: {error}")
        assert cluster.requests[-1].principal == "User:alice"
        with pytest.raises(JavaFailed, match="Authentication failed"):
            client("guessed").load("orders", [Record(value=b"refused")])
