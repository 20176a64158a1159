"""Sets of characters as sorted ranges of code points, and how a regex writes them.

Two code points are never in a set: the sentinels that mark the start and the end of a string
while an automaton is built. Surrogates are no characters.
"""

from __future__ import annotations

from collections.abc import Iterable

from sglang_lite.runtime.grammar.refusal import Refusal

Ranges = tuple[tuple[int, int], ...]  # sorted, apart, both ends included

LAST = 0x10FFFF
CHARACTERS: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFD))


def normalise(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same set with its ranges sorted and joined where they touch."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def of(text: str) -> Ranges:
    """The characters of `text`."""
    return normalise((ord(character), ord(character)) for character in text)


def intersect(first: Ranges, second: Ranges) -> Ranges:
    """What is in both."""
    common: list[tuple[int, int]] = []
    left = right = 0
    while left < len(first) and right < len(second):
        low = max(first[left][0], second[right][0])
        high = min(first[left][1], second[right][1])
        if low <= high:
            common.append((low, high))
        if first[left][1] < second[right][1]:
            left += 1
        else:
            right += 1
    return tuple(common)


def complement(ranges: Ranges, within: Ranges = CHARACTERS) -> Ranges:
    """What is in `within` and not in `ranges`."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return intersect(tuple(gaps), within)


def written(point: int) -> str:
    """One code point in a Rust regex, in a class or outside."""
    character = chr(point)
    return character if point < 128 and character.isalnum() else f"\\x{{{point:X}}}"


def class_of(ranges: Ranges) -> str:
    """A regex for one character of a set that is not empty; always a single atom."""
    if not ranges:
        raise ValueError("no regex matches a character of the empty set")
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return written(ranges[0][0])
    parts = (
        written(low) if low == high else f"{written(low)}-{written(high)}" for low, high in ranges
    )
    return f"[{''.join(parts)}]"


def literal(text: str, alphabet: Ranges = CHARACTERS) -> str:
    """A regex for exactly `text`.

    Raises:
        Refusal: a character is not in `alphabet`.
    """
    missing = complement(alphabet, of(text))
    if missing:
        raise Refusal(f"the vocabulary cannot spell {named(missing[0][0])}")
    return "".join(written(ord(character)) for character in text)


def named(point: int) -> str:
    """A code point for the reader of a message."""
    character = chr(point)
    shown = f" ({character})" if character.isprintable() and not character.isspace() else ""
    return f"U+{point:04X}{shown}"


def either(options: list[str]) -> str:
    """A regex for any of one or more."""
    return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"
