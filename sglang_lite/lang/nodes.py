"""What a program is made of: expressions, each with the place in the program that made it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sglang_lite.lang.choices import ChoicesMethod, token_length_normalized
from sglang_lite.params import Constraint

_PACKAGE = __name__.rpartition(".")[0]


class Place(NamedTuple):
    """A line of a program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def here() -> Place:
    """The nearest line outside this package: the program's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


@dataclass(frozen=True, eq=False)
class Expr:
    """Something that can be appended to a program's text."""

    place: Place = field(default_factory=here, kw_only=True)

    def __add__(self, other: object) -> Concat:
        return Concat((*parts_of(self), *parts_of(other)))

    def __radd__(self, other: object) -> Concat:
        return Concat((*parts_of(other), *parts_of(self)))


@dataclass(frozen=True, eq=False)
class Text(Expr):
    text: str


@dataclass(frozen=True, eq=False)
class Concat(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Gen(Expr):
    """Generated text. `options` are sampling parameters under our own names, as far as given."""

    name: str | None
    options: Mapping[str, Any]
    n: int = 1
    constraint: Constraint | None = None
    ends: tuple[str, ...] = ()  # stops that the constraint needs, besides those asked for


@dataclass(frozen=True, eq=False)
class Select(Expr):
    """One of several texts, by the model's likelihoods."""

    name: str | None
    choices: tuple[str, ...]
    method: ChoicesMethod = token_length_normalized


@dataclass(frozen=True, eq=False)
class RoleBegin(Expr):
    role: str


@dataclass(frozen=True, eq=False)
class RoleEnd(Expr):
    role: str


@dataclass(frozen=True, eq=False)
class ScopeBegin(Expr):
    """From here on the text belongs to a variable,"""

    name: str


@dataclass(frozen=True, eq=False)
class ScopeEnd(Expr):
    """up to here."""

    name: str


@dataclass(frozen=True, eq=False)
class Argument(Expr):
    """Stands for an argument of a program while its static prefix is looked for."""

    name: str


@dataclass(frozen=True, eq=False)
class Nothing(Expr):
    """What a role method returns: its text is appended already."""


def parts_of(value: object) -> tuple[Expr, ...]:
    """The expressions that `value` consists of.

    Raises:
        ValueError: it is neither text nor an expression.
    """
    if isinstance(value, str):
        return (Text(value),) if value else ()
    if isinstance(value, Concat):
        return value.parts
    if isinstance(value, Expr):
        return (value,)
    raise ValueError(f"only text and expressions can be appended, not {value!r}")


def names_of(parts: Sequence[Expr]) -> list[str]:
    """The variables that `parts` set."""
    return [x.name for x in parts if isinstance(x, (Gen, Select, ScopeEnd)) and x.name]
