"""The tables of the clients' options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from aiokafka_lite import (
    AIOKafkaAdminClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
)
from aiokafka_lite._version import __version__
from tools.reference_docs.docstrings import entries

__all__ = ["OPTION_TABLES", "options"]


def options(client: type[Any]) -> str:
    """Return a table of the constructor's arguments.

    Raises:
        ValueError: The docstring and the signature do not have the same arguments.
    """
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(client).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    lines = ["| option | default | meaning |", "|---|---|---|"]
    described: list[str] = []
    for names, text in entries(client, "Args"):
        found = [name for given in names for name in _expand(given, parameters)]
        described += found
        defaults = list(dict.fromkeys(_default(parameters[name]) for name in found))
        shown = ", ".join(f"`{name}`" for name in found)
        lines.append(f"| {shown} | {', '.join(defaults)} | {text.replace('|', chr(92) + '|')} |")
    missing = parameters.keys() - set(described)
    if missing:
        raise ValueError(f"the docstring of {client.__name__} lacks {sorted(missing)}")
    return "\n".join(lines)


def _expand(name: str, parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """Return the names that `sasl_*` stands for, or the name itself."""
    if name.endswith("_"):  # the asterisk was removed with the markup
        return [each for each in parameters if each.startswith(name)]
    if name not in parameters:
        raise ValueError(f"a docstring describes {name!r}, which is not an argument")
    return [name]


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    if isinstance(value, tuple) and value and all(isinstance(each, type) for each in value):
        return ", ".join(f"`{each.__name__}`" for each in value)
    return f"`{value!r}`".replace(__version__, "VERSION")


OPTION_TABLES: Final[Mapping[str, Callable[[], str]]] = {
    f"options of {client.__name__}": partial(options, client)
    for client in (AIOKafkaProducer, AIOKafkaConsumer, AIOKafkaShareConsumer, AIOKafkaAdminClient)
}
