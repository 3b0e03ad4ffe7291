"""Kafka pipelines on Spark: `python -m aiokafka_lite pipeline run SPEC`."""

from __future__ import annotations

import argparse

from aiokafka_lite.cli.demonstration import pipeline_demo
from aiokafka_lite.spark.pipeline import commands


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pipeline_demo.add_command(commands.add_commands(parser))


def run(args: argparse.Namespace) -> int:
    """Run the command; return 0 for success, 1 for failure, 2 for bad usage."""
    return commands.execute(args)
