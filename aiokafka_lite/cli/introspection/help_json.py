"""`--help-json`: every command with its arguments, for programs that write command lines."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["help_as_json"]


def help_as_json(parser: argparse.ArgumentParser) -> str:
    """Return a parser, and all parsers below it, as JSON."""
    return json.dumps(described(parser), indent=2, ensure_ascii=False)


def described(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return a parser as an object: its description, arguments and commands."""
    arguments: list[dict[str, Any]] = []
    commands: dict[str, Any] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = {name: described(each) for name, each in action.choices.items()}
        elif not isinstance(action, argparse._HelpAction):
            arguments.append(_argument(parser, action))
    found: dict[str, Any] = {"usage": " ".join(parser.format_usage().split()[1:])}
    if parser.description:
        found["description"] = parser.description
    if arguments:
        found["arguments"] = arguments
    if commands:
        found["commands"] = commands
    if parser.epilog:
        found["examples"] = parser.epilog
    return found


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if action.option_strings:
        found["flags"] = list(action.option_strings)
    else:
        found["name"] = action.metavar or action.dest
    if action.nargs != 0:
        if action.option_strings:
            found["value"] = action.metavar or action.dest.upper()
        positional = not action.option_strings
        found["required"] = action.nargs not in ("*", "?") if positional else action.required
    if action.choices is not None:
        found["choices"] = [str(each) for each in action.choices]
    if isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"):
        found["repeats"] = True
    if isinstance(action.default, str | int | float) and action.default is not argparse.SUPPRESS:
        found["default"] = action.default
    if action.help:
        found["help"] = action.help.replace("%%", "%")
    return found
