"""`--complete WORD..`: the candidates for the last word, one a line; the shells' scripts call it.

Commands, flags and choices come from the parsers. Topics and groups are looked up for at most a
second, and kept for a minute in ~/.cache/aiokafka-lite.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from aiokafka_lite.cli.failures import UsageError

__all__ = ["candidates"]

PATIENCE: Final = 1.0
"""Seconds for a look-up."""
KEPT_FOR: Final = 60.0
"""Seconds for which the names of a cluster are kept."""


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return the candidates for the last word.

    Args:
        parser: The parser of the command line, with the arguments of the command in `words`.
        words: The words after the program's name, up to the one that is being written.
    """
    *before, last = words or [""]
    at, pending = parser, None
    flags: list[str] = []
    for word in before:
        commands = _commands(at)
        if pending is not None:
            pending = None
            flags.append(word)
        elif word.startswith("-"):
            flags.append(word)
            pending = _taking_value(at, word)
        elif word in commands:
            at = commands[word]
    if pending is not None:
        found = _values(at, pending, flags)
    elif last.startswith("-"):
        found = [each for action in at._actions for each in action.option_strings]
    else:
        found = list(_commands(at)) or _positional(at, flags)
    return sorted({each for each in found if each.startswith(last)})


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _taking_value(parser: argparse.ArgumentParser, flag: str) -> argparse.Action | None:
    for action in parser._actions:
        if flag in action.option_strings and action.nargs != 0:
            return action
    return None


def _values(
    parser: argparse.ArgumentParser, action: argparse.Action, flags: Sequence[str]
) -> list[str]:
    if action.choices is not None:
        return [str(each) for each in action.choices]
    if action.metavar == "GROUP":
        return _names("groups", flags)
    if action.metavar == "TOPIC":
        return _names("topics", flags)
    if action.dest == "profile":
        from aiokafka_lite.cli.connection.profiles import load_profiles

        return list(load_profiles().profiles)
    return []


def _positional(parser: argparse.ArgumentParser, flags: Sequence[str]) -> list[str]:
    for action in parser._actions:
        if not action.option_strings:
            return _values(parser, action, flags)
    return []


def _names(kind: str, flags: Sequence[str]) -> list[str]:
    """Return the cluster's topics or groups; none if the cluster does not answer in time."""
    from aiokafka_lite.cli.connection.client_arguments import consumer_arguments
    from aiokafka_lite.cli.connection.flags import add_connection_flags
    from aiokafka_lite.cli.connection.settings import gather

    parser = argparse.ArgumentParser(add_help=False)
    add_connection_flags(parser)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            known, _ = parser.parse_known_args([*flags, "--quiet"])
            known.timeout = PATIENCE
            arguments = consumer_arguments(gather(known, prompt=_nobody))
    except (UsageError, SystemExit):
        return []
    addresses = str(arguments["bootstrap_servers"])
    user = str(arguments.get("sasl_plain_username"))
    cache = _cache(f"{kind} {addresses} {user}")
    with contextlib.suppress(OSError, ValueError):
        if time.time() - cache.stat().st_mtime < KEPT_FOR:
            return [str(each) for each in json.loads(cache.read_text())]
    names = _look_up(kind, arguments)
    if names:
        with contextlib.suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            cache.write_text(json.dumps(names))
    return names


def _look_up(kind: str, arguments: dict[str, Any]) -> list[str]:
    from aiokafka_lite.errors import KafkaError

    questions: dict[str, Callable[[], Any]] = {
        "topics": lambda: _topics(arguments),
        "groups": lambda: _groups(arguments),
    }

    async def ask() -> list[str]:
        async with asyncio.timeout(PATIENCE):
            names: list[str] = await questions[kind]()
            return names

    try:
        return asyncio.run(ask())
    except (KafkaError, TimeoutError, OSError, ValueError, UsageError):
        return []


async def _topics(arguments: dict[str, Any]) -> list[str]:
    from aiokafka_lite.cli.connection.lookup import open_lookup

    async with open_lookup(arguments, PATIENCE) as lookup:
        lookup.cluster.set_topics(None)
        metadata = await lookup.cluster.refresh(lookup.deadline())
        return sorted(name for name, each in metadata.topics.items() if not each.is_internal)


async def _groups(arguments: dict[str, Any]) -> list[str]:
    from aiokafka_lite.admin.client import AIOKafkaAdminClient
    from aiokafka_lite.cli.connection.admin import admin_arguments

    async with AIOKafkaAdminClient(**admin_arguments(arguments)) as admin:
        return sorted(group.group_id for group in (await admin.list_groups()).valid())


def _cache(key: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Path(home).expanduser() / "aiokafka-lite" / f"names-{digest}.json"


def _nobody(_: str) -> str:
    raise UsageError("completion does not prompt")
