"""OpenAI's shapes: what chunks of the runtime look like in a chat's or a completion's answer.

A whole answer is built from its chunks joined into one, so that a stream adds up to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sglang_lite.runtime.client import Chunk
from sglang_lite.wire import TopLogprobs

LEAST = -9999.0  # OpenAI's word for a logprob of minus infinity, which JSON has not


class Shape(Protocol):
    """How choices of one endpoint look."""

    prefix: str  # of the answer's id
    whole_kind: str
    part_kind: str

    def whole(self, index: int, chunk: Chunk) -> dict[str, Any]: ...
    def part(self, index: int, chunk: Chunk, first: bool) -> dict[str, Any] | None: ...


@dataclass(slots=True)
class ChatShape:
    """`message` or `delta`, with OpenAI's per-token logprobs."""

    token_bytes: Sequence[bytes]
    prefix: str = "chatcmpl"
    whole_kind: str = "chat.completion"
    part_kind: str = "chat.completion.chunk"

    def whole(self, index: int, chunk: Chunk) -> dict[str, Any]:
        message = {"role": "assistant", "content": chunk.text, "refusal": None}
        return _choice(index, chunk, message=message, logprobs=self._logprobs(chunk))

    def part(self, index: int, chunk: Chunk, first: bool) -> dict[str, Any] | None:
        logprobs = self._logprobs(chunk) if chunk.ids else None
        if not (first or chunk.text or logprobs or chunk.finish):
            return None
        delta: dict[str, Any] = {"role": "assistant"} if first else {}
        if first or chunk.text:
            delta["content"] = chunk.text
        return _choice(index, chunk, delta=delta, logprobs=logprobs)

    def _logprobs(self, chunk: Chunk) -> dict[str, Any] | None:
        if chunk.logprobs is None:
            return None
        tops: Sequence[TopLogprobs | None] = chunk.top or [None] * len(chunk.ids)
        content = [
            {**self._token(id, logprob), "top_logprobs": self._top(top)}
            for id, logprob, top in zip(chunk.ids, chunk.logprobs, tops, strict=True)
        ]
        return {"content": content, "refusal": None}

    def _top(self, top: TopLogprobs | None) -> list[dict[str, Any]]:
        if top is None:
            return []
        return [self._token(*each) for each in zip(top.ids, top.logprobs, strict=True)]

    def _token(self, id: int, logprob: float) -> dict[str, Any]:
        data = self.token_bytes[id]
        text = data.decode("utf-8", "replace")
        return {"token": text, "bytes": list(data), "logprob": max(logprob, LEAST)}


@dataclass(slots=True)
class CompletionShape:
    """`text`, with the four parallel lists of logprobs; with `echo`, the prompt in front."""

    token_bytes: Sequence[bytes]
    echo: list[tuple[str, list[int]]] | None = None  # of each choice: its prompt, as text and ids
    prefix: str = "cmpl"
    whole_kind: str = "text_completion"
    part_kind: str = "text_completion"
    _offsets: dict[int, int] = field(default_factory=dict)

    def whole(self, index: int, chunk: Chunk) -> dict[str, Any]:
        return self._choice(index, chunk, first=True)

    def part(self, index: int, chunk: Chunk, first: bool) -> dict[str, Any] | None:
        choice = self._choice(index, chunk, first)
        said = choice["text"] or (choice["logprobs"] and choice["logprobs"]["tokens"])
        return choice if said or chunk.finish else None

    def _choice(self, index: int, chunk: Chunk, first: bool) -> dict[str, Any]:
        echo = self.echo[index] if self.echo and first else None
        text = (echo[0] if echo else "") + chunk.text
        logprobs = None
        if chunk.logprobs is not None:
            logprobs = self._logprobs(index, chunk, echo[1] if echo else [])
        return _choice(index, chunk, text=text, logprobs=logprobs)

    def _logprobs(self, index: int, chunk: Chunk, prompt: list[int]) -> dict[str, Any]:
        scores: list[float | None] = [None, *chunk.scores] if prompt else []
        asked = chunk.top is not None
        tops: list[TopLogprobs | None] = [None, *chunk.score_top] if prompt and asked else []
        tops += chunk.top or []
        ids = [*prompt, *chunk.ids]
        values = [*scores, *(chunk.logprobs or ())]
        names = [self._name(id) for id in ids]
        offsets, at = [], self._offsets.get(index, 0)
        for name in names:
            offsets.append(at)
            at += len(name)
        self._offsets[index] = at
        return {
            "tokens": names,
            "token_logprobs": [None if x is None else max(x, LEAST) for x in values],
            "top_logprobs": [self._top(*each) for each in zip(tops, ids, values, strict=True)]
            if asked
            else None,
            "text_offset": offsets,
        }

    def _top(
        self, top: TopLogprobs | None, id: int, logprob: float | None
    ) -> dict[str, float] | None:
        if top is None:
            return None
        found = {self._name(i): max(x, LEAST) for i, x in zip(top.ids, top.logprobs, strict=True)}
        if logprob is not None:  # the chosen token is named, also when it was unlikely
            found.setdefault(self._name(id), max(logprob, LEAST))
        return found

    def _name(self, id: int) -> str:
        data = self.token_bytes[id]
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


@dataclass(slots=True)
class Usage:
    """Tokens of all choices together. A prompt counts once, however many answers it gets."""

    prompts: list[int]
    n: int
    completion_tokens: int = 0
    fast_forwarded: int = 0
    _cached: dict[int, int] = field(default_factory=dict)

    def add(self, index: int, chunk: Chunk) -> None:
        self.completion_tokens += len(chunk.ids)
        if chunk.finish is not None:
            self.fast_forwarded += chunk.finish.fast_forwarded
            # Later samples find what the first one computed: only the least was there before.
            prompt, cached = index // self.n, chunk.finish.cached_tokens
            self._cached[prompt] = min(self._cached.get(prompt, cached), cached)

    def body(self) -> dict[str, Any]:
        prompt = sum(self.prompts)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.completion_tokens,
            "total_tokens": prompt + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(self._cached.values())},
            "completion_tokens_details": {"fast_forwarded_tokens": self.fast_forwarded},
        }


def join(chunks: Iterable[Chunk]) -> Chunk:
    """Consecutive chunks of one request as one."""
    every = list(chunks)
    with_logprobs = [each for each in every if each.logprobs is not None]
    with_top = [each for each in every if each.top is not None]
    return Chunk(
        ids=[id for each in every for id in each.ids],
        text="".join(each.text for each in every),
        logprobs=[x for e in with_logprobs for x in e.logprobs or ()] if with_logprobs else None,
        top=[x for each in with_top for x in each.top or ()] if with_top else None,
        scores=[x for each in every for x in each.scores],
        score_top=[x for each in every for x in each.score_top],
        finish=every[-1].finish,
    )


def _choice(index: int, chunk: Chunk, **content: Any) -> dict[str, Any]:
    finish = chunk.finish
    choice = {"index": index, **content, "finish_reason": finish and finish.reason.value}
    if finish is not None:
        choice["matched_stop"] = finish.matched
        if finish.grammar:
            choice["grammar"] = finish.grammar
    return choice
