"""The members of an object in their order, each present or not, with commas between."""

from __future__ import annotations

from typing import NamedTuple

from sglang_lite.runtime.grammar.codepoints import either
from sglang_lite.runtime.grammar.schema.writer import repeated

MAX_OPTIONAL = 40  # without a required one among them
MAX_COUNTED = 6  # optional ones, if their number matters


class Member(NamedTuple):
    """A name and its value, written."""

    regex: str
    required: bool


def members(declared: list[Member], other: str | None, comma: str, *, some: bool) -> str:
    """Declared members, then any number of others; `some`: at least one member in all."""
    behind = f"(?:{comma}{other})*" if other else ""
    first = next((at for at, member in enumerate(declared) if member.required), None)
    if first is not None:
        before = "".join(f"(?:{member.regex}{comma})?" for member in declared[:first])
        return before + declared[first].regex + _after(declared[first + 1 :], comma) + behind
    options = [either(_some(declared, comma)) + behind] if declared else []
    options += [other + behind] if other else []
    if not options:
        return ""
    return either(options) if some else f"(?:{'|'.join(options)})?"


def counted(declared: list[Member], low: int, high: int, comma: str) -> str | None:
    """Declared members, from `low` to `high` of them; None if that cannot be."""
    return _counted(declared, low, high, comma, started=False)


def mapped(other: str, low: int, high: int | None, comma: str) -> str:
    """Undeclared members only: at least one if `low`, at most `high`."""
    if high == 0:
        return ""
    body = other + repeated(f"(?:{comma}{other})", 0, None if high is None else high - 1)
    return body if low else f"(?:{body})?"


def _after(declared: list[Member], comma: str) -> str:
    return "".join(
        comma + member.regex if member.required else f"(?:{comma}{member.regex})?"
        for member in declared
    )


def _some(declared: list[Member], comma: str) -> list[str]:
    """One of optional members at least: some of the first half, or none of them.

    Halving writes each member a logarithmic number of times, where naming the first member that
    is present would write it once for each before it.
    """
    if len(declared) == 1:
        return [declared[0].regex]
    half = len(declared) // 2
    left = either(_some(declared[:half], comma)) + _after(declared[half:], comma)
    return [left, *_some(declared[half:], comma)]


def _counted(
    declared: list[Member], low: int, high: int, comma: str, *, started: bool
) -> str | None:
    required = sum(member.required for member in declared)
    if low > len(declared) or required > high:
        return None
    if started and low <= required and len(declared) <= high:
        return _after(declared, comma)
    if not declared:
        return ""
    first, rest = declared[0], declared[1:]
    options = []
    with_it = _counted(rest, low - 1, high - 1, comma, started=True)
    if with_it is not None:
        options.append((comma if started else "") + first.regex + with_it)
    if not first.required:
        without = _counted(rest, low, high, comma, started=started)
        options += [without] if without is not None else []
    return either(options) if options else None
