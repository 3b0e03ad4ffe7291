"""Regular expressions that RE2 accepts; the conformance suite tests the same with a real Kafka."""

import re
from random import Random

import pytest

from aiokafka_lite.errors import InvalidRegularExpressionError
from aiokafka_lite.testing.groups.regexes import compile_regex
from tests.seeds import seeds


@pytest.mark.parametrize(
    ("regex", "matching", "other"),
    [
        ("orders", "orders", "orders2"),
        ("orders.*", "orders-eu", "my-orders"),
        ("a|b", "b", "ab"),
        ("[[:alpha:]]+", "abc", "ab1"),
        ("[^[:digit:]_]+", "abc", "a_c"),
        (r"\pL+", "abc", "a1"),
        (r"\PL", "1", "a"),
        (r"[\pL_]+", "a_b", "a-b"),
        (r"\p{^Nd}", "a", "7"),
        (r"\Qa.b\E", "a.b", "axb"),
        (r"\Qa.b", "a.b", "axb"),
        (r"a\z", "a", "ab"),
        ("(?i)ORDERS", "orders", "order"),
        ("(?i:A)b", "ab", "aB"),
        ("(?U)a+", "aa", "ab"),
        ("(?<word>a)b", "ab", "a"),
        ("a{2,3}?", "aaa", "a"),
        ("a??b", "b", "aab"),
        (r"\x41\x{42}", "AB", "ab"),
        ("[]*]*", "*]", "a"),
        ("[^]*]*", "ab", "a*"),
        ("[[a&&b|~]+", "[&|", "c"),
        ("[a[^b]+", "[^", "c"),
        ("a{,2}", "a{,2}", "aa"),
        ("a{", "a{", "a"),
        ("a[:b:]", "ab", "a["),
    ],
)
def test_valid_expressions_match_as_in_re2(regex: str, matching: str, other: str) -> None:
    pattern = compile_regex(regex)
    assert pattern.matches(matching)
    assert not pattern.matches(other)


@pytest.mark.parametrize(
    "regex",
    [
        *("(", ")", "[", "[z-a]", "*a", "a**", "a++", "a?+", "a???", "a{2}{3}"),
        *("a{1001}", "a{3,2}", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(?>a)", "(?#a)"),
        *("(?P=n)", "(?z)a", r"(a)\1", r"\Z", r"\C", r"\y", "\\", r"\p{Nope}", "[[:nope:]]"),
    ],
)
def test_what_is_refused(regex: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression"):
        compile_regex(regex)


@pytest.mark.parametrize("regex", ["(" * 5000 + "a" + ")" * 5000, "(" * 21 + ")" * 21])
def test_groups_nested_too_deeply(regex: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="nests too deeply"):
        compile_regex(regex)


def test_groups_nested_deeply() -> None:
    pattern = compile_regex("(" * 20 + "a" + ")*" * 20)
    assert pattern.matches("a" * 60)
    assert not pattern.matches("a" * 60 + "b")


@pytest.mark.parametrize(
    "regex",
    ["(a|a)*b", "(a+)+$b", "(a*)*b", "(a|aa)+b", "((a{0,100}){0,100}){0,100}b", ".*.*.*.*.*.*b"],
)
def test_expressions_that_backtrack_exponentially_in_python(regex: str) -> None:
    pattern = compile_regex(regex)
    assert not pattern.matches("a" * 249)
    assert pattern.matches("a" * 248 + "b") == ("$" not in regex)


ATOMS = (
    *("a", "b", "-", ".", "[ab]", "[^a]", "[a-c-]", r"\d", r"\W", r"[\w-]", r"\b", r"\B", "^", "$"),
    *("(?i:A)", "(?i:[^B])", "(?i:[A-B])", "a|", "|b", "ab|ba", "()"),
)
COUNTS = ("", "", "*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{0}")


def random_regex(chance: Random, depth: int = 0) -> str:
    parts = []
    for _ in range(chance.randint(1, 3)):
        nested = depth < 2 and chance.random() < 0.3
        part = random_regex(chance, depth + 1) if nested else chance.choice(ATOMS)
        parts.append(f"(?:{part}){chance.choice(COUNTS)}")
    return chance.choice(("", "", "|")).join(parts)


@pytest.mark.parametrize("seed", seeds(4))
def test_random_expressions_match_as_in_python(seed: int) -> None:
    chance = Random(seed)
    for _ in range(100):
        regex = random_regex(chance)
        pattern, expected = compile_regex(regex), re.compile(regex)
        for _ in range(10):
            name = "".join(chance.choices("abAB-1_c", k=chance.randint(1, 5)))
            assert pattern.matches(name) == bool(expected.fullmatch(name)), (regex, name)
