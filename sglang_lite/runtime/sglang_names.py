"""SGLang's names for sampling parameters, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.params import Constraint, Hint, SamplingParams
from sglang_lite.runtime.constraints import FIELDS, INSTEAD, read_constraint

RENAMED = {
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "sampling_seed": "seed",
}
FORM = ("n", "skip_special_tokens", "no_stop_trim")
OURS = frozenset(field.name for field in msgspec.structs.fields(SamplingParams))


@dataclass(frozen=True, slots=True)
class Sampling:
    """`sampling_params` of SGLang: ours, and what is about the answer's form."""

    params: SamplingParams
    constraint: Constraint | None = None
    n: int = 1
    skip_special_tokens: bool = True
    no_stop_trim: bool = False


def read_sampling(given: Mapping[str, Any] | None, **more: Any) -> Sampling:
    """Read a dict of SGLang's names; `more` are fields under our names that come on top.

    Raises:
        InvalidRequest: an unknown name, or a value of the wrong type or out of range.
        Unsupported: a form of constraint that is understood and not available.
    """
    fields: dict[str, Any] = {}
    form: dict[str, Any] = {}
    constraint: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name in FIELDS:
            constraint[name] = value
        elif name in FORM:
            form[name] = value
        elif name == "spaces_between_special_tokens":
            continue  # bytes are joined as they are; there is nothing to choose
        elif RENAMED.get(name, name) in OURS:
            if value is not None:
                fields[RENAMED.get(name, name)] = value
        elif name not in INSTEAD or value is not None:
            raise _unknown(name)
    params = to_params({**fields, **more})
    return Sampling(params, read_constraint(constraint), **_form(form))


def to_params(fields: Mapping[str, Any]) -> SamplingParams:
    """`SamplingParams` from plain values under our own names, with their types checked."""
    values = dict(fields)
    for name, kind in (("stop", str), ("stop_token_ids", int)):
        value = values.get(name)
        if isinstance(value, kind) and not isinstance(value, bool):
            values[name] = (value,)
        elif isinstance(value, list):
            values[name] = tuple(value)
    if isinstance(values.get("logit_bias"), Mapping):
        values["logit_bias"] = {_id(key): bias for key, bias in values["logit_bias"].items()}
    for field in msgspec.structs.fields(SamplingParams):
        if field.name in values:
            values[field.name] = _typed(field.name, values[field.name], field.type)
    return SamplingParams(**values)


def read_hint(given: Mapping[str, Any] | None, priority: int | None = None) -> Hint | None:
    """What a request says of its program; a `priority` given beside it counts.

    Raises:
        InvalidRequest: an unknown field, or a value of the wrong type or out of range.
    """
    values = dict(given or {})
    if priority is not None:
        values["priority"] = priority
    kinds = {field.name: field.type for field in msgspec.structs.fields(Hint)}
    if unknown := next((name for name in values if name not in kinds), None):
        known = ", ".join(kinds)
        message = f"`hint` has no field {unknown[:200]!r}; known are {known}."
        raise InvalidRequest(message, param="hint")
    typed = {name: _typed(name, value, kinds[name]) for name, value in values.items()}
    return Hint(**typed) if typed else None


def _unknown(name: str) -> InvalidRequest:
    if name in INSTEAD:
        message = f"`{name}` is not available in this version; use {INSTEAD[name]}."
        return Unsupported(message, param=name)
    known = sorted({*OURS, *RENAMED, *FORM, *FIELDS})
    return InvalidRequest(
        f"`sampling_params` has an unknown name {name!r}; known are {', '.join(known)}.", param=name
    )


def _typed(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"`{name}` is {value!r}: {error}", param=name) from error


def _id(key: Any) -> int:
    try:
        return int(key)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"`logit_bias` has the key {key!r}, which is no token id.", param="logit_bias"
        ) from error


def _form(form: dict[str, Any]) -> dict[str, Any]:
    kinds = {"n": int, "skip_special_tokens": bool, "no_stop_trim": bool}
    typed = {name: _typed(name, value, kinds[name]) for name, value in form.items()}
    if not 1 <= typed.get("n", 1) <= 128:
        raise InvalidRequest(f"`n` must be between 1 and 128, got {typed['n']}.", param="n")
    return typed
