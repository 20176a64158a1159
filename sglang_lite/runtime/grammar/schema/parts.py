"""Where in a schema there are schemas: names of properties are no keywords, nor are values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

VALUES = frozenset({"enum", "const", "default", "examples"})  # hold values, not schemas
MAPS = frozenset({
    "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions",
})  # fmt: skip


def parts(schema: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], object]]:
    """What stands directly in `schema` and may be or hold a schema, and the steps to it.

    What an unknown word holds is among it: a reference may lead there.
    """
    for name, value in schema.items():
        if name in MAPS and isinstance(value, dict):
            yield from (((name, each), value[each]) for each in value)
        elif name not in VALUES:
            yield (name,), value


def with_parts(
    schema: Mapping[str, Any], write: Callable[[tuple[str, ...], Any], Any]
) -> dict[str, Any]:
    """A copy of `schema` in which each of its `parts` is what `write` makes of its steps and it."""
    made = {**schema}
    made.update({name: {} for name in MAPS & schema.keys() if isinstance(schema[name], dict)})
    for steps, value in parts(schema):
        home = made if len(steps) == 1 else made[steps[0]]
        home[steps[-1]] = write(steps, value)
    return made
