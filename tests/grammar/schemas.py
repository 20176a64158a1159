"""Random JSON schemas, and what the policy of closed objects makes of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]
NAMES = ["a", "b", "c"]
PATTERNS = ["^a+$", "b", "^[ab]{1,3}$", "^a|b$", r"^\d", r"^\w*-$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "duration", "uri"]

small = st.integers(-30, 130)
counts = st.integers(0, 3)
bounds = st.one_of(
    small, small.map(lambda value: value / 8), st.sampled_from([0.1, 1e-7, 2.5, -0.3])
)


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    """Any subset of keywords."""
    return st.fixed_dictionaries({}, optional=keywords)


def of_type(name: str, keywords: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return keywords.map(lambda rest: {"type": name, **rest})


limits = some(minimum=bounds, maximum=bounds, exclusiveMinimum=bounds, exclusiveMaximum=bounds)
steps = some(multipleOf=st.sampled_from([1, 2, 3, 5, 7, 20, 100]), minimum=small, maximum=small)
values = st.sampled_from(
    [None, True, False, 0, 1, -7, 2.5, 1.0, "", "a", "ab", 'b"\n', [1], {"a": 1}]
)

unformatted: st.SearchStrategy[Schema] = st.one_of(
    st.sampled_from(
        [{"type": "null"}, {"type": "boolean"}, {"type": "string"}, {"type": "integer"}]
    ),
    of_type("integer", limits),
    of_type("integer", steps),
    of_type("number", limits),
    of_type("number", steps),
    of_type("string", some(minLength=counts, maxLength=counts)),
    of_type("string", some(minLength=counts, pattern=st.sampled_from(PATTERNS), maxLength=counts)),
    st.lists(values, min_size=1, max_size=4).map(lambda listed: {"enum": listed}),
    st.builds(
        lambda value, listed: {"const": value, "enum": [value, *listed]}, values, st.just([1])
    ),
    st.lists(st.sampled_from(["null", "integer", "number", "string"]), min_size=1, unique=True).map(
        lambda listed: {"type": listed}
    ),
)
leaves = unformatted | of_type("string", some(format=st.sampled_from(FORMATS)))


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    names = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
    return of_type(
        "object",
        some(
            required=names,
            additionalProperties=st.just(False) | inner,
            minProperties=counts,
            maxProperties=counts,
        ),
    ).flatmap(
        lambda base: (
            st.dictionaries(
                st.sampled_from(NAMES), inner | st.just(False), min_size=1, max_size=3
            ).map(lambda properties: {**base, "properties": properties})
            | st.just(base)
        )
    )


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return of_type(
        "array",
        some(
            prefixItems=st.lists(inner, max_size=3),
            minItems=counts,
            maxItems=counts,
            uniqueItems=st.just(False),
        ),
    ).flatmap(lambda base: (inner | st.just(False)).map(lambda items: {**base, "items": items}))


plain = st.recursive(unformatted, lambda inner: objects(inner) | arrays(inner), max_leaves=4)


def _beside(base: Schema, extra: Schema) -> Schema:
    return {**base, **extra}


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    several = st.lists(inner | objects(inner), min_size=1, max_size=3)
    choices = st.one_of(
        several.map(lambda listed: {"anyOf": listed}),
        several.map(lambda listed: {"oneOf": listed}),
        several.map(lambda listed: {"allOf": listed}),
        st.just({"$ref": "#/$defs/x"}),
        st.sampled_from(
            [{"required": ["a"]}, {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}]
        ),
        st.dictionaries(st.sampled_from(NAMES), st.just(["b"]), min_size=1, max_size=2).map(
            lambda needed: {"dependentRequired": needed}
        ),
        st.dictionaries(st.sampled_from(NAMES), inner | objects(inner), max_size=1).map(
            lambda needed: {"dependentSchemas": needed}
        ),
        inner.map(lambda each: {"patternProperties": {"^a": each}}),
        some(propertyNames=st.sampled_from([{"pattern": "^a"}, {"maxLength": 2}])),
        st.just({"unevaluatedProperties": False}),
    )
    return st.builds(_beside, st.just({}) | inner | objects(inner), choices)


any_schema = st.builds(
    lambda root, shared: {**root, "$defs": {"x": shared}},
    st.recursive(
        leaves | objects(leaves), lambda inner: combined(inner) | arrays(inner), max_leaves=5
    ),
    leaves | objects(leaves),
)


def closed(schema: Any) -> Any:
    """A plain schema with the policy written into it."""
    if not isinstance(schema, dict):
        return schema
    found = {**schema}
    if found.get("type") == "object":
        found.setdefault("additionalProperties", False)
        found["additionalProperties"] = closed(found["additionalProperties"])
        properties = found.get("properties", {})
        found["properties"] = {name: closed(each) for name, each in properties.items()}
    if found.get("type") == "array":
        found["prefixItems"] = [closed(each) for each in found.get("prefixItems", [])]
        found["items"] = closed(found.get("items", False))
    return {name: value for name, value in found.items() if value != []}


def ordered(value: Any, schema: Any) -> Any:
    """A value with its properties in the order in which a plain schema names them."""
    if isinstance(value, dict) and isinstance(schema, dict):
        properties = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        names = dict.fromkeys([*properties, *schema.get("required", []), *value])
        return {
            name: ordered(value[name], properties.get(name, rest))
            for name in names
            if name in value
        }
    if isinstance(value, list) and isinstance(schema, dict):
        prefix = schema.get("prefixItems", [])
        kinds = [*prefix, *[schema.get("items")] * len(value)]
        return [ordered(each, kind) for each, kind in zip(value, kinds, strict=False)]
    return value
