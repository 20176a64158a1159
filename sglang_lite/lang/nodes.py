"""What a program is made of: expressions, each with the place in the program that made it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from sglang_lite.lang.choices import ChoicesMethod, token_length_normalized
from sglang_lite.lang.outputs import Form
from sglang_lite.lang.places import Place, here
from sglang_lite.params import Constraint


@dataclass(frozen=True, eq=False)
class Expr:
    """Something that can be appended to a program's text."""

    place: Place = field(default_factory=here, kw_only=True)

    waits: ClassVar[bool] = False  # whether executing it waits for a backend or another branch

    @property
    def sets(self) -> tuple[str, ...]:
        """The variables that it sets."""
        return ()

    def __format__(self, spec: str) -> str:
        raise TypeError(
            f"a {type(self).__name__.lower()} in an f-string becomes its description; append it "
            "with `+`: s += 'Name: ' + gen('name')"
        )

    def __add__(self, other: object) -> Concat:
        return Concat((*parts_of(self), *parts_of(other, self.place)), place=self.place)

    def __radd__(self, other: object) -> Concat:
        return Concat((*parts_of(other, self.place), *parts_of(self)), place=self.place)


class _Named(Expr):
    name: str | None

    @property
    def sets(self) -> tuple[str, ...]:
        return (self.name,) if self.name else ()


@dataclass(frozen=True, eq=False)
class Text(Expr):
    text: str


@dataclass(frozen=True, eq=False)
class Concat(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Gen(_Named):
    """Generated text. `options` are sampling parameters under our own names, as far as given."""

    name: str | None
    options: Mapping[str, Any]
    n: int | None = None  # samples; None: as many as the run says
    constraint: Constraint | None = None
    ends: tuple[str, ...] = ()  # stops that the constraint needs, besides those asked for
    logprob_start: int | None = None  # first prompt position whose logprob is wanted
    logprob_text: bool | None = None  # logprobs come with the texts of their tokens
    form: Form | None = None  # how the text's value is read
    retries: int = 0  # further attempts if the text has no value
    reasoning: str | None = None  # the kind of model whose thoughts are taken out of the variable

    waits: ClassVar[bool] = True

    @property
    def sets(self) -> tuple[str, ...]:
        if self.name and self.reasoning:
            return (self.name, thoughts_of(self.name))
        return super().sets


@dataclass(frozen=True, eq=False)
class Select(_Named):
    """One of several texts, by the model's likelihoods."""

    name: str | None
    choices: tuple[str, ...]
    method: ChoicesMethod = token_length_normalized
    temperature: float = 0.0
    all_scores: bool | None = None  # of all methods, not only of this one; None: if it costs little

    waits: ClassVar[bool] = True


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
class ScopeEnd(_Named):
    """up to here."""

    name: str


@dataclass(frozen=True, eq=False)
class Assign(_Named):
    """A variable that the program sets itself."""

    name: str
    value: Any


class Opaque(Exception):
    """A program does what only a run can tell."""


class Untold(BaseException):
    """Ends a trace where the program asks for such a thing; bodies do not catch it as an error."""


class Unknown(Expr):
    """Stands for a text while a program is traced: it can be appended, and nothing else."""

    def _refuse(self, *_: object) -> NoReturn:
        name = getattr(self, "name", "?")
        raise Untold(f"the value of {name!r} is not known before the program runs")

    def __format__(self, spec: str) -> str:
        self._refuse()

    __str__ = __len__ = __iter__ = __bool__ = __getitem__ = _refuse
    __contains__ = __int__ = __float__ = __lt__ = __gt__ = _refuse

    def __eq__(self, other: object) -> bool:
        return self is other or self._refuse()

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class Argument(Unknown):
    """An argument of the program."""

    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Variable(Unknown):
    """What a branch generates."""

    name: str
    source: tuple[int, ...]  # the branch

    def __await__(self) -> Generator[Any, None, Variable]:
        yield from ()
        return self


@dataclass(frozen=True, eq=False)
class Nothing(Expr):
    """What a role method returns: its text is appended already."""


def thoughts_of(name: str) -> str:
    """The variable beside `name` that has what a reasoning model thought."""
    return f"{name}_reasoning_content"


def parts_of(value: object, place: Place | None = None) -> tuple[Expr, ...]:
    """The expressions that `value` consists of; a text stands at `place`, if that is known.

    Raises:
        ValueError: it is neither text nor an expression.
    """
    if isinstance(value, str):
        return (Text(value, place=place or here()),) if value else ()
    if isinstance(value, Concat):
        return value.parts
    if isinstance(value, Expr):
        return (value,)
    raise ValueError(f"only text and expressions can be appended, not {value!r}")
