"""Finds the configurations that the broker's code reads, outside of its tables of configs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from aiokafka_lite.testing.configs.broker_configs import broker_settings
from aiokafka_lite.testing.configs.topic_configs import TOPIC_SETTINGS

__all__ = ["broker_configs_read", "topic_configs_read"]

TESTING = Path(__file__).resolve().parents[2] / "aiokafka_lite" / "testing"
TABLES = {
    *("config_alterations.py", "broker_changes.py", "broker_configs.py", "broker_table.py"),
    *("topic_configs.py", "describe_configs.py", "group_configs.py"),
}
"""Modules that name configurations only because these exist."""


def topic_configs_read() -> list[str]:
    """The topic configs that have an effect."""
    return sorted(TOPIC_SETTINGS.keys() & _names_read())


def broker_configs_read() -> list[str]:
    """The broker configs that have an effect of their own, not as a topic's default."""
    return sorted((broker_settings().keys() - TOPIC_SETTINGS.keys()) & _names_read())


def _names_read() -> set[str]:
    return {name for path in TESTING.rglob("*.py") for name in _strings(path)}


def _strings(path: Path) -> Iterator[str]:
    if path.name in TABLES:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
