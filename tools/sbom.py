"""Prints the bill of materials of the installed package: `python -m tools.sbom > sbom.cdx.json`.

The format is CycloneDX 1.5 (JSON). It lists aiokafka_lite and its requirements without extras, in
the versions that are installed beside it. It contains no time, so that the same input gives the
same output.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, distribution
from typing import Final, TypeAlias

NAME: Final = "aiokafka_lite"

Json: TypeAlias = "str | list[Json] | dict[str, Json]"

_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)[^;]*(;.*)?")


def normalized(name: str) -> str:
    """A distribution's name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(of: Distribution) -> list[str]:
    """Names of a distribution's unconditional requirements: not those of extras, or of some
    platforms only."""
    found = []
    for line in of.requires or ():
        match = _REQUIREMENT.match(line)
        if match and not match[2]:
            found.append(match[1])
    return found


def closure(name: str) -> dict[str, Distribution]:
    """The distribution and all of its direct and indirect requirements, by normalized name."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        key = normalized(waiting.pop())
        if key not in found:
            found[key] = distribution(key)
            waiting += requirements(found[key])
    return found


def _reference(of: Distribution) -> str:
    return f"pkg:pypi/{normalized(of.metadata['Name'])}@{of.version}"


def _component(of: Distribution, kind: str) -> dict[str, Json]:
    component: dict[str, Json] = {
        "type": kind,
        "bom-ref": _reference(of),
        "name": of.metadata["Name"],
        "version": of.version,
        "purl": _reference(of),
    }
    stated = [
        *(of.metadata.get_all("License-Expression") or ()),
        *(of.metadata.get_all("License") or ()),
    ]
    shown = next((each for each in stated if each and "\n" not in each), "")
    if shown:
        component["licenses"] = [{"license": {"name": shown}}]
    return component


def bill(name: str = NAME) -> dict[str, Json]:
    """The bill of materials of a distribution that is installed."""
    all_parts = closure(name)
    parts = dict(all_parts)
    own = parts.pop(normalized(name))
    dependencies: list[Json] = [
        {
            "ref": _reference(one),
            "dependsOn": [
                _reference(all_parts[normalized(each)]) for each in sorted(requirements(one))
            ],
        }
        for one in (own, *(parts[key] for key in sorted(parts)))
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "metadata": {"component": _component(own, "library")},
        "components": [_component(parts[key], "library") for key in sorted(parts)],
        "dependencies": dependencies,
    }


if __name__ == "__main__":
    print(json.dumps(bill(), indent=2))
