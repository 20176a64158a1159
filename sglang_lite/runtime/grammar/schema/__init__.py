"""JSON schemas as regexes: exact, or refused. `to_regex` is the door; `keywords` is the promise."""

from sglang_lite.runtime.grammar.schema.front import Held, to_regex

__all__ = ["Held", "to_regex"]
