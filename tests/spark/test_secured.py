"""A cluster with authentication and authorization: TLS, SASL and ACLs.

Each login method, with exactly Spark's options, is tested with a batch write, an exactly-once
stream and a batch read. If Spark's own connector is available, it reads with the same options. The
users have the permissions that docs/spark.md lists, and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokafka_lite import AIOKafkaClient
from aiokafka_lite.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.real.visibility import acls_count
from tests.spark.beside import OURS, PATIENCE
from tools.kafka import KafkaCluster, KafkaNotAvailable, Security

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real

ROWS = 60
PASSWORD = "it's; = alice"  # a login line has to quote this
MODULES = "org.apache.kafka.common.security"

Options = dict[str, str]


PRINCIPALS = ("User:alice", "User:CN=client")
"""The SASL users, and the principals of client certificates."""
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5  # resource types
READ, WRITE, ALLOW, PREFIXED = 3, 4, 3, 4
RIGHTS = [
    (TOPIC, "spark-", READ),
    (TOPIC, "spark-", WRITE),
    (GROUP, "aiokafka-lite-spark", READ),
    (TRANSACTIONAL_ID, "aiokafka-lite-spark", WRITE),
]


async def give_rights(cluster: KafkaCluster) -> None:
    async with AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        acls = [
            AclCreation(kind, name, PREFIXED, principal, "*", operation, ALLOW)
            for principal in PRINCIPALS
            for kind, name, operation in RIGHTS
        ]
        told = await client.send(cluster.node_ids[0], CreateAclsRequest(acls))
        assert {result.error_code for result in told.results} == {0}
    for name in {name for _, name, _ in RIGHTS}:  # the broker learns of them later
        count = len(PRINCIPALS) * sum(each == name for _, each, _ in RIGHTS)
        await acls_count(cluster.bootstrap_servers, name, count)


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    """TLS clients have to present a certificate, unless they log in by SASL; plaintext clients
    may do everything."""
    listener = "listener.name.sasl_plaintext"
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
    config = {
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.jaas.config": (
            f'{module} required unsecuredLoginStringClaim_sub="broker";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    security = Security(users={"alice": PASSWORD}, client_auth=True)
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(KafkaCluster(config=config, security=security))
        except KafkaNotAvailable as error:
            pytest.skip(f"no cluster of our own: {error}")
        asyncio.run(give_rights(cluster))
        yield cluster


def logging_in(mechanism: str, password: str = PASSWORD) -> Options:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'{MODULES}.{module} required username="alice" password="{password}";'
    return {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": login}


@pytest.fixture
def token_endpoint() -> Iterator[str]:
    """An endpoint that issues tokens to a client with the right id and secret; yield its
    address."""
    with HTTPServer(("127.0.0.1", 0), TokenEndpoint) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        serving.join()


class TokenEndpoint(BaseHTTPRequestHandler):
    """Unsigned tokens, which a broker accepts by default."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        known = b64encode(f"alice:{PASSWORD}".encode()).decode()
        allowed = self.headers["Authorization"] == f"Basic {known}"
        self.send_response(200 if allowed and b"client_credentials" in asked else 401)
        self.end_headers()
        now = int(time.time())
        claims = {"sub": "alice", "iat": now, "exp": now + 600}
        parts = [urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)]
        token = b".".join(part.rstrip(b"=") for part in (*parts, b"")).decode()
        self.wfile.write(json.dumps({"access_token": token, "expires_in": 600}).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the test's result shows who sent requests."""


def with_a_token(endpoint: str) -> Options:
    client = "kafka.sasl.oauthbearer.client.credentials.client"
    return {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": endpoint,
        f"{client}.id": "alice",
        f"{client}.secret": PASSWORD,
    }


def trusting(ca_file: Path) -> Options:
    return {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(ca_file),
    }


def showing(security: Security) -> Options:
    """The client's certificate and key, as text in the options."""
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": security.client_certificate.read_text(),
        "kafka.ssl.keystore.key": security.client_key.read_text(),
    }


def way_in(cluster: KafkaCluster, way: str, folder: Path) -> Options:
    """The options of one login method of `WAYS`."""
    listener, _, rest = way.partition(", ")
    assert cluster.security is not None
    security = cluster.security
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_of(listener),
        "kafka.security.protocol": listener,
    }
    if listener.startswith("SASL") and rest != "OAUTHBEARER":
        given |= logging_in(rest)
    if listener == "SASL_SSL":
        given |= {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": security.ca_file.read_text(),
        }
    if listener == "SSL":
        given |= trusting(security.ca_file)
    if rest == "certificate as text":
        given |= showing(security)
    if rest == "certificate in a file":
        both = folder / "client-with-key.pem"
        both.write_text(security.client_key.read_text() + security.client_certificate.read_text())
        given |= {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": str(both)}
    return given


IN_SHORT = {"SASL_PLAINTEXT, OAUTHBEARER", "SSL, certificate in a file", "SASL_SSL, SCRAM-SHA-256"}
"""The login methods of `make test`."""

WAYS = [
    "SASL_PLAINTEXT, PLAIN",
    "SASL_PLAINTEXT, SCRAM-SHA-512",
    "SASL_PLAINTEXT, OAUTHBEARER",
    "SSL, certificate as text",
    "SSL, certificate in a file",
    "SASL_SSL, SCRAM-SHA-256",
]


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=[] if way in IN_SHORT else [pytest.mark.long]) for way in WAYS],
)
def test_a_batch_a_stream_and_a_batch(
    spark: SparkSession,
    connector_class_path: list[Path],
    secured: KafkaCluster,
    token_endpoint: str,
    tmp_path: Path,
    way: str,
) -> None:
    options = way_in(secured, way, tmp_path)
    with_token = "OAUTHBEARER" in way
    if with_token:
        options |= with_a_token(token_endpoint)
    first, second = (f"spark-{WAYS.index(way)}-{part}" for part in ("written", "streamed"))
    for topic in (first, second):
        secured.create_topic(topic, 2)
    values = [f"{way} {number}" for number in range(ROWS)]
    rows = spark.createDataFrame([(value,) for value in values], "value string")
    rows.write.format(OURS).options(**options, topic=first).mode("append").save()

    loaded = spark.readStream.format(OURS).options(**options, subscribe=first)
    frame = loaded.option("startingOffsets", "earliest").load().select("key", "value")
    writer = frame.writeStream.format(OURS).options(**options, topic=second)
    writer = writer.option("deliveryGuarantee", "exactly_once").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        assert query.awaitTermination(PATIENCE), "the query did not end in time"
    finally:
        query.stop()

    # Java's client only queries endpoints that its JVM was configured with at start.
    for form in (OURS, "kafka") if connector_class_path and not with_token else (OURS,):
        batch = spark.read.format(form).options(**options, subscribe=second).load()
        found = [row[0] for row in batch.selectExpr("string(value)").collect()]
        assert sorted(found) == sorted(values), form


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("a wrong password", "SaslAuthenticationFailed: .*Invalid username or password"),
        # The broker's alert may be lost with the connection; only the loss is reported then.
        (
            "no certificate of its own",
            "refused this client.*certificate|no broker answers: .*(lost|closed)",
        ),
        ("a broker that is not trusted", "the certificate of .* is not trusted"),
        ("no right to the topic", "TopicAuthorizationFailed"),
    ],
)
def test_rejected_credentials_raise_the_reason(
    spark: SparkSession, secured: KafkaCluster, tmp_path: Path, why: str, told: str
) -> None:
    assert secured.security is not None
    options = way_in(secured, "SASL_SSL, PLAIN", tmp_path)
    if why == "a wrong password":
        options |= logging_in("PLAIN", "guessed-wrong")
    elif why == "no certificate of its own":
        options = way_in(secured, "SSL, ", tmp_path)
    elif why == "a broker that is not trusted":
        del options["kafka.ssl.truststore.certificates"]
        options |= trusting(secured.security.client_certificate)
    once = {"subscribe": "unseen", "fetchOffset.numRetries": "1"}
    frame = spark.read.format(OURS).options(**options, **once).load()
    with pytest.raises(Exception, match=told) as refused:
        frame.collect()
    assert "guessed-wrong" not in str(refused.value)
    assert PASSWORD not in str(refused.value)
