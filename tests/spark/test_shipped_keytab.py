"""Spark writes and reads with Kerberos, using a keytab that is among its files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kdc import BROKER, LOGIN_MODULE, REALM, Kdc, kerberos_cluster, missing_programs

pytestmark = [
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"no Kerberos KDC: {', '.join(missing_programs())} (Debian: krb5-kdc "
        "krb5-admin-server) not installed",
    ),
]

PROGRAM = """\
import sys

from pyspark.sql import SparkSession

servers, keytab, login = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.files", keytab)
    .getOrCreate()
)
options = {
    "kafka.bootstrap.servers": servers,
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "GSSAPI",
    "kafka.sasl.kerberos.service.name": "kafka",
    "kafka.sasl.jaas.config": login,
}
rows = spark.range(60).selectExpr("cast(id AS string) AS value")
rows.write.format("kafka_lite").options(**options).option("topic", "rows").mode("append").save()
read = spark.read.format("kafka_lite").options(**options).option("subscribe", "rows").load()
numbers = read.selectExpr("cast(cast(value AS string) AS int) AS number")
print("ROWS", numbers.agg({"number": "sum"}).first()[0])
spark.stop()
"""


def test_rows_are_written_and_read_with_a_shipped_keytab(tmp_path: Path) -> None:
    (tmp_path / "kdc").mkdir()
    (tmp_path / "work").mkdir()
    with Kdc(tmp_path / "kdc") as kdc:
        kdc.add(BROKER, "alice")
        with kerberos_cluster(kdc) as cluster:
            cluster.create_topic("rows", 2)
            login = (
                f"{LOGIN_MODULE} required useKeyTab=true "
                f'keyTab="alice.keytab" principal="alice@{REALM}";'
            )
            done = subprocess.run(
                [
                    *(sys.executable, "-c", PROGRAM, cluster.bootstrap_of("SASL_PLAINTEXT")),
                    *(str(kdc.keytab("alice")), login),
                ],
                cwd=tmp_path / "work",
                env={**os.environ, "KRB5CCNAME": "MEMORY:", "PYSPARK_PYTHON": sys.executable},
                capture_output=True,
                text=True,
                timeout=240,
            )
    assert "ROWS 1770" in done.stdout, done.stdout + done.stderr[-4000:]
