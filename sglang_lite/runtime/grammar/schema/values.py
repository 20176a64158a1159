"""JSON values that a schema names: which are the same, of what type, how they are spelled."""

from __future__ import annotations

import json
import math

from sglang_lite.runtime.grammar.codepoints import Ranges, literal
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.conjunction import Flat
from sglang_lite.runtime.grammar.schema.formats import is_standard
from sglang_lite.runtime.grammar.schema.keywords import row_of
from sglang_lite.runtime.grammar.schema.numbers import multiples, within
from sglang_lite.runtime.grammar.schema.strings import lengths

MAX_VALUES = 5000
_EXACT = 2**53  # whole floats below are the numbers that they look like


def type_of(value: object) -> str:
    """The narrowest JSON type of a value; whole floats are integers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def identity(value: object) -> str:
    """The same text for equal values, and for no others."""
    return json.dumps(_plain(value), sort_keys=True)


def named_values(flats: list[Flat]) -> dict[str, object] | None:
    """The values by identity that every `enum` and `const` names; None if there is neither."""
    found: dict[str, object] | None = None
    for flat in flats:
        for name in ("enum", "const"):
            if name not in flat.keywords:
                continue
            listed = flat.listing(name) if name == "enum" else [flat.keywords[name]]
            if len(listed) > MAX_VALUES:
                raise flat.bad(name, f"lists {len(listed)} values; the limit is {MAX_VALUES}")
            here = {identity(value): value for value in listed}
            if found is None:
                found = here
            else:
                found = {key: value for key, value in found.items() if key in here}
    return found


def holds(value: object, flats: list[Flat]) -> bool:
    """Whether a value is valid by the keywords beside the list that names it."""
    kind = type_of(value)
    beside = [
        (flat, name)
        for flat in flats
        for name in flat.keywords
        if (row := row_of(name)) is not None and row.family == kind
        if name != "format" or is_standard(flat.keywords[name])
    ]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return within(value, flats) and all(value % step == 0 for step in multiples(flats))
    if not beside:
        return True
    if isinstance(value, str) and all(name in ("minLength", "maxLength") for _, name in beside):
        low, high = lengths(flats)
        return low <= len(value) and (high is None or len(value) <= high)
    flat, name = beside[0]
    raise flat.bad(name, "beside `enum` or `const` is not held")


def spelled(value: object, whitespace: str, alphabet: Ranges) -> str:
    """A regex for a value as `json.dumps` spells it, with space between the tokens."""
    comma = f"{whitespace},{whitespace}"
    if isinstance(value, dict):
        colon = f"{whitespace}:{whitespace}"
        pairs = (
            spelled(name, "", alphabet) + colon + spelled(each, whitespace, alphabet)
            for name, each in value.items()
        )
        inside = comma.join(pairs)
        return rf"\{{{whitespace}{inside}{whitespace if inside else ''}\}}"
    if isinstance(value, list):
        inside = comma.join(spelled(each, whitespace, alphabet) for each in value)
        return rf"\[{whitespace}{inside}{whitespace if inside else ''}\]"
    if isinstance(value, float):
        value = _exactly(value)
    return literal(json.dumps(value, ensure_ascii=False), alphabet)


def _exactly(value: float) -> int | float:
    if not math.isfinite(value) or (value.is_integer() and abs(value) > _EXACT):
        raise Refusal(f"the number {value!r} is not exact")
    return int(value) if value.is_integer() else value


def _plain(value: object) -> object:
    """A value in which equal numbers are equal objects."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return _exactly(value)
    return value
