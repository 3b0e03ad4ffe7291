"""Runs every code block of docs/admin.md unchanged; its table names methods that exist."""

import re

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient
from tests.unit.guides import Guide

GUIDE = Guide("admin.md")


def test_there_are_no_other_blocks() -> None:
    GUIDE.check_blocks()


def test_every_method_of_the_table_exists() -> None:
    _, _, table = GUIDE.text.partition("## From another client")
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    methods = [name for row in rows for name in re.findall(r"`(\w+)", row)]
    assert len(methods) > 10
    assert [name for name in methods if not hasattr(AIOKafkaAdminClient, name)] == []


@pytest.mark.timeout(120)
def test_blocks(pytester: pytest.Pytester) -> None:
    GUIDE.run(pytester)
