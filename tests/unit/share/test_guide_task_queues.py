"""Runs every code block of docs/task-queues.md that uses this client, unchanged."""

import pytest

from tests.unit.guides import Guide

GUIDE = Guide("task-queues.md", "from celery", "import boto3", "import aio_pika")


def test_all_blocks_are_tests() -> None:
    GUIDE.check_blocks()


def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
