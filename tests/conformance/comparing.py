"""Compares two transcripts, and describes their first difference."""

import traceback
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from aiokafka_lite.errors import for_code
from tests.conformance.differences import DIFFERENCES
from tests.conformance.facts import Fact
from tests.conformance.target import Step, Target

__all__ = ["AllowedDifferences", "report"]

MISSING: Final = "(is not there)"
TOLD: Final = 12  # differences of one step that a failure lists


class _Difference(NamedTuple):
    path: str  # "Fetch v11/topics/orders/partitions/0/error_code"
    expected: object  # Kafka's
    found: object  # the embedded broker's


class AllowedDifferences:
    """The listed differences of one scenario, and which of them occurred.

    Args:
        scenario: Name of the test.
    """

    def __init__(self, scenario: str) -> None:
        self._unused = {path: why for name, path, why in DIFFERENCES if name == scenario}
        self._patterns = list(self._unused)

    def allows(self, path: str) -> bool:
        for pattern in self._patterns:
            if fnmatchcase(path, pattern):
                self._unused.pop(pattern, None)
                return True
        return False

    def on_failure(self) -> None:
        """The transcripts have different steps; later steps were not compared."""
        self._unused.clear()

    @property
    def unused(self) -> list[str]:
        """Differences that did not occur: they must be removed from the list."""
        return list(self._unused)


def report(
    scenario: str,
    kafka: Target,
    embedded: Target,
    allowed: AllowedDifferences,
    raised: tuple[BaseException | None, BaseException | None] = (None, None),
) -> str | None:
    """The report of a comparison; None if both agree.

    Args:
        scenario: Name of the test.
        kafka: The real Kafka, after its run.
        embedded: The embedded broker, after its run.
        allowed: The listed differences.
        raised: The exception of the scenario on each.
    """
    told = _of_steps(kafka.steps, embedded.steps, allowed)
    for target, error in zip((kafka, embedded), raised, strict=True):
        if error is not None:
            lines = "".join(traceback.format_exception(error, limit=-4))
            told.append(f"  on {target.kind} the scenario raised, after {len(target.steps)} steps:")
            told.append("    " + lines.rstrip().replace("\n", "\n    "))
    return "\n".join([f"scenario {scenario}", *told]) if told else None


def _of_steps(expected: list[Step], found: list[Step], allowed: AllowedDifferences) -> list[str]:
    for number, (step, other) in enumerate(zip(expected, found, strict=False), 1):
        if step.label != other.label:
            return [
                f"step {number}: the two took different ways",
                f"  Kafka     {step.label}: {step.facts}",
                f"  embedded  {other.label}: {other.facts}",
            ]
        differences = [
            difference
            for difference in _differences(step.facts, other.facts, step.label)
            if not allowed.allows(difference.path)
        ]
        if differences:
            first, *more = differences
            told = [
                f"step {number} of {len(expected)}: {first.path}",
                f"  Kafka     {_shown(first, first.expected)}",
                f"  embedded  {_shown(first, first.found)}",
            ]
            told += [
                f"  and {each.path}: Kafka {_shown(each, each.expected)},"
                f" embedded {_shown(each, each.found)}"
                for each in more[:TOLD]
            ]
            told += [f"  and {len(more) - TOLD} more"] if len(more) > TOLD else []
            asked = [f"  asked     {step.asked}"] if step.asked else []
            if other.asked != step.asked:
                asked.append(f"  embedded was asked {other.asked}")
            return told + asked
    if len(expected) != len(found):
        return [f"Kafka's transcript has {len(expected)} steps, the embedded one's {len(found)}"]
    return []


def _differences(expected: Fact, found: Fact, path: str) -> Iterator[_Difference]:
    if isinstance(expected, dict) and found == []:  # a list without items has no names either
        found = {}
    elif isinstance(found, dict) and expected == []:
        expected = {}
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in {**expected, **found}:
            yield from _differences(
                expected.get(key, MISSING), found.get(key, MISSING), f"{path}/{key}"
            )
    elif isinstance(expected, list) and isinstance(found, list):
        for index in range(max(len(expected), len(found))):
            yield from _differences(
                expected[index] if index < len(expected) else MISSING,
                found[index] if index < len(found) else MISSING,
                f"{path}/{index}",
            )
    elif expected != found or type(expected) is not type(found):
        yield _Difference(path, expected, found)


def _shown(difference: _Difference, value: object) -> str:
    """A value; an error code with its name."""
    code = difference.path.endswith("error_code") and isinstance(value, int)
    return f"{value} ({for_code(value).__name__})" if code else repr(value)  # type: ignore[arg-type]
