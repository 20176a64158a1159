"""Numbers within bounds, as regexes over their digits.

Integers have one spelling, without a fraction. A number within bounds is spelled without an
exponent; whoever reads it as a 64-bit float finds it on the same side of the bound, because no
more than fifteen digits tell it from one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.conjunction import Flat
from sglang_lite.runtime.grammar.schema.digits import (
    decimals,
    integers,
    multiples_of,
    tells_multiples,
)
from sglang_lite.runtime.grammar.schema.writer import Notes

INTEGER = "(?:0|\\x{2D}?[1-9][0-9]*)"
_UNSIGNED = "(?:0|[1-9][0-9]*)(?:\\x{2E}[0-9]+)?(?:[Ee][\\x{2B}\\x{2D}]?[0-9]+)?"
NUMBER = f"\\x{{2D}}?{_UNSIGNED}"
_DIGITS = 15  # as many as a 64-bit float always keeps
_MAX_BOUND = 10**40
WIDTHS = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


@dataclass(slots=True)
class Bounds:
    """What a number must lie between; an open side is `None`."""

    low: Fraction | None = None
    high: Fraction | None = None
    above: bool = False  # the low bound itself is out
    below: bool = False  # the high bound itself is out

    def raise_low(self, bound: Fraction, *, out: bool) -> None:
        if self.low is None or (bound, out) > (self.low, self.above):
            self.low, self.above = bound, out

    def drop_high(self, bound: Fraction, *, out: bool) -> None:
        if self.high is None or (-bound, out) > (-self.high, self.below):
            self.high, self.below = bound, out

    @property
    def empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.above or self.below))

    def scaled(self, scale: int) -> tuple[int | None, int | None]:
        """The lowest and the highest whole multiple of 1 / scale within."""
        low = high = None
        if self.low is not None:
            at = self.low * scale
            low = math.floor(at) + 1 if self.above else math.ceil(at)
        if self.high is not None:
            at = self.high * scale
            high = math.ceil(at) - 1 if self.below else math.floor(at)
        return low, high


def bounds(flats: list[Flat]) -> Bounds:
    """What every flat says of a number, taken together."""
    found = Bounds()
    for flat in flats:
        for side, take in (("Minimum", found.raise_low), ("Maximum", found.drop_high)):
            plain = _number(flat, side.lower())
            exclusive = flat.keywords.get(f"exclusive{side}")
            if isinstance(exclusive, bool):  # draft 4: it qualifies its neighbour
                if plain is not None:
                    take(plain, out=exclusive)
                continue
            if plain is not None:
                take(plain, out=False)
            beyond = _number(flat, f"exclusive{side}")
            if beyond is not None:
                take(beyond, out=True)
    return found


def within(value: int | float, flats: list[Flat]) -> bool:
    """Whether the bounds, those of a width among them, allow a value."""
    found = bounds(flats)
    _narrow(found, flats)
    found.raise_low(_fraction(value), out=False)
    found.drop_high(_fraction(value), out=False)
    return not found.empty


def multiples(flats: list[Flat]) -> list[int]:
    """The steps that a number must be a multiple of, 1 left out."""
    steps = []
    for flat in flats:
        step = _number(flat, "multipleOf")
        if step is None:
            continue
        if step.denominator != 1 or step <= 0:
            raise flat.bad("multipleOf", f"is held for whole numbers, not {float(step)!r}")
        steps.append(step.numerator)
    return [step for step in steps if step != 1]


def integer(flats: list[Flat]) -> str | None:
    """A regex for the integers that are valid; None if there are none."""
    found = bounds(flats)
    _narrow(found, flats)
    low, high = found.scaled(1)
    step = math.lcm(*multiples(flats))
    if step != 1:
        if not tells_multiples(step, low, high):
            raise _multiple(flats).bad("multipleOf", f"of {step} is held within narrow bounds only")
        return multiples_of(step, low, high)
    if low is None and high is None:
        return INTEGER
    return integers(low, high)


def number(flats: list[Flat], notes: Notes) -> str | None:
    """A regex for the numbers that are valid; None if there are none."""
    if any("multipleOf" in flat.keywords for flat in flats):
        return integer(flats)
    found = bounds(flats)
    _narrow(found, flats)
    if found.low is None and found.high is None:
        return NUMBER
    if found.empty:
        return None
    if found.low == 0 and not found.above and found.high is None:
        return _UNSIGNED  # an exponent cannot make it negative
    largest = max(abs(bound) for bound in (found.low, found.high) if bound is not None)
    places = max(0, _DIGITS - len(str(int(largest))))
    low, high = found.scaled(10**places)
    regex = decimals(low, high, places)
    if regex is None:
        raise Refusal(f"no number of {_DIGITS} digits lies within the bounds", flats[0].place.at)
    notes.add(f"a number with bounds has no exponent, and at most {places} digits after the point")
    return regex


def _narrow(found: Bounds, flats: list[Flat]) -> None:
    """Lay the widths of integers over the bounds: they are formats, of OpenAPI."""
    for flat in flats:
        name = flat.keywords.get("format")
        if isinstance(name, str) and name in WIDTHS:
            low, high = WIDTHS[name]
            found.raise_low(Fraction(low), out=False)
            found.drop_high(Fraction(high), out=False)


def _multiple(flats: list[Flat]) -> Flat:
    return next(flat for flat in flats if "multipleOf" in flat.keywords)


def _number(flat: Flat, name: str) -> Fraction | None:
    value = flat.keywords.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise flat.bad(name, f"is not a number but {value!r}")
    if isinstance(value, float) and not abs(value) < 10**_DIGITS:
        raise flat.bad(name, f"is too large a float to be exact: {value!r}")
    if abs(value) > _MAX_BOUND:
        raise flat.bad(name, "has more than 40 digits")
    return _fraction(value)


def _fraction(value: int | float) -> Fraction:
    """The number that was written, rather than the float nearest to it."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))
