"""How the characters of a JSON string may be spelled, as regexes over the text between quotes."""

from __future__ import annotations

from functools import cache

from sglang_lite.runtime.grammar.codepoints import (
    CHARACTERS,
    Ranges,
    class_of,
    complement,
    intersect,
    named,
    normalise,
    of,
    written,
)
from sglang_lite.runtime.grammar.refusal import Refusal

QUOTE = written(ord('"'))
_BACKSLASH = written(ord("\\"))
_RAW = complement(normalise([(0, 0x1F), *of('"\\')]))
_SHORT = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_SHORT_ANY = class_of(of('"\\/bfnrt'))
_HEX = "[0-9A-Fa-f]"
# A surrogate stands for something only as the first half of a pair.
_UNICODE = (
    f"u(?:(?:[0-9A-CEFa-cef]{_HEX}|[Dd][0-7]){_HEX}{{2}}"
    f"|[Dd][89ABab]{_HEX}{{2}}{_BACKSLASH}u[Dd][C-Fc-f]{_HEX}{{2}})"
)


@cache
def free_character(alphabet: Ranges) -> str:
    """Any character, in any spelling: itself, a short escape, or `\\u` and its number."""
    return f"(?:{class_of(_raw(alphabet))}|{_BACKSLASH}(?:{_SHORT_ANY}|{_UNICODE}))"


@cache
def counted_character(alphabet: Ranges) -> str:
    """Any character, as itself or as a short escape: few states, since many are counted."""
    return f"(?:{class_of(_raw(alphabet))}|{_BACKSLASH}{_SHORT_ANY})"


def character_of(ranges: Ranges, alphabet: Ranges) -> str:
    """One character of `ranges`: itself where JSON allows it, else its short escape.

    Raises:
        Refusal: none of them can be spelled like that.
    """
    raw = intersect(ranges, _raw(alphabet))
    options = [class_of(raw)] if raw else []
    options += [
        _BACKSLASH + written(ord(escape))
        for character, escape in _SHORT.items()
        if intersect(ranges, of(character))
    ]
    if not options:
        first = f", {named(ranges[0][0])} the first" if ranges else ""
        raise Refusal(f"a class of characters that cannot be spelled in JSON here{first}")
    return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"


def spells_json(alphabet: Ranges) -> bool:
    """Whether JSON's own characters are all in `alphabet`."""
    return not complement(alphabet, ((0x20, 0x7E),))


def _raw(alphabet: Ranges) -> Ranges:
    return intersect(intersect(_RAW, alphabet), CHARACTERS)
