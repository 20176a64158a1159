"""The functions an author writes: `gen`, `select`, the roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sglang_lite.constraints import both, styled, wrong
from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.lang.choices import ChoicesMethod, token_length_normalized
from sglang_lite.lang.nodes import Concat, Expr, Gen, RoleBegin, RoleEnd, Select, parts_of
from sglang_lite.lang.options import sampling_of
from sglang_lite.lang.outputs import Form, form_of_type
from sglang_lite.lang.tools import Tool, form_of_tools, tools_of
from sglang_lite.lang.typed import form_of
from sglang_lite.params import Constraint
from sglang_lite.reasoning import marks_of

MAX_SAMPLES = 128
MAX_RETRIES = 16


def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Sequence[str] | None = None,
    stop_token_ids: Sequence[int] | None = None,
    stop_regex: str | Sequence[str] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    ignore_eos: bool | None = None,
    return_logprob: bool | None = None,
    logprob_start_len: int | None = None,
    top_logprobs_num: int | None = None,
    return_text_in_logprobs: bool | None = None,
    dtype: type | str | None = None,
    choices: Sequence[str] | None = None,
    choices_method: ChoicesMethod | None = None,
    regex: str | None = None,
    json_schema: str | dict[str, Any] | type | None = None,
    *,
    ebnf: str | None = None,
    type: Any = None,
    tools: Sequence[Callable[..., Any] | Tool] | None = None,
    retries: int = 0,
    whitespace: str | None = None,
    grammar_engine: str | None = None,
    repetition_penalty: float | None = None,
    logit_bias: dict[int, float] | None = None,
    seed: int | None = None,
) -> Gen | Select:
    """Generated text, kept in the variable `name`; with `choices`, one of them.

    What is not given here is taken from `run` or `run_batch`. At most one of `dtype`, `regex`,
    `json_schema`, `ebnf`, `type` and `tools` says what the whole text must match.

    Args:
        return_logprob: of each token, in `get_meta_info(name)`; `top_logprobs_num` adds those of
            the likeliest, `logprob_start_len` those of the prompt from that position on, and
            `return_text_in_logprobs` the tokens' texts.
        dtype: int, float, bool, or str for a text in quotes; the variable holds the text of it.
        json_schema: a dict, JSON text or a pydantic model; the answer has its properties' order.
        type: a pydantic model, dataclass, Literal, Enum, list[...], int, float, bool, date or any
            other type that pydantic has a schema for; `s.value(name)` is the value.
        tools: functions, of which the text calls one, as JSON; `s.value(name)` is a `ToolCall`.
        retries: with `type` or `tools`: attempts more, from the state before, each with another
            seed, if the text is no value of the type.
        whitespace: between JSON tokens: "compact", "single" or "bounded".
        grammar_engine: what holds the constraint: "auto", "outlines" or "llguidance".

    Raises:
        re.error: `regex` is not a regular expression.
        InvalidRequest: a value is out of its range, or there is more than one constraint.
        InvalidGrammar: `json_schema` is no schema.
        Unsupported: `stop_regex`.
    """
    forms = {"dtype": dtype, "regex": regex, "json_schema": json_schema, "ebnf": ebnf,
             "type": type, "tools": tools}  # fmt: skip
    said = [form for form, value in forms.items() if value is not None]
    if choices:  # none at all, and it is a gen as in SGLang
        if said:
            raise both("choices", said[0])
        return select(name, choices, temperature or 0.0, choices_method)
    _check_name(name)
    _check_count("retries", retries, 0, MAX_RETRIES)
    if n is not None:
        _check_count("n", n, 1, MAX_SAMPLES)
    form: Form | None = None
    constraint: Constraint | None = None
    ends: tuple[str, ...] = ()
    if type is not None or tools is not None:
        if len(said) > 1:
            raise both(said[0], said[1])
        form = form_of_type(type) if tools is None else form_of_tools(tools_of(tools))
        constraint = styled(form.constraint, whitespace, grammar_engine)
    elif said or whitespace or grammar_engine:
        constraint, ends = form_of(
            dtype,
            regex=regex,
            json_schema=json_schema,
            ebnf=ebnf,
            whitespace=whitespace,
            grammar_engine=grammar_engine,
        )
    options = sampling_of(
        {
            "max_tokens": max_tokens,
            "min_tokens": min_tokens,
            "stop": stop,
            "stop_token_ids": stop_token_ids,
            "stop_regex": stop_regex,
            "temperature": temperature,
            "top_p": top_p,
            "top_k": top_k,
            "min_p": min_p,
            "frequency_penalty": frequency_penalty,
            "presence_penalty": presence_penalty,
            "repetition_penalty": repetition_penalty,
            "logit_bias": logit_bias,
            "ignore_eos": ignore_eos,
            "return_logprob": return_logprob,
            "top_logprobs_num": top_logprobs_num,
        }
    )
    if seed is not None:
        options["seed"] = seed
    start = logprob_start_len if return_logprob else None
    return Gen(name, options, n, constraint, ends, start, return_text_in_logprobs, form, retries)


def _check_name(name: object) -> None:
    if name is not None and not isinstance(name, str):
        raise wrong("name", name, "a text")


def _check_count(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise wrong(name, value, f"a whole number between {low} and {high}")


def gen_int(name: str | None = None, **options: Any) -> Gen | Select:
    """`gen` of digits."""
    return gen(name, dtype=int, **options)


def gen_string(name: str | None = None, **options: Any) -> Gen | Select:
    """`gen` of a text in quotes."""
    return gen(name, dtype=str, **options)


def separate_reasoning(expr: object, model_type: str) -> Expr:
    """The gens of `expr`, each with what the model thought in a variable of its own:
    `x_reasoning_content` beside `x`, which has the answer.

    Args:
        model_type: how the model marks its thoughts: "deepseek-r1", "qwen3", "gpt-oss", ...

    Raises:
        Unsupported: no such kind of model is known.
    """
    marks_of(model_type)
    parts = [
        replace(part, reasoning=model_type) if isinstance(part, Gen) else part
        for part in parts_of(expr)
    ]
    return Concat(tuple(parts))


def image(path: object) -> Expr:
    """Raises Unsupported: the models here read text."""
    raise Unsupported("image() is not supported by this model: it reads text only.", param="image")


def video(path: object, num_frames: int = 0) -> Expr:
    """Raises Unsupported: the models here read text."""
    raise Unsupported("video() is not supported by this model: it reads text only.", param="video")


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
    _check_name(name)
    listed = isinstance(choices, Iterable) and not isinstance(choices, str)
    options = tuple(choices) if listed else ()  # type: ignore[arg-type]
    if not options or not all(isinstance(each, str) and each for each in options):
        message = f"`choices` needs one or more texts in a list, none empty, got {choices!r:.200}."
        raise InvalidRequest(message, param="choices")
    if not isinstance(temperature, (int, float)) or not 0 <= temperature <= 100:
        raise wrong("temperature", temperature, "a number between 0 and 100")
    if choices_method is not None and not hasattr(choices_method, "needs_unconditional"):
        raise wrong("choices_method", choices_method, "a method such as token_length_normalized")
    method = choices_method or token_length_normalized
    return Select(name, options, method, temperature, all_scores)


def role(name: str, content: object = None) -> Expr:
    """A whole turn of a conversation; without content, an empty one."""
    return Concat((RoleBegin(name), *parts_of("" if content is None else content), RoleEnd(name)))


def system(content: object = None) -> Expr:
    """A system turn."""
    return role("system", content)


def user(content: object = None) -> Expr:
    """A user's turn."""
    return role("user", content)


def assistant(content: object = None) -> Expr:
    """An assistant's turn."""
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
