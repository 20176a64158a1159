"""What `gen` may be told about the form of its text, as a constraint and the stops it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sglang_lite.constraints import READERS, both, choose, text_of, wrong
from sglang_lite.params import Constraint

# type -> pattern, and where the text ends: a model says that a number is over with a space
ENDS = (" ", "\n")
PATTERNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "int": (r"[-+]?[0-9]+[ \n]*", ENDS),
    "float": (r"[-+]?[0-9]*\.?[0-9]+[ \n]*", ENDS),
    "str": (r'"[\w\d\s]*"', ()),
    "bool": (r"(True|False)", ()),
}


def form_of(dtype: type | str | None, **said: Any) -> tuple[Constraint | None, tuple[str, ...]]:
    """The constraint under SGLang's names in `said` or of `dtype`, and stops that come with it.

    Raises:
        re.error: `regex` is not a regular expression.
        InvalidRequest: a value has the wrong shape, or two constraints are given.
        InvalidGrammar: `json_schema` is no schema.
    """
    if said.get("regex") is not None:
        _look_at(text_of("regex", said["regex"]))
    if dtype is None:
        return choose(said, READERS), ()
    if other := next((name for name in READERS if said.get(name) is not None), None):
        raise both("dtype", other)
    name = dtype.__name__ if isinstance(dtype, type) else dtype
    if name not in PATTERNS:
        raise wrong("dtype", dtype, f"one of {', '.join(PATTERNS)}")
    pattern, stops = PATTERNS[name]
    return choose({**said, "regex": pattern}, READERS), stops


def _look_at(regex: str) -> None:
    """Raise at once what every dialect finds wrong; classes such as `\\p{L}` are not Python's."""
    re.compile(re.sub(r"\\[pP](?:\{\^?\w+\}|\w)", ".", regex))
