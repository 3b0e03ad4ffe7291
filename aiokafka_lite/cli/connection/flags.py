"""The connection flags, which are the same for every command that talks to a cluster."""

from __future__ import annotations

import argparse

from aiokafka_lite.cli.connection.durations import duration

__all__ = ["add_connection_flags"]


def add_connection_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the cluster, the credentials and the timeouts."""
    add = parser.add_argument_group(
        "connection",
        "Flags override -X, then come -F, AIOKAFKA_LITE_* variables, and the profile.",
    ).add_argument
    add(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "--bootstrap-servers",
        metavar="HOST:PORT,..",
        dest="bootstrap",
        help="brokers to connect to first; default: localhost:9092",
    )
    add("--profile", metavar="NAME", help="connection settings saved by `profile add`")
    add(
        "-F",
        "--config-file",
        metavar="FILE",
        help="options from a kcat.conf or a Java client.properties",
    )
    add(
        "-X",
        metavar="KEY=VALUE",
        dest="options",
        action="append",
        default=[],
        help="an option by Kafka's name, such as linger.ms=5; may be repeated",
    )
    add("--user", metavar="NAME", help="authenticate with SASL; prompts for the password")
    add(
        "--password",
        metavar="PASSWORD",
        help="other users see it in the process list: prefer the prompt",
    )
    add(
        "--sasl-mechanism",
        metavar="NAME",
        help="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER;"
        " default: PLAIN over TLS, SCRAM-SHA-512 without",
    )
    add("--tls", action="store_true", help="encrypt the connections, and verify the brokers")
    add("--ca", metavar="FILE", help="PEM file of the trusted authorities; implies --tls")
    add(
        "--timeout",
        metavar="TIME",
        type=duration,
        help="how long to wait for an answer, such as 10s; default: 10s",
    )
    add("-q", "--quiet", action="store_true", help="print no warnings")
    add("-v", "--verbose", action="count", default=0, help="log more; -vv for debugging")
