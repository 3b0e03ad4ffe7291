"""`profile list|show|add|use|remove`: connection settings with a name."""

from __future__ import annotations

import argparse
from typing import Final

from aiokafka_lite.cli.connection.flags import add_connection_flags
from aiokafka_lite.cli.failures import FAILED, OK, USAGE, UsageError, complain

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES: Final = """
examples:
  aiokafka-lite profile add test -b test-1:9092,test-2:9092
  aiokafka-lite profile add prod -b prod:9093 --tls --user alice    asks for the password when used
  aiokafka-lite profile use prod
  aiokafka-lite profile list
  aiokafka-lite profile show prod         without its password
  aiokafka-lite profile remove test
  aiokafka-lite consume orders --profile test

Profiles are in ~/.config/aiokafka-lite/config.toml, or in $AIOKAFKA_LITE_CONFIG.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands of `profile`."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def command(name: str, purpose: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            allow_abbrev=False,
        )

    command("list", "print the names of the profiles; * marks the one in use")
    shown = command("show", "print the settings of a profile, without passwords")
    shown.add_argument(
        "name", metavar="NAME", nargs="?", help="the profile; default: the one in use"
    )
    added = command("add", "save connection settings under a name")
    added.add_argument("name", metavar="NAME", help="name of the profile")
    add_connection_flags(added)
    for name, purpose in (("use", "use a profile by default"), ("remove", "remove a profile")):
        command(name, purpose).add_argument("name", metavar="NAME", help="the profile")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    actions = {"list": _list, "show": _show, "add": _add, "use": _use, "remove": _remove}
    try:
        actions[args.action](args)
    except UsageError as error:
        complain("profile", error)
        return USAGE
    except OSError as error:
        complain("profile", error)
        return FAILED
    return OK


def _list(args: argparse.Namespace) -> None:
    from aiokafka_lite.cli.connection.profiles import load_profiles

    profiles = load_profiles()
    for name in sorted(profiles.profiles):
        print(f"{'*' if name == profiles.current else ' '} {name}")


def _show(args: argparse.Namespace) -> None:
    from aiokafka_lite.cli.connection.profiles import SECRET, is_secret, load_profiles

    profiles = load_profiles()
    name = args.name or profiles.current
    if name is None:
        raise UsageError("no profile is in use: name one")
    for option, value in sorted(profiles.named(name).items()):
        print(f"{option}={SECRET if is_secret(option, value) else value}")


def _add(args: argparse.Namespace) -> None:
    from aiokafka_lite.cli.connection.client_arguments import check_names
    from aiokafka_lite.cli.connection.profiles import load_profiles, save_profiles
    from aiokafka_lite.cli.connection.settings import saved_settings

    profiles = load_profiles()
    settings = saved_settings(args)
    check_names(settings)
    options = settings.options
    if not options:
        raise UsageError("nothing to save: add flags such as -b HOST:PORT")
    # The first profile becomes the current one without a command.
    current = profiles.current or (args.name if not profiles.profiles else None)
    saved = profiles._replace(current=current, profiles={**profiles.profiles, args.name: options})
    print(f"saved profile {args.name} in {save_profiles(saved)}")


def _use(args: argparse.Namespace) -> None:
    from aiokafka_lite.cli.connection.profiles import load_profiles, save_profiles

    profiles = load_profiles()
    profiles.named(args.name)
    save_profiles(profiles._replace(current=args.name))


def _remove(args: argparse.Namespace) -> None:
    from aiokafka_lite.cli.connection.profiles import load_profiles, save_profiles

    profiles = load_profiles()
    profiles.named(args.name)
    rest = {name: each for name, each in profiles.profiles.items() if name != args.name}
    current = None if profiles.current == args.name else profiles.current
    save_profiles(profiles._replace(current=current, profiles=rest))
