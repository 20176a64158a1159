"""Every way in which a request may say what its answer must match, and the way we say it.

OpenAI's `response_format`, vLLM's `structured_outputs` and SGLang's own names all become one
`Constraint`; bodies and `sampling_params` read the same names here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sglang_lite.constraints import (
    READERS,
    STYLE,
    Reader,
    bool_of,
    choose,
    fields_of,
    made,
    only,
    read_choice,
    read_ebnf,
    read_json_schema,
    read_regex,
    read_structural_tag,
    spaced,
    text_of,
    wrong,
)
from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.params import Constraint

SCHEMA_FIELDS = ("name", "description", "schema", "strict")
KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
OPTIONS = (
    "disable_any_whitespace",
    "disable_additional_properties",
    "disable_fallback",
    "whitespace_pattern",
)
# old names of vLLM -> what does the same here
INSTEAD = {
    "guided_json": '`json_schema`, `response_format` or `structured_outputs`: {"json": ...}',
    "guided_regex": '`regex` or `structured_outputs`: {"regex": ...}',
    "guided_choice": '`structured_outputs`: {"choice": [...]}',
    "guided_grammar": '`ebnf` or `structured_outputs`: {"grammar": ...}',
    "guided_decoding_backend": "`grammar_engine`",
    "guided_whitespace_pattern": "`whitespace`",
}


def read_constraint(given: Mapping[str, Any]) -> Constraint | None:
    """The constraint that `given` asks for under any of the names in `FIELDS`, or None.

    Raises:
        InvalidRequest: a value has the wrong shape, or there are two constraints.
        InvalidGrammar: what should be a schema is none.
        Unsupported: a form that is understood and not available.
    """
    return choose(given, _READERS)


def say(constraint: Constraint | None) -> dict[str, Any]:
    """Fields of `sampling_params` from which `read_constraint` makes `constraint` again."""
    if constraint is None:
        return {}
    style = {"whitespace": constraint.whitespace, "grammar_engine": constraint.engine}
    said: dict[str, Any] = {name: value for name, value in style.items() if value != "default"}
    kind, source = constraint.kind, constraint.source
    if kind in READERS and constraint.closed:
        return {kind: source, **said}
    inner = {"json_schema": "json", "ebnf": "grammar"}.get(kind, kind)
    value = json.loads(source) if kind == "choice" else kind == "json_object" or source
    options = {} if constraint.closed else {"disable_additional_properties": False}
    return {"structured_outputs": {inner: value, **options}, **said}


# -------------------------------------------------------------- OpenAI's response_format


def _response_format(name: str, value: Any) -> Constraint | None:
    if not isinstance(value, Mapping):
        raise wrong(name, value, "an object")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _FORMATS:
        raise wrong(f"{name}.type", kind, f"one of {', '.join(_FORMATS)}")
    return _FORMATS[kind](name, value)


def _text_format(name: str, value: Mapping[str, Any]) -> None:
    fields_of(name, value, ("type",))


def _object_format(name: str, value: Mapping[str, Any]) -> Constraint:
    fields_of(name, value, ("type",))
    return made(name, "json_object", "")


def _schema_format(name: str, value: Mapping[str, Any]) -> Constraint:
    """With `json_schema`, as OpenAI has it, or with its fields beside `type`, as SGLang has."""
    fields = fields_of(name, value, ("type", "json_schema", *SCHEMA_FIELDS))
    if "json_schema" in fields:
        fields_of(name, value, ("type", "json_schema"))
        name = f"{name}.json_schema"
        fields = fields_of(name, fields["json_schema"], SCHEMA_FIELDS)
    for key in ("name", "description"):
        if key in fields:
            text_of(f"{name}.{key}", fields[key])
    closed = bool_of(f"{name}.strict", fields.get("strict", True))
    return read_json_schema(f"{name}.schema", fields.get("schema"), closed=closed)


_FORMATS: Mapping[str, Callable[[str, Mapping[str, Any]], Constraint | None]] = {
    "text": _text_format,
    "json_object": _object_format,
    "json_schema": _schema_format,
    "structural_tag": read_structural_tag,
}


# -------------------------------------------------------------- vLLM's structured_outputs


def _structured_outputs(name: str, value: Any) -> Constraint:
    fields = fields_of(name, value, (*KINDS, *OPTIONS))
    _refuse_options(name, fields)
    closed = fields.get("disable_additional_properties")
    if closed is not None:
        bool_of(f"{name}.disable_additional_properties", closed)
    readers: dict[str, Reader] = {
        "json": partial(read_json_schema, closed=closed is not False),
        "regex": read_regex,
        "choice": read_choice,
        "grammar": read_ebnf,
        "json_object": _wanted_object,
        "structural_tag": read_structural_tag,
    }
    asked = ((f"{name}.{key}", readers[key], fields[key]) for key in KINDS if key in fields)
    found = only((path, reader(path, given)) for path, reader, given in asked)
    if found is None:
        raise wrong(name, value, f"an object with one of {', '.join(KINDS)}")
    if closed and found.kind != "json_schema":
        raise InvalidRequest(
            f"`{name}.disable_additional_properties` is about `{name}.json`, which is not given.",
            param=name,
        )
    option = f"{name}.disable_any_whitespace"
    if bool_of(option, fields.get("disable_any_whitespace", False)):
        return spaced(found, "compact", option)
    return found


def _refuse_options(name: str, fields: Mapping[str, Any]) -> None:
    if "whitespace_pattern" in fields:
        raise Unsupported(
            f"`{name}.whitespace_pattern` is not available in this version; use `whitespace`: "
            "compact, single or bounded.",
            param=name,
        )
    if bool_of(f"{name}.disable_fallback", fields.get("disable_fallback", False)):
        raise Unsupported(
            f"`{name}.disable_fallback` is not available in this version; name an engine in "
            "`grammar_engine` instead.",
            param=name,
        )


def _wanted_object(name: str, value: Any) -> Constraint | None:
    return made(name, "json_object", "") if bool_of(name, value) else None


_READERS = {
    **READERS,
    "response_format": _response_format,
    "structured_outputs": _structured_outputs,
}
FIELDS = (*_READERS, *STYLE)
