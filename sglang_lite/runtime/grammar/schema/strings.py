"""Strings: their length, pattern and format, as the text between two quotes."""

from __future__ import annotations

from sglang_lite.runtime.grammar.characters import QUOTE, counted_character, free_character
from sglang_lite.runtime.grammar.codepoints import Ranges
from sglang_lite.runtime.grammar.patterns import in_json_string
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.conjunction import Flat
from sglang_lite.runtime.grammar.schema.formats import FORMATS, is_standard
from sglang_lite.runtime.grammar.schema.places import pointer

MAX_LENGTH = 1000


def lengths(flats: list[Flat]) -> tuple[int, int | None]:
    """The fewest and the most characters that every flat allows."""
    return spans(flats, "minLength", "maxLength")


def spans(flats: list[Flat], least: str, most: str) -> tuple[int, int | None]:
    """The tightest pair of two keywords that count."""
    lows = [low for flat in flats if (low := flat.count(least)) is not None]
    highs = [high for flat in flats if (high := flat.count(most)) is not None]
    return max(lows, default=0), min(highs, default=None)


def string(flats: list[Flat], alphabet: Ranges) -> str | None:
    """A regex for the strings that are valid, quotes included; None if there are none."""
    low, high = lengths(flats)
    if high is not None and low > high:
        return None
    patterns = _each(flats, "pattern")
    formats = {name: flat for name, flat in _each(flats, "format").items() if is_standard(name)}
    if len(patterns) + len(formats) > 1:
        name, flat = list((patterns | formats).items())[1]
        keyword = "pattern" if name in patterns else "format"
        raise flat.bad(keyword, "beside another pattern or format is not held")
    if patterns:
        [(pattern, flat)] = patterns.items()
        return matching(pattern, pointer(flat.place.at, "pattern"), alphabet, low, high)
    if formats:
        [(name, flat)] = formats.items()
        body = _formatted(name, flat, low, high)
    else:
        body = _free(flats, low, high, alphabet)
    return None if body is None else f"{QUOTE}{body}{QUOTE}"


def matching(
    pattern: str, at: str, alphabet: Ranges, low: int = 0, high: int | None = None
) -> str | None:
    """A regex for the strings in which a pattern is found, quotes included."""
    try:
        body = in_json_string(pattern, alphabet, low, high)
    except Refusal as refusal:
        raise Refusal(f"the pattern {pattern!r:.200}: {refusal.reason}", at) from refusal
    return None if body is None else f"{QUOTE}(?:{body}){QUOTE}"


def _each(flats: list[Flat], keyword: str) -> dict[str, Flat]:
    """What different flats say by one keyword, and where."""
    found: dict[str, Flat] = {}
    for flat in flats:
        if keyword in flat.keywords:
            value = flat.keywords[keyword]
            if not isinstance(value, str):
                raise flat.bad(keyword, "is not a string")
            found.setdefault(value, flat)
    return found


def _free(flats: list[Flat], low: int, high: int | None, alphabet: Ranges) -> str:
    if low == 0 and high is None:
        return f"{free_character(alphabet)}*"
    largest = low if high is None else high
    if largest > MAX_LENGTH:
        keyword = "minLength" if high is None else "maxLength"
        flat = next(flat for flat in flats if flat.count(keyword) == largest)
        raise flat.bad(keyword, f"is {largest}; the limit is {MAX_LENGTH}")
    if high == 0:
        return ""
    return f"{counted_character(alphabet)}{{{low},{'' if high is None else high}}}"


def _formatted(name: str, flat: Flat, low: int, high: int | None) -> str | None:
    held = FORMATS.get(name)
    if held is None:
        raise flat.bad("format", f"{name!r} is not held; {', '.join(sorted(FORMATS))} are")
    if (high is not None and high < held.shortest) or (
        held.longest is not None and low > held.longest
    ):
        return None
    if low > held.shortest or (high is not None and (held.longest is None or high < held.longest)):
        raise flat.bad("format", f"{name!r} beside a length that it does not imply is not held")
    return held.regex
