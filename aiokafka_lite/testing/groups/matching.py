"""Whether a regular expression matches a whole name, in a time that the name's length bounds.

Python's `re` tries one way after the other: "(a|a)*b" keeps it busy for years, and with it the
loop that the brokers live in. RE2, which Kafka's brokers use, follows all ways at once. So does
this: for each part of the expression and each place in the name it finds the places where the part
may end, once.

Non-obvious: the expression is taken apart by `re` itself, whose parser has no public name.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

__all__ = ["Pattern"]

_parse: Final[Callable[[str], Any]] = import_module("re._parser").parse

_Places: TypeAlias = int
"""Some places in a name, before its first character (bit 0) to behind its last."""

_Part: TypeAlias = tuple[Any, Any]  # an operation of `re`, and what it works on


class Pattern:
    """An expression that `re` takes, without look-around, references and atomic groups.

    Raises:
        re.error, OverflowError: It is none.
    """

    def __init__(self, expression: str) -> None:
        self._parts = _parse(expression)
        self._flags = self._parts.state.flags

    def matches(self, name: str) -> bool:
        """Whether the expression means the name from its first character to its last."""
        return bool(_Matching(name).ends(self._parts, 0, self._flags) >> len(name))


class _Matching:
    """Of one name; remembers where parts may end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[tuple[int, int, int], _Places] = {}

    def ends(self, parts: Sequence[_Part], start: int, flags: int) -> _Places:
        """Where a sequence of parts may end that begins at a place."""
        key = (id(parts), start, flags)  # the pattern keeps its parts alive, and so their ids
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
        """Where so many repetitions may end; after a few nothing new comes up."""
        found = 0 if least else places
        for count in range(1, most + 1):
            following = self._union([parts], places, flags)
            if count >= least:
                following &= ~found  # from elsewhere it was repeated already
                found |= following
                if not following:
                    break
            elif following == places:  # and stays the same until there are enough
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
        """Whether a part that means one character means that at a place."""
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
    """The places one by one."""
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


def _is_in(members: Sequence[_Part], codes: set[int]) -> bool:
    """Whether a class has one of the characters."""
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
