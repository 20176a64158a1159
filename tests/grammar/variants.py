"""JSON values near a given one, to see what else is let through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def variants(value: Any, random: Random) -> Iterator[Any]:
    """The value, and values that differ from it somewhere."""
    yield value
    if isinstance(value, dict):
        for name in value:
            yield {key: each for key, each in value.items() if key != name}
            for each in variants(value[name], random):
                yield {**value, name: each}
        yield {**value, random.choice("abcd"): random.choice([1, "a", None])}
    elif isinstance(value, list):
        yield value[1:]
        yield [*value, *(value[:1] or [0])]
        for at, item in enumerate(value):
            yield from ([*value[:at], each, *value[at + 1 :]] for each in variants(item, random))
    elif isinstance(value, str):
        yield from (value + "a", value[1:], value + "\u00e9", value.upper())
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from (value + 1, value - 1, -value, value * 10, value + 0.25, round(value, 1))
    yield random.choice([None, True, 0, "a", [], {}])
