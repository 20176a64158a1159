"""JSON schemas as regexes: exact, or refused. `to_regex` is the door; `keywords` is the promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Held", "to_regex"]


def __getattr__(name: str) -> Any:
    # Late, so that `python -m ...schema.keywords` does not find itself loaded already.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sglang_lite.runtime.grammar.schema import front

    return getattr(front, name)


if TYPE_CHECKING:
    from sglang_lite.runtime.grammar.schema.front import Held as Held
    from sglang_lite.runtime.grammar.schema.front import to_regex as to_regex
