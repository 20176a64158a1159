"""What the writers of arrays and objects get from the front: how to go on, and what to note."""

from __future__ import annotations

from typing import Protocol

from sglang_lite.runtime.grammar.codepoints import Ranges
from sglang_lite.runtime.grammar.schema.conjunction import Goal


class Notes:
    """In what the language is narrower than the schema: sentences, each said once."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}

    def add(self, sentence: str) -> None:
        self._said[sentence] = None

    def all(self) -> tuple[str, ...]:
        return tuple(self._said)


class Writer(Protocol):
    """Writes what is below, with one policy for all of it."""

    whitespace: str  # a regex for what may stand between tokens
    alphabet: Ranges
    closed: bool  # silence about other properties or items forbids them
    notes: Notes

    def write(self, goal: Goal) -> str | None:
        """A regex for the instances that are valid; None if there are none."""
        ...

    @property
    def comma(self) -> str:
        """A regex for a comma and the space around it."""
        ...


def repeated(group: str, low: int, high: int | None) -> str:
    """A regex that is one group, from `low` to `high` times."""
    return "" if high == 0 else f"{group}{{{low},{'' if high is None else high}}}"
