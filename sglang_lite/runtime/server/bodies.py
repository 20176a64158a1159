"""Request bodies: their fields, and what happens to fields that are not among them.

A field is effective, known and harmless to leave out (named in the answer's `x-ignored-fields`),
known and not available (refused by name), or unknown (refused, with the nearest known name).
Nothing is dropped in silence. Types are strict: "5" is no number, and true is no integer.
"""

from __future__ import annotations

import difflib
import reprlib
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.runtime.constraints import INSTEAD

B = TypeVar("B", bound="Body")
Refused = dict[str, tuple[Any, ...]]  # name -> values that ask for nothing


class BodyTooLarge(InvalidRequest):
    status = 413


class Body(BaseModel):
    """Any JSON object. Fields are optional unless they say otherwise, and null means left out."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    ignored: ClassVar[frozenset[str]] = frozenset()
    refused: ClassVar[Refused] = {}

    def judge(self) -> list[str]:
        """Names of the fields that have no effect.

        Raises:
            Unsupported: a field asks for something that is not available.
            InvalidRequest: a field is unknown.
        """
        given = {k: v for k, v in (self.model_extra or {}).items() if v is not None}
        for name, value in given.items():
            if name in self.refused:
                if not any(value == harmless for harmless in self.refused[name]):
                    instead = f"; use {INSTEAD[name]}" if name in INSTEAD else ""
                    message = f"`{name}` is not available in this version{instead}."
                    raise Unsupported(message, param=name)
            elif name not in self.ignored:
                raise self._unknown(name)
        return sorted(given)

    def _unknown(self, name: str) -> InvalidRequest:
        known = sorted({*type(self).model_fields, *self.ignored, *self.refused})
        near = difflib.get_close_matches(name[:64], known, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}."
        return InvalidRequest(f"unknown field `{name[:200]}`; {hint}", param=name[:200])


NO_TOOLS: Refused = {"tools": ([],), "tool_choice": ("none", "auto"), "functions": ([],)}
OTHER_FORMS: Refused = dict.fromkeys(("stop_regex", *INSTEAD), ())
PASSED_OVER = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier"})


class StreamOptions(Body):
    include_usage: bool | None = None

    ignored = frozenset({"include_obfuscation"})


class Sampling(Body):
    """What both completion bodies have; names of `SamplingParams` mean what they mean there.

    What an answer must match, and how that is held, is read by `runtime.constraints`.
    """

    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    seed: int | None = None
    skip_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    response_format: Any = None
    structured_outputs: Any = None
    regex: Any = None
    json_schema: Any = None
    ebnf: Any = None
    structural_tag: Any = None
    whitespace: Any = None
    grammar_engine: Any = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def judge(self) -> list[str]:
        ignored = super().judge()
        if self.stream_options is not None:
            if not self.stream:
                raise InvalidRequest(
                    "`stream_options` is only for `stream`: true.", param="stream_options"
                )
            ignored += [f"stream_options.{name}" for name in self.stream_options.judge()]
        return ignored


class TextPart(BaseModel):
    type: str
    text: str | None = None


class Message(BaseModel):
    """One turn. What templates may know besides (name, tool_calls ...) is handed on to them."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None


class ChatBody(Sampling):
    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    ignored = PASSED_OVER | {
        "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_options",
        "prompt_cache_retention", "reasoning_effort", "verbosity",
    }  # fmt: skip
    refused: ClassVar = {
        **NO_TOOLS,
        **OTHER_FORMS,
        "function_call": ("none", "auto"),
        "modalities": (["text"],),
        **dict.fromkeys(("audio", "moderation", "web_search_options"), ()),
    }


class CompletionBody(Sampling):
    prompt: Any = None  # text, texts, token ids or lists of them: told apart by `prompts`
    logprobs: int | None = None
    echo: bool | None = None
    best_of: int | None = None

    ignored = PASSED_OVER
    refused: ClassVar = {**OTHER_FORMS, "suffix": ("",)}


class GenerateBody(Body):
    """SGLang's native request."""

    text: Any = None
    input_ids: Any = None
    sampling_params: dict[str, Any] | list[dict[str, Any]] | None = None
    rid: str | None = None
    return_logprob: bool | None = None
    logprob_start_len: int | list[int] | None = None
    top_logprobs_num: int | None = None
    return_text_in_logprobs: bool | None = None
    stream: bool | None = None
    priority: int | None = None
    hint: dict[str, int | bool] | None = None  # the fields of `params.Hint`

    ignored = frozenset({"log_metrics"})
    refused: ClassVar = {
        "return_hidden_states": (False,),
        **dict.fromkeys(
            ("image_data", "audio_data", "video_data", "input_embeds", "lora_path",
             "token_ids_logprob", "session_params", "custom_logit_processor"), (),
        ),
    }  # fmt: skip


class EndProgramBody(Body):
    program: int


class AbortBody(Body):
    rid: str | None = None
    abort_all: bool | None = None


async def read(request: Request, kind: type[B], limit: int) -> B:
    """The request's JSON as a `kind`.

    Raises:
        InvalidRequest: larger than `limit` bytes, no JSON, or a field of a wrong type.
    """
    data = await _bounded(request, limit)
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False, include_context=False)) from None


async def _bounded(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    size = int(announced) if announced.isascii() and announced.isdigit() else 0
    chunks: list[bytes] = []
    if size <= limit:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                break
            chunks.append(chunk)
    if size > limit:
        raise BodyTooLarge(f"the body has {size} bytes or more, at most {limit} are read.")
    return b"".join(chunks)


def _refusal(errors: list[ErrorDetails]) -> InvalidRequest:
    """One sentence about the first field at fault; for a union, every form it could have had."""
    first = errors[0]
    path = _path(first)
    if not path:
        return InvalidRequest(f"the body is not a JSON object of this endpoint: {first['msg']}.")
    kinds = list(dict.fromkeys(each["msg"] for each in errors if _path(each) == path))
    got = "" if first["type"] == "missing" else f", got {reprlib.repr(first['input'])}"
    return InvalidRequest(f"`{path}`: {' or '.join(kinds)}{got}.", param=str(first["loc"][0])[:200])


def _path(error: ErrorDetails) -> str:
    """Where it is, without pydantic's names of a union's members."""
    steps = [str(step)[:64] for step in error["loc"]]
    return ".".join(step for step in steps if "[" not in step and step not in ("str", "int"))
