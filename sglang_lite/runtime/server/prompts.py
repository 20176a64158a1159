"""From what a body holds to token ids, `SamplingParams` and a `Constraint`."""

from __future__ import annotations

import reprlib
from typing import Any

import msgspec

from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.params import MAX_TOKENS, Constraint, SamplingParams
from sglang_lite.runtime.constraints import FIELDS, read_constraint
from sglang_lite.runtime.server.bodies import ChatBody, CompletionBody, Message, Sampling
from sglang_lite.runtime.server.service import Service

CHAT_TOP_LOGPROBS = 20
COMPLETION_TOKENS = 16  # OpenAI's default where a prompt is completed
OWN_FORM = {"max_tokens", "logprobs", "stop", "stop_token_ids"}  # fields with other names or types
SAME = [f.name for f in msgspec.structs.fields(SamplingParams) if f.name not in OWN_FORM]
TEMPLATE_OWN = {"self", "messages", "add_generation_prompt", "continue_final_message"}


def chat_params(body: ChatBody, context_length: int) -> SamplingParams:
    """A chat answer may fill the context unless it says otherwise."""
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise InvalidRequest(
            "`max_tokens` is the old name of `max_completion_tokens`; give one of them.",
            param="max_tokens",
        )
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    top = body.top_logprobs
    if top is not None and not body.logprobs:
        raise InvalidRequest("`top_logprobs` needs `logprobs`: true.", param="top_logprobs")
    if top is not None and not 0 <= top <= CHAT_TOP_LOGPROBS:
        raise InvalidRequest(
            f"`top_logprobs` must be between 0 and {CHAT_TOP_LOGPROBS}, got {top}.",
            param="top_logprobs",
        )
    return _params(
        body,
        max_tokens=min(context_length, MAX_TOKENS) if most is None else most,
        logprobs=(top or 0) if body.logprobs else None,
    )


def completion_params(body: CompletionBody) -> SamplingParams:
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise Unsupported(
            f"`best_of` other than `n` is not available in this version, got {body.best_of}.",
            param="best_of",
        )
    most = COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    return _params(body, max_tokens=most, logprobs=body.logprobs)


def constraint_of(body: Sampling) -> Constraint | None:
    """What the answer must match, under whichever name the body says it."""
    return read_constraint({name: getattr(body, name) for name in FIELDS})


def _params(body: Sampling, **own: Any) -> SamplingParams:
    given = {name: value for name in SAME if (value := getattr(body, name)) is not None}
    stop = body.stop or ()
    return SamplingParams(
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        **given,
        **own,
    )


async def chat_prompt(service: Service, body: ChatBody) -> list[int]:
    """The conversation as the model's template writes it."""
    variables = body.chat_template_kwargs or {}
    if taken := TEMPLATE_OWN & variables.keys():
        raise InvalidRequest(
            f"`chat_template_kwargs` must not set {sorted(taken)[0]!r}.",
            param="chat_template_kwargs",
        )
    if not body.messages:
        raise InvalidRequest("`messages` is empty; it needs at least one.", param="messages")
    text = service.client.tokenizer.render_chat(
        [_turn(index, each) for index, each in enumerate(body.messages)],
        add_generation_prompt=body.add_generation_prompt is not False,
        continue_final_message=bool(body.continue_final_message),
        **variables,
    )
    # A template writes the BOS itself where the model wants one.
    return await service.encode(text, param="messages", add_bos=False)


def _turn(index: int, message: Message) -> dict[str, Any]:
    content, role = message.content, message.role
    if isinstance(content, list):
        for part in content:
            if part.type != "text":
                raise Unsupported(
                    f"`messages.{index}.content` has a part of type {part.type[:64]!r}; this "
                    "model reads text only.",
                    param="messages",
                )
        content = "\n".join(part.text or "" for part in content)
    if content is None and role != "assistant":
        raise InvalidRequest(
            f"`messages.{index}.content` is missing; only an assistant's turn may lack it.",
            param="messages",
        )
    # OpenAI renamed the system role; no template knows the new name.
    role_name = "system" if role == "developer" else role
    return {**(message.model_extra or {}), "role": role_name, "content": content or ""}


async def prompts(
    service: Service, texts: Any, ids: Any, *, names: tuple[str, str]
) -> tuple[list[list[int]], bool]:
    """The ids of each prompt, and whether only one was given, outside of any list."""
    name = names[0] if ids is None else names[1]
    given = texts if ids is None else ids
    if given is None or (texts is not None and ids is not None):
        both = " and ".join(f"`{each}`" for each in dict.fromkeys(names))
        raise InvalidRequest(f"exactly one prompt is needed, in {both}.", param=name)
    if isinstance(given, str) and given is texts:
        return [await service.encode(given, param=name)], True
    if not isinstance(given, list):
        raise _wrong(name, given)
    if not given:
        raise InvalidRequest(f"`{name}` is empty; it needs at least one token.", param=name)
    if _are_ids(given):
        return [given], True
    service.check_choices(len(given), 1)
    return [await _one(service, name, each) for each in given], False


async def _one(service: Service, name: str, given: Any) -> list[int]:
    if isinstance(given, str):
        return await service.encode(given, param=name)
    if isinstance(given, list) and _are_ids(given):
        if not given:
            raise InvalidRequest(f"`{name}` has an empty prompt.", param=name)
        return given
    raise _wrong(name, given)


def _are_ids(given: list[Any]) -> bool:
    return all(type(each) is int for each in given)  # a bool is an int, but no id


def _wrong(name: str, given: Any) -> InvalidRequest:
    return InvalidRequest(
        f"`{name}` is a text, a list of token ids, or a list of either, got {reprlib.repr(given)}.",
        param=name,
    )
