"""The functions an author writes: `gen`, `select`, the roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sglang_lite.constraints import both
from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.lang.choices import ChoicesMethod, token_length_normalized
from sglang_lite.lang.nodes import Concat, Expr, Gen, RoleBegin, RoleEnd, Select, parts_of
from sglang_lite.lang.typed import form_of

MAX_SAMPLES = 128


def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Sequence[str] | None = None,
    stop_token_ids: Sequence[int] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    repetition_penalty: float | None = None,
    logit_bias: dict[int, float] | None = None,
    ignore_eos: bool | None = None,
    seed: int | None = None,
    return_logprob: bool | None = None,
    logprob_start_len: int | None = None,
    top_logprobs_num: int | None = None,
    return_text_in_logprobs: bool | None = None,
    dtype: type | str | None = None,
    choices: Sequence[str] | None = None,
    choices_method: ChoicesMethod | None = None,
    regex: str | None = None,
    json_schema: str | dict[str, Any] | type | None = None,
    ebnf: str | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    whitespace: str | None = None,
    grammar_engine: str | None = None,
) -> Gen | Select:
    """Generated text, kept in the variable `name`; with `choices`, one of them.

    What is not given here is taken from `run` or `run_batch`. At most one of `dtype`, `regex`,
    `json_schema` and `ebnf` says what the whole text must match.

    Args:
        dtype: int, float, bool, or str for a text in quotes; the variable holds the text of it.
        json_schema: a dict, JSON text or a pydantic model; the answer has its properties' order.
        whitespace: between JSON tokens: "compact", "single" or "bounded".
        grammar_engine: what holds the constraint: "auto", "outlines" or "llguidance".

    Raises:
        re.error: `regex` is not a regular expression.
        Unsupported: tools were asked for.
        InvalidRequest: `n` is out of range, or there is more than one constraint.
        InvalidGrammar: `json_schema` is no schema.
    """
    if choices:
        forms = {"dtype": dtype, "regex": regex, "json_schema": json_schema, "ebnf": ebnf}
        if other := next((form for form in forms if forms[form] is not None), None):
            raise both("choices", other)
        return select(name, choices, choices_method=choices_method)
    if tools is not None:
        raise Unsupported("gen(tools=...) is not available in this version.", param="tools")
    constraint, ends = form_of(
        dtype,
        regex=regex,
        json_schema=json_schema,
        ebnf=ebnf,
        whitespace=whitespace,
        grammar_engine=grammar_engine,
    )
    if n is not None and not 1 <= n <= MAX_SAMPLES:
        raise InvalidRequest(f"`n` must be between 1 and {MAX_SAMPLES}, got {n}.", param="n")
    logprobs = None if not return_logprob else (top_logprobs_num or 0)
    options = {
        "max_tokens": max_tokens,
        "min_tokens": min_tokens,
        "stop": (stop,) if isinstance(stop, str) else stop and tuple(stop),
        "stop_token_ids": stop_token_ids and tuple(stop_token_ids),
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "min_p": min_p,
        "frequency_penalty": frequency_penalty,
        "presence_penalty": presence_penalty,
        "repetition_penalty": repetition_penalty,
        "logit_bias": logit_bias and dict(logit_bias),
        "ignore_eos": ignore_eos,
        "seed": seed,
        "logprobs": logprobs,
    }
    given = {option: value for option, value in options.items() if value is not None}
    return Gen(name, given, n or 1, constraint, ends)


def select(
    name: str | None = None,
    choices: Sequence[str] | None = None,
    temperature: float = 0.0,
    choices_method: ChoicesMethod | None = None,
    all_scores: bool | None = None,
) -> Select:
    """The one of `choices` that the model finds likeliest, by `choices_method`.

    The meta data have what each method found, and the options' probabilities, `probs`.

    Args:
        temperature: above 0: choose at random, by likelihood to the power of 1 / temperature.
        all_scores: also of methods that need the options' logprobs without the prompt; None: where
            that costs little (on a runtime of ours).

    Raises:
        InvalidRequest: there is nothing to choose from, or a choice is empty.
    """
    options = tuple(choices or ())
    if not options or not all(isinstance(each, str) and each for each in options):
        raise InvalidRequest("`choices` needs one or more texts, none empty.", param="choices")
    method = choices_method or token_length_normalized
    return Select(name, options, method, temperature, all_scores)


def role(name: str, content: object = None) -> Expr:
    """A whole turn of a conversation."""
    if content is None:
        return RoleBegin(name)
    return Concat((RoleBegin(name), *parts_of(content), RoleEnd(name)))


def system(content: object = None) -> Expr:
    """A system turn."""
    return role("system", content)


def user(content: object = None) -> Expr:
    """A user's turn."""
    return role("user", content)


def assistant(content: object = None) -> Expr:
    """An assistant's turn, or the part of one that is given."""
    return role("assistant", content)


def system_begin() -> Expr:
    return RoleBegin("system")


def system_end() -> Expr:
    return RoleEnd("system")


def user_begin() -> Expr:
    return RoleBegin("user")


def user_end() -> Expr:
    return RoleEnd("user")


def assistant_begin() -> Expr:
    return RoleBegin("assistant")


def assistant_end() -> Expr:
    return RoleEnd("assistant")
