"""Spark writes and reads with AWS_MSK_IAM over TLS; the credentials are in the environment."""

import asyncio
import os
import ssl
import sys
from pathlib import Path

import pytest

from aiokafka_lite.testing import FakeCluster
from tests.certificates import Authority

pytestmark = pytest.mark.long  # a separate session, for its environment

KEY_ID, SECRET = "AKIAEXAMPLE", "the+secret/key"

PROGRAM = """\
import sys

from pyspark.sql import SparkSession

servers, authority = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
options = {
    "kafka.bootstrap.servers": servers,
    "kafka.security.protocol": "SASL_SSL",
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.location": authority,
    "kafka.sasl.mechanism": "AWS_MSK_IAM",
    "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
}
rows = spark.range(60).selectExpr("cast(id AS string) AS value")
rows.write.format("kafka_lite").options(**options).option("topic", "rows").mode("append").save()
read = spark.read.format("kafka_lite").options(**options).option("subscribe", "rows").load()
numbers = read.selectExpr("cast(cast(value AS string) AS int) AS number")
print("ROWS", numbers.agg({"number": "sum"}).first()[0])
spark.stop()
"""


@pytest.mark.parametrize("secret", [SECRET, "a wrong key"])
async def test_rows_are_written_and_read_with_credentials_of_the_environment(
    secret: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    certificate = authority.issue("broker")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate.cert, certificate.key)
    async with FakeCluster(
        topics={"rows": 2},
        users={KEY_ID: SECRET},
        sasl_mechanisms=["AWS_MSK_IAM"],
        ssl_context=serving,
        advertise="localhost",
    ) as cluster:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, cluster.bootstrap_servers, str(authority.cert)),
            cwd=tmp_path,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "AWS_REGION": "eu-west-1",
                "AWS_ACCESS_KEY_ID": KEY_ID,
                "AWS_SECRET_ACCESS_KEY": secret,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(240):
                output = (await program.communicate())[0].decode()
        finally:
            if program.returncode is None:
                program.kill()
    if secret == SECRET:
        assert "ROWS 1770" in output, output[-4000:]
    else:
        assert "SaslAuthenticationFailed" in output, output[-4000:]
    assert secret not in output
