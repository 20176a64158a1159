"""Varied JSON schemas with valid and invalid examples, from a seed. `jsonschema` is the judge."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema

Schema = dict[str, Any]
FORMATS = jsonschema.Draft202012Validator.FORMAT_CHECKER

WORDS = ["name", "title", "city", "unit", "score", "count", "kind", "state", "owner", "email",
         "note", "path", "size", "price", "tag"]  # fmt: skip
VALUES = ["red", "green", "blue", "celsius", "fahrenheit", "open", "closed", "öffentlich", "a b"]
PATTERNS = {"^[A-Z]{2}[0-9]{3}$": "AB123", "^(low|high)$": "high", "^[a-z_]{1,12}$": "snake_case"}


def schemas(count: int, seed: int = 20) -> Iterator[tuple[str, Schema]]:
    """`count` schemas, each with a name; about as varied as those of tool calls."""
    rng = random.Random(seed)
    for index in range(count):
        schema = _object(rng, 2) if index % 4 else _any(rng, 2)
        yield f"{index:03d}", {**_definitions(rng, schema), **schema}


def lines(count: int, seed: int = 20) -> Iterator[dict[str, Any]]:
    """What `grammar check` reads: each schema with examples that it takes and does not take."""
    rng = random.Random(seed + 1)
    for name, schema in schemas(count, seed):
        judge = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
        valid = [instance(rng, schema, schema) for _ in range(4)]
        assert all(judge.is_valid(each) for each in valid), (schema, valid)
        mutated = [_mutated(rng, copy.deepcopy(each)) for each in valid for _ in range(3)]
        invalid = [each for each in mutated if not judge.is_valid(each)]
        tests = [{"valid": True, "data": each} for each in valid]
        tests += [{"valid": False, "data": each} for each in invalid]
        yield {"name": name, "schema": schema, "tests": tests}


def instance(rng: random.Random, schema: Schema, root: Schema) -> Any:
    """A value that `schema` takes."""
    if "$ref" in schema:
        return instance(rng, root["$defs"]["thing"], root)
    if "anyOf" in schema:
        return instance(rng, rng.choice(schema["anyOf"]), root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    return _INSTANCES[schema["type"]](rng, schema, root)


def _definitions(rng: random.Random, schema: Schema) -> Schema:
    if "$ref" not in json.dumps(schema):
        return {}
    return {"$defs": {"thing": _object(rng, 1)}}


def _any(rng: random.Random, depth: int) -> Schema:
    makers = [_string, _integer, _number, _flag, _enum, _const]
    if depth:
        makers += [_array, _object, _union, _reference]
    return rng.choice(makers)(rng, depth)


def _object(rng: random.Random, depth: int) -> Schema:
    names = rng.sample(WORDS, rng.randint(1, 5))
    required = [name for name in names if rng.random() < 0.7] or names[:1]
    properties = {name: _any(rng, max(0, depth - 1)) for name in names}
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}  # fmt: skip


def _string(rng: random.Random, depth: int) -> Schema:
    kind = rng.randrange(4)
    if kind == 0:
        return {"type": "string", "maxLength": rng.randint(3, 24)}
    if kind == 1:
        return {"type": "string", "pattern": rng.choice(list(PATTERNS))}
    if kind == 2:
        return {"type": "string", "format": rng.choice(["date", "uuid", "time"])}
    return {"type": "string", "minLength": 1, "maxLength": 12, "description": "a short text"}


def _integer(rng: random.Random, depth: int) -> Schema:
    low = rng.randint(-50, 50)
    bounds = {"minimum": low, "maximum": low + rng.randint(0, 2_000)}
    return {"type": "integer", **(bounds if rng.random() < 0.7 else {"minimum": 0})}


def _number(rng: random.Random, depth: int) -> Schema:
    return {"type": "number"}


def _flag(rng: random.Random, depth: int) -> Schema:
    return {"type": rng.choice(["boolean", "null"])}


def _enum(rng: random.Random, depth: int) -> Schema:
    return {"enum": rng.sample([*VALUES, 1, 10, 100, True, None], rng.randint(1, 5))}


def _const(rng: random.Random, depth: int) -> Schema:
    return {"const": rng.choice([*VALUES, 7, False, ["x", 1], {"a": None}])}


def _array(rng: random.Random, depth: int) -> Schema:
    low = rng.randint(0, 2)
    return {"type": "array", "items": _any(rng, depth - 1), "minItems": low,
            "maxItems": low + rng.randint(0, 3)}  # fmt: skip


def _union(rng: random.Random, depth: int) -> Schema:
    return {"anyOf": [_any(rng, depth - 1) for _ in range(rng.randint(2, 3))]}


def _reference(rng: random.Random, depth: int) -> Schema:
    return {"$ref": "#/$defs/thing"}


def _text(rng: random.Random, schema: Schema, root: Schema) -> str:
    if "pattern" in schema:
        return PATTERNS[schema["pattern"]]
    if "format" in schema:
        return {"date": "2024-02-29", "uuid": "123e4567-e89b-12d3-a456-426614174000",
                "time": "10:00:00Z"}[schema["format"]]  # fmt: skip
    letters = 'abc "\\é\n日'
    size = rng.randint(schema.get("minLength", 0), schema["maxLength"])
    return "".join(rng.choice(letters) for _ in range(size))


def _whole(rng: random.Random, schema: Schema, root: Schema) -> int:
    return rng.randint(schema["minimum"], schema.get("maximum", 10**6))


def _things(rng: random.Random, schema: Schema, root: Schema) -> list[Any]:
    size = rng.randint(schema["minItems"], schema["maxItems"])
    return [instance(rng, schema["items"], root) for _ in range(size)]


def _fields(rng: random.Random, schema: Schema, root: Schema) -> dict[str, Any]:
    wanted = [n for n in schema["properties"] if n in schema["required"] or rng.random() < 0.5]
    return {name: instance(rng, schema["properties"][name], root) for name in wanted}


_INSTANCES = {
    "string": _text,
    "integer": _whole,
    "number": lambda rng, schema, root: rng.choice([0, -3, 2.5, 1e-7, 12345.678]),
    "boolean": lambda rng, schema, root: rng.random() < 0.5,
    "null": lambda rng, schema, root: None,
    "array": _things,
    "object": _fields,
}


def _mutated(rng: random.Random, value: Any) -> Any:
    """Something near `value`, which may or may not be valid."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        if rng.random() < 0.3:
            del value[name]
        else:
            value[name] = _mutated(rng, value[name])
        return value
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], _mutated(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value and rng.random() < 0.5:
        return value + value + "!" * 20
    others: list[Any] = [
        None,
        True,
        -(10**6),
        3.25,
        "other",
        [],
        {},
        ["x", 2],
        10**9,
        "",
        {"zz": 1},
    ]
    return rng.choice(others)
