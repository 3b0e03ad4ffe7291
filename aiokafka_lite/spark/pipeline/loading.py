"""Loads a pipeline from a file, or a ready-made one by name.

Strings in a specification may contain `${name}`, whose value comes from the caller or else from
the file's `[variables]` table, and `${env:NAME}`, an environment variable, which keeps passwords
out of the file. `$${` is a literal `${`. Values in `[variables]` may contain `${env:NAME}`; values
from the caller are used unchanged.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from aiokafka_lite.spark.pipeline.fields import SpecError
from aiokafka_lite.spark.pipeline.spec import Pipeline

__all__ = ["find_specification", "load", "ready_pipelines"]

READY = Path(__file__).parent / "ready"
_PLACE = re.compile(r"\$(\$\{)|\$\{(?:(env):)?([^}:]*)\}")


def ready_pipelines() -> dict[str, str]:
    """Return the ready-made pipelines of the package: name and purpose of each."""
    return {
        path.stem: str(tomllib.loads(path.read_text())["about"])
        for path in sorted(READY.glob("*.toml"))
    }


def find_specification(name: str) -> Path:
    """Return the file of a specification, given its path or the name of a ready-made one.

    Raises:
        SpecError: Neither exists.
    """
    path = Path(name)
    if path.is_file():
        return path
    ready = READY / f"{name}.toml"
    if ready.is_file():
        return ready
    names = ", ".join(ready_pipelines())
    raise SpecError(f"{name!r} is neither a file nor a ready-made pipeline ({names})")


def load(name: str | Path, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Read a pipeline's specification.

    Args:
        name: A .toml, .yaml or .json file, or the name of a ready-made pipeline.
        variables: Values for the `${name}` in it.

    Raises:
        SpecError: The specification is invalid; the message names the place and the problem.
    """
    path = find_specification(str(name))
    mapping = _read(path)
    declared = mapping.pop("variables", {})
    if not isinstance(declared, dict):
        raise SpecError("variables must be a table of names and values")
    for key in variables or {}:
        if key not in declared:
            known = ", ".join(declared) or "none"
            raise SpecError(f"{path.name} has no variable {key!r}; its [variables] are: {known}")
    try:
        values = {**_variables(declared, variables or {}), **(variables or {})}
        return Pipeline.parse({key: _filled(value, values) for key, value in mapping.items()})
    except SpecError as error:
        raise SpecError(f"{path.name}: {error}") from None


def _variables(declared: Mapping[str, object], given: Mapping[str, str]) -> dict[str, str]:
    """Return the file's variables that the caller has not set, as text."""
    left = {key: value for key, value in declared.items() if key not in given}
    values = {}
    for key, value in left.items():
        if value is None or isinstance(value, dict | list):
            raise SpecError(f"variables.{key} must be a single value")
        try:
            filled = _filled(value, {})
        except SpecError as error:
            raise SpecError(f"variables.{key} cannot refer to another variable: {error}") from None
        values[key] = str(filled).lower() if isinstance(filled, bool) else str(filled)
    return values


def _read(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
        match path.suffix.lower():
            case ".toml":
                mapping: object = tomllib.loads(text)
            case ".json":
                mapping = json.loads(text)
            case ".yaml" | ".yml":
                mapping = _yaml(text)
            case other:
                raise SpecError(
                    f"a specification must be a .toml, .yaml or .json file, not {other!r}"
                )
    except (OSError, ValueError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{path} cannot be read: {error}") from error
    if not isinstance(mapping, dict):
        raise SpecError(f"{path} must contain a table of names and values")
    return mapping


def _yaml(text: str) -> object:
    if importlib.util.find_spec("yaml") is None:
        raise SpecError("YAML requires PyYAML: pip install PyYAML, or write TOML")
    yaml = importlib.import_module("yaml")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError(f"invalid YAML: {error}") from error


def _filled(value: object, values: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return _PLACE.sub(lambda found: _value(found, values), value)
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return value


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    literal, environment, name = found.groups()
    if literal:
        return "${"
    if environment:
        if name not in os.environ:
            raise SpecError(f"${{env:{name}}}: environment variable {name} is not set")
        return os.environ[name]
    if name not in values:
        raise SpecError(f"${{{name}}} has no value: set it (--set {name}=...) or in [variables]")
    return values[name]
