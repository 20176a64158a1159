"""The table of what a JSON schema may say, and what each engine makes of it.

The front end, and what is laid before llguidance (`exact`), refuse by this table and by no other
list; `docs/structured_output.md` shows it (`python -m tools.keyword_table` writes it there).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["string", "number", "array", "object"]


@dataclass(frozen=True, slots=True)
class Row:
    """One or more keywords that fare alike."""

    names: tuple[str, ...]
    outlines: str
    llguidance: str
    promise: str
    held: bool = True
    family: Family | None = None  # the type of the instances that it speaks of


def _no(names: str, why: str, llguidance: str, promise: str) -> Row:
    return Row(tuple(names.split()), f"refused: {why}", llguidance, promise, held=False)


def _row(
    names: str, outlines: str, llguidance: str, promise: str, family: Family | None = None
) -> Row:
    return Row(tuple(names.split()), outlines, llguidance, promise, family=family)


_REJECTED = "rejected, with a pointer to it"

TABLE: tuple[Row, ...] = (
    _row("type", "exact, a list too", "exact", "held"),
    _row(
        "enum const",
        "exact, values of any kind; at most 5,000; not beside `pattern` or `format` of strings, "
        "nor beside keywords of arrays and objects for such values",
        "exact",
        "held; each value spelled as `json.dumps` spells it",
    ),
    _row("minLength maxLength", "exact, up to 1,000", "exact", "held", "string"),
    _row(
        "pattern",
        "exact for regular expressions without lookaround, backreference, `\\b`, flags; beside a "
        "length if one repeat of single characters is all that varies",
        "exact for regular expressions",
        "held; searched for anywhere, as the specification says, unless anchored",
        "string",
    ),
    _row(
        "format",
        "the formats below; others that JSON Schema defines are refused",
        "the same, written as patterns",
        "held or rejected; a name that JSON Schema does not define says nothing",
        "string",
    ),
    _row(
        "minimum maximum exclusiveMinimum exclusiveMaximum",
        "exact for integers; numbers are spelled without exponent and with 15 digits at most "
        "around the bound",
        "exact",
        "held",
        "number",
    ),
    _row(
        "multipleOf",
        "whole numbers that divide 1,000, or any if the bounds leave at most 1,000 values",
        "exact",
        "held",
        "number",
    ),
    _row(
        "items prefixItems minItems maxItems",
        "exact, up to 1,000 items and 100 in `prefixItems`; `items` must say something",
        "exact",
        "held",
        "array",
    ),
    _row(
        "additionalItems",
        "as `items` after a list of `items` (older drafts)",
        "exact",
        "held",
        "array",
    ),
    _row(
        "uniqueItems",
        "only `false`, or at most one item",
        "refused",
        "rejected unless trivial",
        "array",
    ),
    _row(
        "properties",
        "exact, in the order of the schema",
        "exact, in that order",
        "held, in that order",
        "object",
    ),
    _row("required", "exact, for names that have a schema", "exact", "held", "object"),
    _row(
        "additionalProperties",
        "`false`; or a schema that is not free-form, after the properties; absent means `false` "
        "unless objects are left open",
        "exact; absent means `false` unless objects are left open, or several schemas describe one "
        "object",
        "held; what absence means is an option",
        "object",
    ),
    _row(
        "patternProperties",
        "one pattern, without `properties`, other names forbidden",
        "patterns that do not overlap",
        "held or rejected",
        "object",
    ),
    _row(
        "propertyNames",
        "beside `additionalProperties` alone",
        "refused",
        "held or rejected",
        "object",
    ),
    _row(
        "minProperties maxProperties",
        "with at most 6 optional properties; of a map, `minProperties` up to 1",
        "exact; `minProperties` over 1 where other names are forbidden",
        "held",
        "object",
    ),
    _row(
        "dependentRequired dependentSchemas dependencies",
        "exact",
        "refused",
        "held where the first engine holds the rest",
        "object",
    ),
    _row("anyOf", "exact, beside other keywords too", "exact", "held"),
    _row(
        "oneOf",
        "exact where no two branches can both match, or where the others say `required` alone",
        "the same, as far as types and named values tell branches apart",
        "held if that can be shown, else rejected",
    ),
    _row("allOf", "exact, by merging", "exact", "held"),
    _row(
        "$ref",
        "exact, into the same document, without recursion",
        "exact, recursion too",
        "held; other documents are rejected",
    ),
    _row(
        "unevaluatedProperties",
        "`false`, at the outermost schema of an object",
        "refused",
        "held or rejected",
        "object",
    ),
    _row("not", "of `required` alone", "refused", "held or rejected"),
    _no("if then else", "they need the complement of `if`", "refused", _REJECTED),
    _no("contains minContains maxContains", "counting among other items", "refused", _REJECTED),
    _no("unevaluatedItems", "not followed", "refused", _REJECTED),
    _no("$dynamicRef $recursiveRef", "not followed", "refused", _REJECTED),
    _no("extends disallow divisibleBy", "of a draft before 4", "refused", _REJECTED),
    _no(
        "nullable",
        'of OpenAPI: write `"type": [..., "null"]`',
        "ignored",
        "rejected, with that hint",
    ),
)

_ROW_OF = {name: row for row in TABLE for name in row.names}


def row_of(name: str) -> Row | None:
    """What the table says of a keyword; None: an annotation or unknown, which says nothing."""
    return _ROW_OF.get(name)


def names(*, held: bool) -> frozenset[str]:
    """The keywords that are held, or those that are refused wherever they say something."""
    return frozenset(name for name, row in _ROW_OF.items() if row.held == held)


def says_nothing(name: str, value: object) -> bool:
    """Whether a keyword with this value allows everything, so that it need not be held."""
    if name in ("nullable", "uniqueItems"):
        return value is False
    return name == "unevaluatedProperties" and (value is True or value == {})
