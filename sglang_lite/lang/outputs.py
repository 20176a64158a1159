"""Types as the form of an output: what the text must match, and the value that it says.

A type becomes a JSON schema by pydantic, and a text a value. Texts that are chosen from a few
(`Literal`, `Enum`, `bool`) and dates are written as they are, without quotes.
"""

from __future__ import annotations

import datetime
import enum
import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sglang_lite.constraints import READERS
from sglang_lite.errors import InvalidRequest
from sglang_lite.lang.errors import InvalidOutput
from sglang_lite.params import Constraint

DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"


@dataclass(frozen=True)
class Form:
    """What a text must match, and how its value is read."""

    constraint: Constraint
    read: Callable[[str], Any]
    type: Any = field(default=None, compare=False)

    def parse(self, text: str) -> Any:
        """The value of `text`.

        Raises:
            InvalidOutput: it is none of the type: broken off, or outside what a schema can say.
        """
        try:
            return self.read(text)
        except Exception as error:  # a type's own validators may fail in any way
            raise InvalidOutput(self.type, text, error) from error

    def fits(self, text: str) -> bool:
        try:
            self.parse(text)
        except InvalidOutput:
            return False
        return True


@lru_cache(256)
def form_of_type(kind: Any) -> Form:
    """The form of `gen(type=kind)`.

    Raises:
        InvalidRequest: pydantic has no JSON schema for it.
    """
    if kind is datetime.date:
        return Form(READERS["regex"]("type", DATE), datetime.date.fromisoformat, kind)  # type: ignore[arg-type]
    if values := _choices(kind):
        return Form(_choice(list(values)), values.__getitem__, kind)
    from pydantic import PydanticSchemaGenerationError, TypeAdapter
    from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

    try:
        adapter = TypeAdapter(kind)
        schema = adapter.json_schema()
    except (
        PydanticSchemaGenerationError,
        PydanticInvalidForJsonSchema,
        PydanticUserError,
    ) as error:
        raise InvalidRequest(
            f"`type` {kind!r} has no JSON schema: {error.message}", param="type"
        ) from error
    constraint = READERS["json_schema"]("type", schema)
    assert constraint is not None
    return Form(constraint, adapter.validate_json, kind)


def form_of_choices(values: list[str]) -> Form:
    """One of these texts, as it is."""
    return Form(_choice(values), {value: value for value in values}.__getitem__)


def form_of_schema(schema: Mapping[str, Any], read: Callable[[Any], Any], kind: Any) -> Form:
    """JSON of a schema; `read` makes the value of what it says."""
    constraint = READERS["json_schema"]("tools", dict(schema))
    assert constraint is not None
    return Form(constraint, lambda text: read(json.loads(text)), kind)


def _choice(values: list[str]) -> Constraint:
    return Constraint("choice", json.dumps(values, ensure_ascii=False, separators=(",", ":")))


def _choices(kind: Any) -> dict[str, Any]:
    """Text -> value, of a type that is a few values; empty for any other."""
    if kind is bool:
        return {"true": True, "false": False}
    if typing.get_origin(kind) is typing.Literal:
        values = typing.get_args(kind)
        named = {_spelt(value): value for value in values}
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        named = {_spelt(member.value): member for member in kind}
        values = tuple(kind)
    else:
        return {}
    if len(named) < len(values) or "" in named:
        return {}  # two are spelt alike, or one is empty: then as JSON
    return named


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def is_type(value: Any) -> bool:
    """Whether `value` can be meant as a type at all."""
    alias = isinstance(value, types.UnionType) or typing.get_origin(value) is not None
    return isinstance(value, type) or alias
