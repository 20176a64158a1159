"""What an answer must match, as callers say it: from plain values to a `Constraint`.

SGLang's names live here: the language and `sampling_params` share them. The names of other APIs
are in `runtime.constraints`. Only shapes are checked: whether an engine holds a constraint is the
runtime's to say.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from sglang_lite.config import GrammarEngine, Whitespace
from sglang_lite.errors import (
    GrammarTooLarge,
    InvalidGrammar,
    InvalidRequest,
    UnsupportedGrammar,
)
from sglang_lite.params import MAX_GRAMMAR_DEPTH, Constraint

Kind = Literal["regex", "json_schema", "json_object", "choice", "ebnf", "structural_tag"]
Reader = Callable[[str, Any], "Constraint | None"]  # (name of the field, its value)

STYLE = ("whitespace", "grammar_engine")  # how a constraint is held
OF_JSON = frozenset({"json_schema", "json_object", "structural_tag"})


def choose(given: Mapping[str, Any], readers: Mapping[str, Reader]) -> Constraint | None:
    """The one constraint among `given`, held as `STYLE` says; None values are left out.

    Raises:
        InvalidRequest: a value has the wrong shape, or there are two constraints.
        InvalidGrammar: what should be a schema is none.
    """
    wanted = {name: given[name] for name in readers if given.get(name) is not None}
    found = only((name, readers[name](name, value)) for name, value in wanted.items())
    return styled(found, given.get("whitespace"), given.get("grammar_engine"))


def only(found: Iterable[tuple[str, Constraint | None]]) -> Constraint | None:
    """The single constraint among `found`, if there is one; two are refused by their names."""
    asked = [(name, constraint) for name, constraint in found if constraint is not None]
    if len(asked) > 1:
        raise both(asked[0][0], asked[1][0])
    return asked[0][1] if asked else None


def styled(
    constraint: Constraint | None, whitespace: str | None, grammar_engine: str | None
) -> Constraint | None:
    """`constraint`, held as `STYLE` says.

    Raises:
        InvalidRequest: a value is none of those there are, or there is nothing to hold.
    """
    given = dict(zip(STYLE, (whitespace, grammar_engine), strict=True))
    whitespace = _one_of("whitespace", whitespace, get_args(Whitespace))
    engine = _one_of("grammar_engine", grammar_engine, get_args(GrammarEngine))
    if constraint is None:
        if without := next((name for name in STYLE if given[name] is not None), None):
            raise InvalidRequest(
                f"`{without}` says how a constraint is held, and none is given.", param=without
            )
        return None
    if whitespace is not None:
        constraint = spaced(constraint, whitespace, "whitespace")
    return constraint if engine is None else msgspec.structs.replace(constraint, engine=engine)


def spaced(constraint: Constraint, whitespace: Any, name: str) -> Constraint:
    """`constraint` with `whitespace` between JSON tokens, as the field `name` asks.

    Raises:
        InvalidRequest: the constraint is not about JSON, or asks for something else already.
    """
    if constraint.kind not in OF_JSON:
        raise InvalidRequest(
            f"`{name}` is about the space between JSON tokens; a constraint of kind "
            f"{constraint.kind} says itself what may stand where.",
            param=_field(name),
        )
    if constraint.whitespace not in ("default", whitespace):
        raise InvalidRequest(
            f"`{name}` asks for {whitespace!r} and another field for {constraint.whitespace!r} "
            "between JSON tokens; give one of them.",
            param=_field(name),
        )
    return msgspec.structs.replace(constraint, whitespace=whitespace)


# -------------------------------------------------------------- SGLang's names


def read_regex(name: str, value: Any) -> Constraint:
    return made(name, "regex", text_of(name, value))


def read_ebnf(name: str, value: Any) -> Constraint:
    return made(name, "ebnf", text_of(name, value))


def read_json_schema(name: str, value: Any, *, closed: bool = True) -> Constraint:
    """A schema given as a dict, as JSON text or as a pydantic model."""
    return made(name, "json_schema", _compact(name, _schema(name, value)), closed=closed)


def read_structural_tag(name: str, value: Any) -> Constraint:
    """Free text in which each `begin` starts a piece that matches a schema, up to its `end`.

    Text in which no trigger occurs is free. A tag without a schema holds any object.
    """
    fields = fields_of(name, _parsed(name, value), ("type", "structures", "triggers", "format"))
    if fields.get("type", "structural_tag") != "structural_tag":
        raise wrong(f"{name}.type", fields["type"], "'structural_tag'")
    if "format" in fields:
        raise UnsupportedGrammar(
            f"`{name}.format` is not available in this version; use `structures` and `triggers`.",
            param=_field(name),
        )
    triggers = texts_of(f"{name}.triggers", fields.get("triggers"))
    structures = fields.get("structures")
    if not isinstance(structures, (list, tuple)) or not structures:
        raise wrong(f"{name}.structures", structures, "a list of one or more objects")
    tags = [_tag(f"{name}.structures.{i}", each, triggers) for i, each in enumerate(structures)]
    source = _compact(name, {"structures": tags, "triggers": triggers})
    return made(name, "structural_tag", source)


def read_choice(name: str, value: Any) -> Constraint:
    return made(name, "choice", _compact(name, texts_of(name, value)))


READERS: Mapping[str, Reader] = {
    "regex": read_regex,
    "json_schema": read_json_schema,
    "ebnf": read_ebnf,
    "structural_tag": read_structural_tag,
}


# -------------------------------------------------------------- shapes


def made(name: str, kind: Kind, source: str, *, closed: bool = True) -> Constraint:
    """The constraint, or a refusal that names the field it came from."""
    try:
        return Constraint(kind, source, closed=closed)
    except UnicodeEncodeError:
        raise InvalidGrammar(
            f"`{name}` has half of a surrogate pair, which is no character.", param=_field(name)
        ) from None
    except InvalidRequest as error:
        raise type(error)(str(error), param=_field(name)) from None


def fields_of(name: str, value: Any, known: Sequence[str]) -> dict[str, Any]:
    """What the object `value` has besides nulls; names that are not `known` are refused."""
    if not isinstance(value, Mapping):
        raise wrong(name, value, "an object")
    fields = {key: each for key, each in value.items() if each is not None}
    if unknown := next((key for key in fields if key not in known), None):
        raise InvalidRequest(
            f"`{name}` has an unknown field {str(unknown)[:64]!r}; known are {', '.join(known)}.",
            param=_field(name),
        )
    return fields


def text_of(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(name, value, "a text")
    return value


def bool_of(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(name, value, "true or false")
    return value


def texts_of(name: str, value: Any) -> list[str]:
    whole = isinstance(value, (list, tuple)) and bool(value)
    if not whole or not all(isinstance(each, str) and each for each in value):
        raise wrong(name, value, "a list of one or more texts, none empty")
    return list(value)


def both(first: str, second: str) -> InvalidRequest:
    """Two constraints, by the names of their fields."""
    return InvalidRequest(
        f"`{first}` and `{second}` are both given; an answer matches one constraint.",
        param=_field(second),
    )


def wrong(name: str, value: Any, expected: str) -> InvalidRequest:
    got = "and is missing" if value is None else f"got {reprlib.repr(value)}"
    return InvalidRequest(f"`{name}` is {expected}, {got}.", param=_field(name))


def _tag(name: str, value: Any, triggers: Sequence[str]) -> dict[str, Any]:
    fields = fields_of(name, value, ("begin", "schema", "end"))
    begin = text_of(f"{name}.begin", fields.get("begin"))
    if not any(begin.startswith(trigger) for trigger in triggers):
        raise InvalidRequest(
            f"`{name}.begin` starts with none of the triggers, so it would never be looked for; "
            f"got {reprlib.repr(begin)}.",
            param=_field(name),
        )
    schema = _schema(f"{name}.schema", fields.get("schema", True))
    return {"begin": begin, "schema": schema, "end": text_of(f"{name}.end", fields.get("end"))}


def _schema(name: str, value: Any) -> Any:
    if isinstance(value, type) and hasattr(value, "model_json_schema"):  # a pydantic model
        value = value.model_json_schema()
    schema = _parsed(name, value)
    if not isinstance(schema, (Mapping, bool)):
        got = "and is missing" if schema is None else f"got {reprlib.repr(schema)}"
        message = f"`{name}` is a JSON schema, that is an object or a boolean, {got}."
        raise InvalidGrammar(message, param=_field(name))
    return schema


def _parsed(name: str, value: Any) -> Any:
    """What a JSON text says; anything but a text as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise InvalidGrammar(f"`{name}` is not JSON: {error}.", param=_field(name)) from None


def _compact(name: str, value: Any) -> str:
    """JSON text in the order given: the order of properties is that of the answer."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise _too_deep(name) from None
    except (TypeError, ValueError) as error:
        raise InvalidGrammar(f"`{name}` is not JSON: {error}.", param=_field(name)) from None


def _too_deep(name: str) -> GrammarTooLarge:
    message = f"`{name}` is nested deeper than {MAX_GRAMMAR_DEPTH} levels."
    return GrammarTooLarge(message, param=_field(name))


def _one_of(name: str, value: Any, allowed: Sequence[str]) -> Any:
    if value is not None and value not in allowed:
        raise wrong(name, value, f"one of {', '.join(allowed)}")
    return value


def _field(name: str) -> str:
    """The field of the body that a dotted name is in."""
    return name.partition(".")[0]
