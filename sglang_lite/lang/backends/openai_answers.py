"""Answers of OpenAI's API, whole or in pieces, as the language has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sglang_lite.errors import RequestFailed, RuntimeUnavailable
from sglang_lite.lang.backends.protocol import Part
from sglang_lite.lang.prompt import Generated

Triple = list[Any]  # SGLang's (logprob, id, text); this API has no ids


@dataclass
class Choice:
    """One sample."""

    text: str = ""
    refusal: str = ""
    finish: dict[str, Any] | None = None
    logprobs: list[Triple] | None = None
    top: list[list[Triple]] = field(default_factory=list)

    def take(self, piece: Mapping[str, Any]) -> str:
        said = piece.get("delta") or piece.get("message") or piece
        new = said.get("content") or said.get("text") or ""
        self.text += new
        self.refusal += said.get("refusal") or ""
        if logprobs := piece.get("logprobs"):
            tokens, top = _of_chat(logprobs) if "content" in logprobs else _of_completion(logprobs)
            self.logprobs = [*(self.logprobs or ()), *tokens]
            self.top += top
        if reason := piece.get("finish_reason"):
            matched = piece.get("matched_stop", piece.get("stop_reason"))
            self.finish = {"type": reason, **({} if matched is None else {"matched": matched})}
        return str(new)

    def meta(self) -> dict[str, Any]:
        known: dict[str, Any] = {"finish_reason": self.finish}
        if self.logprobs is not None:
            known["output_token_logprobs"] = self.logprobs
        if any(self.top):
            known["output_top_logprobs"] = self.top
        return known


class Answer:
    """What has come so far.

    Args:
        who: the endpoint, as errors name it.
        n: how many samples were asked for.
    """

    def __init__(self, who: str, n: int = 1) -> None:
        self.who = who
        self.choices = [Choice() for _ in range(n)]
        self.id = ""
        self.usage: dict[str, Any] = {}

    def take(self, event: Any) -> str:
        """Add an answer or a piece of one; the new text of the first sample.

        Raises:
            RequestFailed: it does not look like an answer.
        """
        new = ""
        try:
            self.id = event.get("id") or self.id
            self.usage = event.get("usage") or self.usage
            for piece in event["choices"]:
                index = piece.get("index", 0)
                text = self.choices[index].take(piece)
                new += text if index == 0 else ""
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RequestFailed(
                f"{self.who} sent what is no answer of OpenAI's API "
                f"({type(error).__name__}: {error}): {str(event)[:200]}"
            ) from error
        return new

    def end(self, text: str = "") -> Part:
        """All samples; `text` is what of the first one was not handed out yet.

        Raises:
            RuntimeUnavailable: the end of it did not come.
            RequestFailed: the model refused to answer.
        """
        for choice in self.choices:
            if choice.refusal:
                raise RequestFailed(f"the model at {self.who} refused: {choice.refusal}")
            if choice.finish is None:
                raise RuntimeUnavailable(f"{self.who} ended its answer amid a sample.")
        meta = {"id": self.id, **usage_of(self.usage), **self.choices[0].meta()}
        if len(self.choices) > 1:
            meta["samples"] = [choice.meta() for choice in self.choices]
        return Part(text, tuple(Generated(choice.text) for choice in self.choices), meta)


@dataclass
class TokenUsage:
    """Tokens of all gens of a backend since the last `reset`, as far as the server counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, meta: Mapping[str, Any]) -> None:
        self.prompt_tokens += meta.get("prompt_tokens", 0)
        self.completion_tokens += meta.get("completion_tokens", 0)

    def reset(self) -> None:
        self.prompt_tokens = self.completion_tokens = 0


def usage_of(usage: Mapping[str, Any]) -> dict[str, int]:
    """Tokens as far as the server counts them, all samples together."""
    if not usage:
        return {}
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    counts = {
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "cached_tokens": prompt.get("cached_tokens"),
        "fast_forwarded_tokens": completion.get("fast_forwarded_tokens"),
    }
    return {name: count or 0 for name, count in counts.items()}


def _of_chat(logprobs: Mapping[str, Any]) -> tuple[list[Triple], list[list[Triple]]]:
    tokens = logprobs["content"] or []
    top = [
        [[each["logprob"], None, each["token"]] for each in token.get("top_logprobs") or ()]
        for token in tokens
    ]
    return [[token["logprob"], None, token["token"]] for token in tokens], top


def _of_completion(logprobs: Mapping[str, Any]) -> tuple[list[Triple], list[list[Triple]]]:
    tokens, values = logprobs["tokens"], logprobs["token_logprobs"]
    top = [
        [[value, None, token] for token, value in (each or {}).items()]
        for each in logprobs.get("top_logprobs") or ()
    ]
    return [[value, None, token] for token, value in zip(tokens, values, strict=True)], top
