"""Profiles: named connection settings in ~/.config/aiokafka-lite/config.toml.

    profile = "local"

    [profiles.local]
    "bootstrap.servers" = "localhost:9092"

The file is written with mode 0600, because a profile may hold a password.

Every command imports this module, and most find no file: pathlib alone would take longer to import.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from aiokafka_lite.cli.failures import UsageError

__all__ = ["SECRET", "Profiles", "config_path", "is_secret", "load_profiles", "save_profiles"]

SECRET: Final = "********"
"""Shown instead of a password."""


class Profiles(NamedTuple):
    """The configuration file.

    Attributes:
        current: The profile that is used without `--profile`; None if there is none.
        profiles: Options by Kafka's names, by profile.
    """

    current: str | None
    profiles: dict[str, dict[str, str]]

    def named(self, name: str) -> dict[str, str]:
        """Return a profile's options.

        Raises:
            UsageError: There is no such profile.
        """
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise UsageError(
                f"there is no profile {name!r} in {config_path()} (profiles: {known}): add it with"
                f" `aiokafka-lite profile add {name} -b HOST:PORT`"
            )
        return self.profiles[name]


def is_secret(name: str, value: str = "") -> bool:
    """True if an option with this value may contain a password, a key or a token."""
    if name.startswith("ssl.") and ("-----BEGIN" in value or "\n" in value):
        return True  # PEM text instead of a path
    return name in ("sasl.jaas.config", "proxy.url") or name.endswith(
        ("password", "secret", "ssl.keystore.key", "ssl.key.pem")
    )


def config_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return where the profiles are: AIOKAFKA_LITE_CONFIG, or below XDG_CONFIG_HOME."""
    named = environ.get("AIOKAFKA_LITE_CONFIG")
    if named:
        return os.path.expanduser(named)
    home = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return os.path.join(os.path.expanduser(home), "aiokafka-lite", "config.toml")


def load_profiles(environ: Mapping[str, str] = os.environ) -> Profiles:
    """Read the file; without one there are no profiles.

    Raises:
        UsageError: The file is not valid.
    """
    path = config_path(environ)
    if not os.path.exists(path):
        return Profiles(None, {})
    import tomllib  # most commands find no file, and start faster without it

    try:
        with open(path, "rb") as file:
            read = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    current, tables = read.get("profile"), read.get("profiles", {})
    if not isinstance(tables, dict) or not (current is None or isinstance(current, str)):
        raise UsageError(f"{path}: `profile` is a name and `profiles` a table of tables")
    profiles: dict[str, dict[str, str]] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: [profiles.{name}] is not a table")
        profiles[name] = {key: _text(path, name, key, value) for key, value in table.items()}
    return Profiles(current, profiles)


def save_profiles(profiles: Profiles, environ: Mapping[str, str] = os.environ) -> str:
    """Write the file in one step, readable by its owner only; return its path."""
    import json

    path = config_path(environ)
    lines = [f"profile = {json.dumps(profiles.current)}"] if profiles.current else []
    for name, options in sorted(profiles.profiles.items()):
        lines += ["", f"[profiles.{json.dumps(name)}]"]
        lines += [f"{json.dumps(key)} = {_quoted(value)}" for key, value in options.items()]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    beside = f"{path}.{os.getpid()}"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(lines).lstrip("\n") + "\n")
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    return path


def _quoted(value: str) -> str:
    import json

    # JSON strings are valid in TOML, except for DEL, which TOML requires to be escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(path: str, profile: str, key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise UsageError(
        f'{path}: [profiles.{profile}] {key} is not text or a number (quote names: "a.b" = ...)'
    )
