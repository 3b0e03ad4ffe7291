"""Matches regular expressions against whole names without exponential backtracking.

Python's `re` tries one alternative after another: "(a|a)*b" could block the brokers' event loop for
years. RE2, which Kafka's brokers use, follows all alternatives at once. So does this module: for
each part of the expression and each place in the name, it computes once where the part may end.

Non-obvious: it uses the parser of `re`, which is not public.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

__all__ = ["Pattern"]

_parse: Final[Callable[[str], Any]] = import_module("re._parser").parse

_Places: TypeAlias = int
"""A set of places in a name, from before its first character (bit 0) to after its last."""

_Part: TypeAlias = tuple[Any, Any]  # an operation of `re`, and its argument


class Pattern:
    """A valid `re` expression without look-around, references and atomic groups.

    Raises:
        re.error, OverflowError: The expression is invalid.
    """

    def __init__(self, expression: str) -> None:
        self._parts = _parse(expression)
        self._flags = self._parts.state.flags

    def matches(self, name: str) -> bool:
        """Return True if the expression matches the whole name."""
        return bool(_Matching(name).ends(self._parts, 0, self._flags) >> len(name))


class _Matching:
    """The matching of one name, with a cache of the places where parts may end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[tuple[int, int, int], _Places] = {}

    def ends(self, parts: Sequence[_Part], start: int, flags: int) -> _Places:
        """Return the places where a sequence of parts that starts at a place may end."""
        key = (id(parts), start, flags)  # the pattern keeps its parts, so ids stay unique
        known = self._known.get(key)
        if known is None:
            known = 1 << start
            for part in parts:
                known = self._after(part, known, flags)
            self._known[key] = known
        return known

    def _after(self, part: _Part, places: _Places, flags: int) -> _Places:
        operation, argument = part
        match str(operation):
            case "BRANCH":
                return self._union(argument[1], places, flags)
            case "SUBPATTERN":
                _, added, removed, parts = argument
                return self._union([parts], places, (flags | added) & ~removed)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, parts = argument
                return self._repeat(least, int(most), parts, places, flags)
            case "AT":
                return sum(1 << one for one in _each(places) if self._is_at(argument, one, flags))
        return sum(2 << one for one in _each(places) if self._takes(part, one, flags))

    def _union(self, choices: Sequence[Sequence[_Part]], places: _Places, flags: int) -> _Places:
        found = 0
        for parts in choices:
            for place in _each(places):
                found |= self.ends(parts, place, flags)
        return found

    def _repeat(
        self, least: int, most: int, parts: Sequence[_Part], places: _Places, flags: int
    ) -> _Places:
        """Return the places where repetitions may end; stop when no new places appear."""
        found = 0 if least else places
        for count in range(1, most + 1):
            following = self._union([parts], places, flags)
            if count >= least:
                following &= ~found  # already repeated from the other places
                found |= following
                if not following:
                    break
            elif following == places:  # further repetitions change nothing
                return following
            places = following
        return found

    def _is_at(self, where: object, place: int, flags: int) -> bool:
        before = self._is_word(place - 1) if place else False
        after = self._is_word(place) if place < len(self._name) else False
        match str(where):
            case "AT_BEGINNING" | "AT_BEGINNING_STRING":
                return not place or bool(flags & re.MULTILINE and self._name[place - 1] == "\n")
            case "AT_BOUNDARY":
                return before != after
            case "AT_NON_BOUNDARY":
                return before == after
        at_end = place == len(self._name)
        return at_end or bool(flags & re.MULTILINE and self._name[place] == "\n")

    def _is_word(self, place: int) -> bool:
        return self._name[place] == "_" or self._name[place].isalnum()

    def _takes(self, part: _Part, place: int, flags: int) -> bool:
        """Return True if a single-character part matches the character at a place."""
        if place == len(self._name):
            return False
        character, (operation, argument) = self._name[place], part
        either = {character}
        if flags & re.IGNORECASE:
            either |= {character.lower(), character.upper()}
        codes = {ord(one) for one in either if len(one) == 1}
        match str(operation):
            case "ANY":
                return bool(flags & re.DOTALL) or character != "\n"
            case "LITERAL":
                return argument in codes
            case "NOT_LITERAL":
                return argument not in codes
            case "IN":
                return _is_in(argument, codes)
        raise NotImplementedError(f"unsupported operation {operation} in a regular expression")


def _each(places: _Places) -> Iterator[int]:
    """Yield the places one by one."""
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


def _is_in(members: Sequence[_Part], codes: set[int]) -> bool:
    """Return True if a character class contains one of the characters."""
    negated = False
    for operation, argument in members:
        match str(operation):
            case "NEGATE":
                negated = True
            case "LITERAL":
                if argument in codes:
                    return not negated
            case "RANGE":
                if any(argument[0] <= code <= argument[1] for code in codes):
                    return not negated
            case "CATEGORY":
                if any(_is_of_category(str(argument), chr(code)) for code in codes):
                    return not negated
    return negated


def _is_of_category(category: str, character: str) -> bool:
    kind = category.removeprefix("CATEGORY_").removeprefix("NOT_")
    pattern = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[kind]
    return bool(re.match(pattern, character)) != ("NOT_" in category)
