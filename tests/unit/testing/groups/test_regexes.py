"""Regular expressions as RE2 takes them; the conformance suite asks a real Kafka the same."""

import pytest

from aiokafka_lite.errors import InvalidRegularExpressionError
from aiokafka_lite.testing.groups.regexes import compile_regex


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
def test_what_is_taken(regex: str, matching: str, other: str) -> None:
    pattern = compile_regex(regex)
    assert pattern.fullmatch(matching)
    assert not pattern.fullmatch(other)


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
