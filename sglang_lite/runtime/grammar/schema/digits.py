"""Ranges of whole and decimal numbers as regexes, digit by digit."""

from __future__ import annotations

from collections.abc import Callable

from sglang_lite.runtime.grammar.codepoints import either

_MAX_LISTED = 1000
_MINUS, _POINT = "\\x{2D}", "\\x{2E}"


def integers(low: int | None, high: int | None) -> str | None:
    """The integers from `low` to `high`, None being open; None if there are none."""
    return _signed(low, high, _naturals)


def decimals(low: int | None, high: int | None, places: int) -> str | None:
    """The decimals from `low` to `high`, both counted in units of the last of `places`."""
    return _signed(low, high, lambda bottom, top: _decimals(bottom, top, places))


def tells_multiples(step: int, low: int | None, high: int | None) -> bool:
    """Whether the multiples within are few, or told by their last digits."""
    return _few(step, low, high) or 1000 % step == 0


def multiples_of(step: int, low: int | None, high: int | None) -> str | None:
    """The multiples of `step` that are within, where they can be told; None if none are."""
    if low is not None and high is not None and _few(step, low, high):
        listed = range(-(-low // step) * step, high + 1, step)
        return either([str(value).replace("-", _MINUS) for value in listed]) if listed else None
    digits = next(count for count in (1, 2, 3) if 10**count % step == 0)
    return _signed(low, high, lambda bottom, top: _stepped(bottom, top, step, digits))


def _few(step: int, low: int | None, high: int | None) -> bool:
    return low is not None and high is not None and (high - low) // step < _MAX_LISTED


def _signed(
    low: int | None, high: int | None, unsigned: Callable[[int, int | None], list[str]]
) -> str | None:
    """Both sides of zero; a minus only before what is below it."""
    options: list[str] = []
    if high is None or high >= 0:
        options += unsigned(max(low or 0, 0), high)
    if low is None or low < 0:
        below = unsigned(max(1, -high) if high is not None else 1, None if low is None else -low)
        options += [f"{_MINUS}{either(below)}"] if below else []
    return either(options) if options else None


def _naturals(low: int, high: int | None) -> list[str]:
    """Numbers without leading zeros, one option for each length."""
    length = len(str(low))
    longest = length if high is None else len(str(high))
    options = []
    for count in range(length, longest + 1):
        bottom = max(low, 10 ** (count - 1) if count > 1 else 0)
        top = 10**count - 1 if high is None else min(high, 10**count - 1)
        if bottom <= top:
            options.append(_between(str(bottom), str(top)))
    if high is None:
        options.append(f"[1-9][0-9]{{{length},}}")
    return options


def _between(low: str, high: str) -> str:
    """The texts of digits between two of the same length."""
    if low == high:
        return low
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    rest = len(low) - 1
    first, last = int(low[0]), int(high[0])
    options = []
    if low[1:].strip("0"):
        options.append(low[0] + _between(low[1:], "9" * rest))
        first += 1
    if high[1:].strip("9"):
        options.append(high[0] + _between("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        options.append(_digit(first, last) + (f"[0-9]{{{rest}}}" if rest else ""))
    return either(options)


def _digit(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"


def _decimals(low: int, high: int | None, places: int) -> list[str]:
    scale = 10**places
    bottom, low_rest = divmod(low, scale)
    top, high_rest = divmod(high, scale) if high is not None else (None, scale - 1)
    if high is not None and low > high:
        return []
    if bottom == top:
        return [_with_fraction(str(bottom), low_rest, high_rest, places)]
    options = [_with_fraction(str(bottom), low_rest, scale - 1, places)]
    inner = None if top is None else top - 1
    if inner is None or bottom < inner:
        options.append(_with_fraction(either(_naturals(bottom + 1, inner)), 0, scale - 1, places))
    if top is not None:
        options.append(_with_fraction(str(top), 0, high_rest, places))
    return options


def _with_fraction(whole: str, low: int, high: int, places: int) -> str:
    """A whole part, a point and digits between; the fraction may be left out where it may be 0."""
    if not places:
        return whole
    fraction = _POINT + _fraction(str(low).zfill(places), str(high).zfill(places))
    return whole + (fraction if low else f"(?:{fraction})?")


def _fraction(low: str, high: str) -> str:
    """One digit or more, whose value after the point lies between."""
    rest = len(low) - 1
    first, last = int(low[0]), int(high[0])
    if first == last:
        return low[0] + _tail(low[1:], high[1:])
    options = []
    if low[1:].strip("0"):
        options.append(low[0] + _tail(low[1:], "9" * rest))
        first += 1
    if high[1:].strip("9"):
        options.append(high[0] + _tail("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        options.append(_digit(first, last) + _tail("0" * rest, "9" * rest))
    return either(options)


def _tail(low: str, high: str) -> str:
    """The digits that may follow, none of them where zeros would do."""
    if not low:
        return ""
    if not low.strip("0") and not high.strip("9"):
        return f"[0-9]{{0,{len(low)}}}"
    return _fraction(low, high) if low.strip("0") else f"(?:{_fraction(low, high)})?"


def _stepped(low: int, high: int | None, step: int, digits: int) -> list[str]:
    """The multiples of a step that the last `digits` digits tell."""
    scale = 10**digits
    if high is not None and low > high:
        return []
    top, last = divmod(high, scale) if high is not None else (None, scale - 1)
    small = scale - 1 if high is None else min(scale - 1, high)
    options = [str(value) for value in range(-(-low // step) * step, small + 1, step)]
    bottom, first = divmod(max(low, scale), scale)

    def ending(from_: int, to: int) -> str | None:
        listed = range(-(-from_ // step) * step, to + 1, step)
        return either([str(value).zfill(digits) for value in listed]) if listed else None

    def add(heads: str, from_: int, to: int) -> None:
        tails = ending(from_, to)
        if tails:
            options.append(heads + tails)

    if top is None:
        add(str(bottom), first, scale - 1)
        add(either(_naturals(bottom + 1, None)), 0, scale - 1)
    elif bottom == top:
        add(str(bottom), first, last)
    elif bottom < top:
        add(str(bottom), first, scale - 1)
        if bottom + 1 < top:
            add(either(_naturals(bottom + 1, top - 1)), 0, scale - 1)
        add(str(top), 0, last)
    return options
