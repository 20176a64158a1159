"""What a gen asks for, in the fields of OpenAI's API and of servers that extend it.

A field that the server behind an endpoint may not know is refused here, by its name: such servers
drop what they do not know, and nobody would see that an answer was not constrained.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec

from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.lang.backends.protocol import Ask
from sglang_lite.lang.templates import Message, Template
from sglang_lite.params import Constraint, SamplingParams

Dialect = Literal["openai", "vllm", "sglang", "sglang_lite"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

COMMON = ("frequency_penalty", "presence_penalty", "seed")
EXTENSIONS = (
    "top_k",
    "min_p",
    "repetition_penalty",
    "min_tokens",
    "stop_token_ids",
    "ignore_eos",
)
OF_VLLM = {"regex": "regex", "json_schema": "json", "ebnf": "grammar", "choice": "choice"}
OF_SGLANG = ("regex", "json_schema", "ebnf", "structural_tag")

_DEFAULTS = msgspec.structs.asdict(SamplingParams())


def needs_dialect(ask: Ask) -> bool:
    """Whether the request has fields that only some servers know."""
    return ask.constraint is not None or any(_changed(ask.params, name) for name in EXTENSIONS)


def sampling(params: SamplingParams, n: int, dialect: Dialect) -> dict[str, Any]:
    """Fields that chats and completions share.

    `temperature` and `top_p` are always said: some servers have defaults of a model's own.

    Raises:
        Unsupported: a parameter is an extension, and the server does not have it.
    """
    body: dict[str, Any] = {"temperature": params.temperature, "top_p": params.top_p}
    body |= {name: getattr(params, name) for name in COMMON if _changed(params, name)}
    for name in EXTENSIONS:
        if _changed(params, name):
            if dialect == "openai":
                raise _extension(name)
            body[name] = getattr(params, name)
    if params.stop:
        body["stop"] = list(params.stop)
    if params.logit_bias:
        body["logit_bias"] = {str(id): bias for id, bias in params.logit_bias.items()}
    return {**body, **({"n": n} if n > 1 else {})}


def chat_logprobs(wanted: int | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    return {"logprobs": True, **({"top_logprobs": wanted} if wanted else {})}


def constrained(constraint: Constraint | None, dialect: Dialect, chat: bool) -> dict[str, Any]:
    """Fields that hold an answer to `constraint`.

    Raises:
        Unsupported: the server has no field for it.
    """
    if constraint is None:
        return {}
    style = {"whitespace": constraint.whitespace, "grammar_engine": constraint.engine}
    said = {name: value for name, value in style.items() if value != "default"}
    if said and dialect != "sglang_lite":
        raise _extension(next(iter(said)), "a server of sglang_lite")
    kind, source = constraint.kind, constraint.source
    if kind == "json_schema" and chat:
        schema = {"name": "answer", "schema": json.loads(source), "strict": constraint.closed}
        return {"response_format": {"type": kind, "json_schema": schema}, **said}
    if dialect == "vllm" and kind in OF_VLLM:
        value = source if kind in ("regex", "ebnf") else json.loads(source)
        return {"structured_outputs": {OF_VLLM[kind]: value}}
    if dialect in ("sglang", "sglang_lite") and kind in OF_SGLANG:
        return {kind: source, **said}
    raise _extension(kind)


def turns(ask: Ask, template: Template) -> tuple[list[Message], bool]:
    """The messages to send, and whether the last one is to be continued.

    Raises:
        InvalidRequest: the text has a place that no message stands for.
    """
    if ask.role != "assistant":
        place = "outside of any turn" if ask.role is None else f"in the {ask.role} turn"
        raise InvalidRequest(
            f"a chat endpoint generates assistant turns only, and this gen stands {place}; write "
            "s += assistant(gen(...)), or use a completion model (OpenAI(is_chat_model=False)).",
        )
    if _squeezed(_rendered(ask.messages, template)) != _squeezed(ask.prompt.text):
        raise InvalidRequest(
            "a chat endpoint is sent messages, and this program has text outside of its turns "
            "that would be lost; put it into system(...), user(...) or assistant(...), or use a "
            "completion model (OpenAI(is_chat_model=False)).",
        )
    begun = bool(ask.messages[-1]["content"])
    sent = list(ask.messages if begun else ask.messages[:-1])
    if not sent:
        raise InvalidRequest("a chat needs a turn before the assistant's first; add user(...).")
    return sent, begun


def refuse_to_continue() -> Unsupported:
    return Unsupported(
        "this chat endpoint begins its turns itself, and the assistant turn has text before the "
        "gen. Put that text into the user turn; or use @function(num_api_spec_tokens=N), a "
        "completion model, or a server that continues messages (sglang_lite, vLLM, SGLang: "
        "OpenAI(continue_final_message=True))."
    )


def _rendered(messages: Sequence[Message], template: Template) -> str:
    """The text of a conversation whose last turn is open."""
    text = ""
    for at, message in enumerate(messages):
        role = message["role"]
        text += template.begin(messages[:at], role, text).text + str(message["content"])
        if at < len(messages) - 1:
            text += template.end(messages[: at + 1], role)
    return text


def _squeezed(text: str) -> str:
    return "".join(text.split())  # a message's content may have lost the space around it


def _changed(params: SamplingParams, name: str) -> bool:
    return bool(getattr(params, name) != _DEFAULTS[name])


def _extension(name: str, who: str = "the server") -> Unsupported:
    return Unsupported(
        f"`{name}` is no part of OpenAI's API here, and this endpoint is not known to have it. If "
        f"{who} does, say what it is: OpenAI(..., dialect='vllm'), 'sglang' or 'sglang_lite'; "
        "else leave it out.",
        param=name,
    )
