"""Mutants of the producer in which one dispatch of a ready partition is missing.

The accumulator reports ready partitions through callbacks, and other parts report the events that a
partition waited for. `mutants` lists every such call in the source; `without` removes one of them.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

from aiokafka_lite.producer.batching import _batches_python, accumulator
from aiokafka_lite.producer.sending import (
    outbox,
    outcomes,
    producer_id_source,
    sender,
    transactional_sender,
)

__all__ = ["CALLBACKS", "Mutant", "mutants", "without"]

CALLBACKS = ("_on_ready", "_on_opened", "_on_lingering", "_on_held")
"""The accumulator's callbacks."""

DISPATCHES = (
    *CALLBACKS,
    "go_on",
    "go_on_everywhere",
    "hold",
    "offer",
    "offer_at_once",
    "wake",
    "_arm_sweep",
    "_on_settled",
    "_place",
    "set_result",
    "call_soon",
    "call_at",
    "want",
)
"""Methods that pass a ready partition on, or that arrange for a later call that does."""

OTHERS = ("_wake_all",)
"""Methods that call one of these for a different purpose: to wake the application's waiters."""

PARTS = (
    _batches_python.BatchCore,
    accumulator.Accumulator,
    outbox.Outbox,
    outcomes.Outcomes,
    producer_id_source.IdSource,
    sender.Sender,
    transactional_sender.TransactionalSender,
)


@dataclass(frozen=True)
class Mutant:
    """A method without one of its calls.

    Attributes:
        part: The class of the method.
        method: The method.
        call: The called function, as in the source.
        index: The position among the dispatches in the method.
    """

    part: str
    method: str
    call: str
    index: int

    def __str__(self) -> str:
        return f"{self.part}.{self.method}: {self.call}"


class _Remover(ast.NodeTransformer):
    """Replaces statements that are a dispatch by `pass`.

    Attributes:
        found: The calls in order.
    """

    def __init__(self, remove: int | None = None) -> None:
        self.found: list[str] = []
        self._remove = remove

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        call = node.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return node
        if call.func.attr not in DISPATCHES:
            return node
        self.found.append(ast.unparse(call.func))
        return ast.copy_location(ast.Pass(), node) if self._remove == len(self.found) - 1 else node


def mutants() -> Iterator[Mutant]:
    """Yield a mutant for each dispatch in the source."""
    for part in PARTS:
        for name, function in vars(part).items():
            if inspect.isfunction(function) and name not in OTHERS:
                remover = _Remover()
                remover.visit(_parse(function))
                for index, call in enumerate(remover.found):
                    yield Mutant(part.__name__, name, call, index)


@contextmanager
def without(room: dict[str, ModuleType], mutant: Mutant) -> Iterator[None]:
    """Remove a call from the modules of the Python build."""
    part = _part(room, mutant)
    function = vars(part)[mutant.method]
    tree = _Remover(mutant.index).visit(_parse(function))
    compiled = compile(ast.fix_missing_locations(tree), inspect.getfile(function), "exec")
    scope: dict[str, Any] = {}
    exec(compiled, function.__globals__, scope)
    with patch.object(part, mutant.method, scope[mutant.method]):
        yield


def _parse(function: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _part(room: dict[str, ModuleType], mutant: Mutant) -> type:
    for name, module in room.items():
        if name.endswith("_native"):
            continue
        found = vars(module).get(mutant.part)
        if found is not None and inspect.isfunction(vars(found).get(mutant.method)):
            return found  # type: ignore[no-any-return]  # a class
    raise LookupError(f"no module of the producer defines {mutant.part}.{mutant.method}")
