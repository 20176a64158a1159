"""SGLang's shape of an answer, for `Engine` and for the `/generate` endpoint alike.

{"text": ..., "output_ids": [...], "meta_info": {"prompt_tokens": ..., ...}}
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from sglang_lite.errors import InvalidRequest
from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.client import Completion, Stream
from sglang_lite.runtime.sglang_names import Sampling
from sglang_lite.wire import Finish, FinishReason, TopLogprobs

Answer = dict[str, Any]


class Submitter(Protocol):
    """What starts the requests of one answer: a client, or a server's job around one."""

    def submit_n(
        self, tokens: Sequence[int], params: SamplingParams, n: int, **options: Any
    ) -> list[Stream]: ...


async def answer(
    client: Submitter,
    ids: Sequence[int],
    sampling: Sampling,
    score_from: int = -1,
    hint: Hint | None = None,
) -> list[Answer]:
    """`sampling.n` answers to one prompt; `score_from` >= 0 adds the prompt's logprobs."""
    streams = _submit(client, ids, sampling, score_from, hint)
    try:
        done = await asyncio.gather(*(stream.completion() for stream in streams))
    finally:
        for stream in streams:
            await stream.aclose()
    return [
        _whole(stream.id, each, ids, sampling, score_from)
        for stream, each in zip(streams, done, strict=True)
    ]


async def stream_answers(
    client: Submitter,
    ids: Sequence[int],
    sampling: Sampling,
    score_from: int = -1,
    hint: Hint | None = None,
) -> AsyncIterator[Answer]:
    """One answer as it grows: each item holds all so far; the last has a `finish_reason`.

    Raises:
        InvalidRequest: several answers (`n`) were asked for.
    """
    if sampling.n != 1:
        message = f"a stream has one answer; `n` must be 1, got {sampling.n}."
        raise InvalidRequest(message, param="n")
    stream = _submit(client, ids, sampling, score_from, hint)[0]
    text, out, logprobs, top = "", list[int](), list[float](), list[TopLogprobs]()
    scores: list[float] = []
    try:
        async for chunk in stream:
            text += chunk.text
            out += chunk.ids
            logprobs += chunk.logprobs or []
            top += chunk.top or []
            scores += chunk.scores
            meta = meta_of(stream.id, len(ids), out, chunk.finish)
            if sampling.params.logprobs is not None:
                meta |= logprobs_of(out, logprobs, top)
                if score_from >= 0:
                    meta |= prompt_logprobs(ids, scores, score_from)
            yield {"text": text, "output_ids": list(out), "meta_info": meta}
    finally:
        await stream.aclose()


def _submit(
    client: Submitter,
    ids: Sequence[int],
    sampling: Sampling,
    score_from: int,
    hint: Hint | None,
) -> list[Stream]:
    return client.submit_n(
        ids,
        sampling.params,
        sampling.n,
        constraint=sampling.constraint,
        logits_from=score_from if score_from >= 0 else None,
        hint=hint,
        skip_special_tokens=sampling.skip_special_tokens,
        no_stop_trim=sampling.no_stop_trim,
    )


def _whole(
    id: int, done: Completion, ids: Sequence[int], sampling: Sampling, score_from: int
) -> Answer:
    meta = meta_of(id, len(ids), done.ids, done.finish)
    if sampling.params.logprobs is not None:
        meta |= logprobs_of(done.ids, done.logprobs or [], done.top or [])
        if score_from >= 0:
            meta |= prompt_logprobs(ids, done.scores, score_from)
    return {"text": done.text, "output_ids": done.ids, "meta_info": meta}


def meta_of(id: int, prompt_tokens: int, out: list[int], finish: Finish | None) -> dict[str, Any]:
    reason: dict[str, str | int] | None = None
    if finish is not None:
        reason = {"type": finish.reason.value}
        if finish.matched is not None:
            reason["matched"] = finish.matched
        if finish.reason is FinishReason.LENGTH:
            reason["length"] = len(out)
    meta = {
        "id": str(id),
        "prompt_tokens": prompt_tokens,
        "completion_tokens": len(out),
        "cached_tokens": finish.cached_tokens if finish else 0,
        "fast_forwarded_tokens": finish.fast_forwarded if finish else 0,
        "finish_reason": reason,
    }
    return {**meta, "grammar": finish.grammar} if finish and finish.grammar else meta


def meta_together(metas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is known of several samples of one prompt: the first's, with what all generated."""
    summed = {
        name: sum(each[name] for each in metas)
        for name in ("completion_tokens", "fast_forwarded_tokens")
    }
    return {**metas[0], **summed, "samples": list(metas)}


def logprobs_of(out: list[int], logprobs: list[float], top: list[TopLogprobs]) -> dict[str, Any]:
    """SGLang's triples (logprob, id, text); the text is left to the reader."""
    found: dict[str, Any] = {
        "output_token_logprobs": [
            [logprob, id, None] for logprob, id in zip(logprobs, out, strict=True)
        ]
    }
    if top:
        found["output_top_logprobs"] = [
            [[logprob, id, None] for logprob, id in zip(each.logprobs, each.ids, strict=True)]
            for each in top
        ]
    return found


def prompt_logprobs(ids: Sequence[int], scores: list[float], start: int) -> dict[str, Any]:
    first: list[list[Any]] = [[None, ids[0], None]] if start == 0 else []
    begin = max(1, start)
    scored = ids[begin : begin + len(scores)]
    rest = [[score, id, None] for score, id in zip(scores, scored, strict=True)]
    return {"input_token_logprobs": first + rest}
