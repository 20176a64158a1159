"""A user's regex as an exact Rust regex, over text as it is or over the body of a JSON string.

Two readings. `rewrite` takes Python's syntax and matches the whole text; letters of classes mean
ASCII, and `.` is anything but a newline. `in_json_string` takes the keyword `pattern`: ECMA's
reading, found anywhere unless anchored. What has no exact counterpart is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sglang_lite.runtime.grammar.characters import (
    character_of,
    counted_character,
    free_character,
)
from sglang_lite.runtime.grammar.codepoints import (
    CHARACTERS,
    Ranges,
    class_of,
    complement,
    either,
    intersect,
    named,
    normalise,
    of,
)
from sglang_lite.runtime.grammar.expressions import (
    MAX_REPEAT,
    Arm,
    Characters,
    Choice,
    Dialect,
    Node,
    Repeat,
    Sequence,
    arms,
    parse,
    total_width,
    width,
)
from sglang_lite.runtime.grammar.refusal import Refusal

MAX_REGEX = 200_000  # characters of a regex that is written

_DIGIT = normalise([(0x30, 0x39)])
_WORD = normalise([*_DIGIT, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_ASCII_SPACE = of(" \t\n\r\f\v")
_ECMA_SPACE = normalise(
    [*_ASCII_SPACE, *of("\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"), (0x2000, 0x200A)]
)
_PYTHON = Dialect(_DIGIT, _WORD, _ASCII_SPACE, complement(of("\n")))
_ECMA = Dialect(_DIGIT, _WORD, _ECMA_SPACE, complement(of("\n\r\u2028\u2029")))

# Read by Python, and by ECMA in another way. What is neither is taken as a whole, so that a
# backslash is not mistaken for the start of an escape, nor a bracket in a class for its end.
_ESCAPE = r"(?P<escape>\\(?:[AZzaUN]|0\d|[1-9]))|\\."
_IN_CLASS = re.compile(_ESCAPE, re.DOTALL)
_ELSEWHERE = re.compile(
    rf"{_ESCAPE}|(?P<empty>\[\^?\])|(?P<class>\[(?:\\.|[^\]\\])*\])"
    r"|(?P<repeat>\{,\d+\})|(?P<group>\(\?(?:P|#))|.",
    re.DOTALL,
)

Spell = Callable[[Ranges], str]


def rewrite(pattern: str, alphabet: Ranges) -> str:
    """A Rust regex for the texts over `alphabet` that `pattern` matches whole.

    Raises:
        Refusal: it is not held exactly, or needs a character outside `alphabet`.
    """

    def spell(ranges: Ranges) -> str:
        held = intersect(ranges, alphabet)
        if not held:
            raise Refusal(_unspelled(ranges))
        return class_of(held)

    found = arms(parse(pattern, _PYTHON))
    return _bounded(either([_sequence(arm.parts, spell) for arm in found]))


def in_json_string(
    pattern: str, alphabet: Ranges, shortest: int = 0, longest: int | None = None
) -> str | None:
    """A Rust regex for the bodies of the JSON strings in which `pattern` is found.

    Args:
        shortest, longest: bounds of the string's characters.

    Returns:
        None if no string has both the pattern and the length.

    Raises:
        Refusal: it is not held exactly, or needs a character outside `alphabet`.
    """
    found = list(arms(parse(pattern, _ECMA)))
    _refuse_other_readings(pattern)
    if longest is not None and longest < shortest:
        return None

    def spell(ranges: Ranges) -> str:
        return character_of(ranges, alphabet)

    if shortest == 0 and longest is None:
        free = f"{free_character(alphabet)}*"
        return _bounded(either([_surrounded(arm, spell, free) for arm in found]))
    fitting = [_fitted(_whole(arm), shortest, longest) for arm in found]
    any_one = counted_character(alphabet)
    held = [_sequence(parts, spell, any_one) for parts in fitting if parts is not None]
    return _bounded(either(held)) if held else None


def _refuse_other_readings(pattern: str) -> None:
    for token in _ELSEWHERE.finditer(pattern):
        odd = token.lastgroup is not None
        if token.lastgroup == "class":
            odd = any(escape["escape"] for escape in _IN_CLASS.finditer(token[0]))
        if odd:
            raise Refusal(f"{token[0]!r} does not mean one thing in every dialect of regexes")


def _surrounded(arm: Arm, spell: Spell, free: str) -> str:
    before = "" if arm.from_start else free
    after = "" if arm.to_end else free
    return before + _sequence(arm.parts, spell) + after


_ANYTHING = Repeat(Characters(CHARACTERS), 0, None)


def _whole(arm: Arm) -> tuple[Node, ...]:
    """The parts of an arm, with what may stand before and behind them."""
    before = () if arm.from_start else (_ANYTHING,)
    after = () if arm.to_end else (_ANYTHING,)
    return (*before, *arm.parts, *after)


def _fitted(parts: tuple[Node, ...], shortest: int, longest: int | None) -> tuple[Node, ...] | None:
    """`parts` with at least `shortest` and at most `longest` characters; None if there are none.

    One repeat of single characters among parts of a fixed width can be counted; more cannot be
    told apart without intersecting automata.
    """
    low, high = total_width(parts)
    if (longest is not None and low > longest) or (high is not None and high < shortest):
        return None
    if low >= shortest and (longest is None or (high is not None and high <= longest)):
        return parts
    loose = [at for at, part in enumerate(parts) if width(part)[0] != width(part)[1]]
    at = loose[0]
    part = parts[at]
    if len(loose) > 1 or not isinstance(part, Repeat) or width(part.body) != (1, 1):
        raise Refusal("`pattern` beside a length that it does not imply")
    fixed = low - part.low
    bottom = max(part.low, shortest - fixed)
    tops = [
        top for top in (part.high, None if longest is None else longest - fixed) if top is not None
    ]
    top = min(tops) if tops else None
    if max(bottom, top or 0) > MAX_REPEAT:
        raise Refusal(f"a length of more than {MAX_REPEAT}")
    return (*parts[:at], Repeat(part.body, bottom, top), *parts[at + 1 :])


def _sequence(parts: Iterable[Node], spell: Spell, anything: str | None = None) -> str:
    return "".join(_written(part, spell, anything) for part in parts)


def _written(node: Node, spell: Spell, anything: str | None) -> str:
    if isinstance(node, Characters):
        if anything and node.ranges == CHARACTERS:
            return anything
        return spell(node.ranges)
    if isinstance(node, Sequence):
        return _sequence(node.parts, spell, anything)
    if isinstance(node, Choice):
        return either([_written(option, spell, anything) for option in node.options])
    assert isinstance(node, Repeat)
    if node.high == 0:
        return ""
    return f"(?:{_written(node.body, spell, anything)}){_times(node.low, node.high)}"


def _times(low: int, high: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?", (1, 1): ""}
    exact = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
    return short.get((low, high), exact)


def _bounded(regex: str) -> str:
    if len(regex) > MAX_REGEX:
        raise Refusal(f"a regex of {len(regex)} characters; the limit is {MAX_REGEX}")
    return regex


def _unspelled(ranges: Ranges) -> str:
    if not ranges:
        return "a class of no characters"
    more = "" if ranges[0][0] == ranges[-1][1] else " or any other of its class"
    return f"the vocabulary cannot spell {named(ranges[0][0])}{more}"
