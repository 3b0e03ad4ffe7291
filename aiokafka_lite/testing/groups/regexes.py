"""Subscriptions by regular expression (KIP-848): RE2 syntax, translated for Python's parser.

Kafka's brokers use RE2/J, which has neither look-around nor back references and rejects
repetitions of repetitions. Syntax that differs in Python's `re` is translated: `\\z`, `\\Q...\\E`,
`\\pL` and POSIX classes for ASCII. Syntax that RE2 accepts but `re` lacks (`\\p` of a script, flags
within the expression) is rejected, as are very deeply nested groups.
"""

import re
from functools import lru_cache
from typing import Final

from aiokafka_lite.errors import InvalidRegularExpressionError
from aiokafka_lite.testing.groups.matching import Pattern

__all__ = ["compile_regex"]

LARGEST_REPEAT: Final = 1000
DEEPEST: Final = 20  # groups within groups
LAZY: Final = 2  # a repetition and its "?"

_TOKEN: Final = re.compile(
    r"(?P<quoted>\\Q(?P<text>.*?)(?:\\E|\Z))"
    r"|(?P<unicode>\\(?P<negated>[pP])(?:\{(?P<long>\^?\w+)\}|(?P<short>\w)))"
    r"|(?P<escape>\\(?:x\{[0-9a-fA-F]+\}|.|\Z))"
    r"|(?P<posix>\[:(?P<caret>\^?)(?P<name>\w+):\])"
    r"|(?P<open>\[\^?\]?)"
    r"|(?P<group>\(\?(?:P?<(?![=!])\w+>|(?P<flags>[imsU]*(?:-[imsU]+)?)(?P<end>[:)])|(?P<odd>.?)))"
    r"|(?P<repeat>\{(?P<least>\d+)(?:,(?P<most>\d*))?\})"
    r"|(?P<other>.)",
    re.DOTALL,
)
_ESCAPES: Final = frozenset("abBdDfnrsStvwWAz0123456789x")
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_UNICODE: Final = {  # only for ASCII, because topic names are ASCII
    "L": "A-Za-z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
    "Z": " ",
}


@lru_cache(maxsize=256)
def compile_regex(regex: str) -> Pattern:
    """Compile a pattern that must match a topic's whole name.

    Raises:
        InvalidRegularExpressionError: RE2 rejects it, or `re` does not support it.
    """
    try:
        return Pattern(_translate(regex))
    except (re.error, _Refused, OverflowError) as error:
        raise InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        ) from error


class _Refused(Exception):
    """The error of an invalid expression, as in RE2."""


def _translate(regex: str) -> str:
    """Translate an expression to the syntax of `re`.

    Raises:
        _Refused: It contains syntax that RE2 lacks.
    """
    out: list[str] = []
    in_class = False
    depth = 0
    repetitions = 0  # of the preceding part
    for token in _TOKEN.finditer(regex):
        text = token[0]
        if token["quoted"] is not None:
            out.append(re.escape(token["text"]))
        elif token["unicode"] is not None:
            out.append(_unicode_class(token, in_class))
        elif token["escape"] is not None:
            out.append(_escape(text))
        elif token["posix"] is not None and in_class:
            out.append(_posix_class(token))
        elif token["group"] is not None and not in_class:
            out.append(_group(token))
            depth += token["end"] != ")"
        elif not in_class and (token["repeat"] is not None or text in ("*", "+", "?")):
            # A second operator repeats a repetition, except "?", which makes it lazy.
            if repetitions == LAZY or (repetitions and text != "?"):
                raise _Refused("invalid nested repetition operator")
            _check_repeat(token)
            out.append(text)
            repetitions += 1
            continue
        elif token["open"] is not None:
            out.append(_opening(text, in_class))
            in_class = not in_class or not text.endswith("]")
        else:
            out.append(_character(text, in_class))
            if not in_class:
                depth += (text == "(") - (text == ")")
            in_class = in_class and text != "]"
        repetitions = 0
        if depth > DEEPEST:
            raise _Refused("expression nests too deeply")
    return "".join(out)


def _opening(text: str, in_class: bool) -> str:
    """Translate "[", after which "]" is a literal; within a class, "[" is a literal."""
    if in_class:
        return text.replace("[", r"\[").replace("^", r"\^")
    return text.replace("]", r"\]")


def _character(text: str, in_class: bool) -> str:
    """Escape characters that are special in `re` but not in RE2: set operations, "{,5}"."""
    return f"\\{text}" if text in ("&|~" if in_class else "{") else text


def _escape(text: str) -> str:
    letter = text[1:2]
    if letter == "z":
        return r"\Z"
    if text.startswith(r"\x{"):
        return re.escape(chr(int(text[3:-1], 16)))
    if not letter or (letter.isalnum() and letter not in _ESCAPES) or letter in "123456789":
        raise _Refused("invalid escape sequence")
    return text


def _unicode_class(token: re.Match[str], in_class: bool) -> str:
    name = token["long"] or token["short"]
    characters = _UNICODE.get(name.removeprefix("^"))
    if characters is None:
        raise _Refused(f"invalid character class range: {token[0]}")
    if (token["negated"] == "P") == name.startswith("^"):
        return characters if in_class else f"[{characters}]"
    if in_class:
        raise _Refused(f"unsupported character class range: {token[0]}")
    return f"[^{characters}]"


def _posix_class(token: re.Match[str]) -> str:
    characters = _POSIX.get(token["name"])
    if characters is None or token["caret"]:
        raise _Refused(f"invalid character class range: {token[0]}")
    return characters


def _group(token: re.Match[str]) -> str:
    text = token[0]
    if token["flags"] is None and token["odd"] is None:
        return text if text.startswith("(?P<") else text.replace("(?<", "(?P<", 1)
    if token["odd"] is not None:
        raise _Refused("invalid or unsupported Perl syntax")
    if token["end"] == ")" and token.start():
        raise _Refused("flags that begin within the expression are not supported here")
    flags = token["flags"].replace("U", "").rstrip("-")  # greedy or not, the whole name matches
    return f"(?{flags}{token['end']}" if flags or token["end"] == ":" else ""


def _check_repeat(token: re.Match[str]) -> None:
    if token["repeat"] is None:
        return
    least, most = int(token["least"]), int(token["most"] or token["least"])
    if max(least, most) > LARGEST_REPEAT or most < least:
        raise _Refused("invalid repeat count")
