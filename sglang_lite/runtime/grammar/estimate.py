"""How large a regex is once its bounded repeats are multiplied out, without compiling it.

The time and memory that an automaton costs follow this number far better than the length of the
text, and it takes one pass over it.
"""

from __future__ import annotations

import re

ENOUGH = 10**9  # a size beyond this is not told apart
_CLASS = 3  # states: a range of characters is several sequences of bytes
_TOKEN = re.compile(
    r"(?P<open>\((?:\?(?:P?<\w+>|[a-zA-Z-]*:))?)"
    r"|(?P<close>\))"
    r"|(?P<or>\|)"
    r"|(?P<repeat>\{(?P<low>\d+)(?P<comma>,(?P<high>\d*))?\})"
    r"|(?P<mark>[*+?])"
    r"|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*(?:\]|\Z))"
    r"|(?P<hex>\\[xuU]\{(?P<point>[0-9A-Fa-f]{1,6})\})"
    r"|(?P<wide>\\[pPdDwWsS](?:\{\w+\})?)"
    r"|(?P<one>\\.|.)",
    re.DOTALL,
)


def expanded_size(regex: str) -> int:
    """The atoms of `regex` with every bounded repeat written out, up to `ENOUGH`."""
    outer: list[int] = []
    total = last = 0
    for token in _TOKEN.finditer(regex):
        kind = token.lastgroup
        if kind == "open":
            outer.append(total)
            total = last = 0
        elif kind == "close":
            last = max(total, 1)
            total = last + (outer.pop() if outer else 0)
        elif kind == "repeat":
            total += last * (_copies(token) - 1)
        elif kind not in ("or", "mark"):
            last = _atom(token)
            total += last
        total, last = min(total, ENOUGH), min(last, ENOUGH)
    return min(total + sum(outer), ENOUGH)


def _copies(token: re.Match[str]) -> int:
    """How often a repeat writes its body: an open end is one more copy, in a loop."""
    low = int(token["low"][:12])
    if not token["comma"]:
        return max(low, 1)
    return max(int(token["high"][:12]) if token["high"] else low + 1, 1)


def _atom(token: re.Match[str]) -> int:
    if token.lastgroup in ("class", "wide"):
        return _CLASS
    if token.lastgroup != "hex":
        return 1
    point = int(token["point"], 16)
    return 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4
