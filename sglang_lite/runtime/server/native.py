"""SGLang's native endpoints: generate, abort, and what the server says about itself."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from sglang_lite import __version__
from sglang_lite.errors import InvalidRequest, ModelNotFound
from sglang_lite.runtime.answers import answer, stream_answers
from sglang_lite.runtime.client import derive_seed
from sglang_lite.runtime.server.bodies import AbortBody, GenerateBody, read
from sglang_lite.runtime.server.prompts import prompts
from sglang_lite.runtime.server.responses import EventStream, Json, unless_gone
from sglang_lite.runtime.server.service import Service, merge, new_id
from sglang_lite.runtime.sglang_names import Sampling, read_sampling

router = APIRouter()
NOT_JSON = "-", "_"


@router.post("/generate")
async def generate(request: Request) -> Response:
    service: Service = request.app.state.service
    body = await read(request, GenerateBody, service.options.max_body_bytes)
    body.judge()
    asked, single = await prompts(service, body.text, body.input_ids, names=("text", "input_ids"))
    work = Work(service, body, asked, _samplings(body, len(asked)), single)
    service.check_choices(1, sum(each.n for each in work.samplings))
    if body.stream:
        return EventStream(work.events())
    return await unless_gone(request, work.whole())


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    service: Service
    body: GenerateBody
    prompts: list[list[int]]
    samplings: list[Sampling]
    single: bool

    @property
    def score_from(self) -> int:
        start = self.body.logprob_start_len
        return -1 if start is None or not self.body.return_logprob else max(start, -1)

    async def whole(self) -> Response:
        began, found = time.monotonic(), []
        rid = self.body.rid or new_id("gen")
        with self.service.job(rid) as job:
            submitter: Any = job
            sources = [
                _once(answer(submitter, ids, sampling, self.score_from))
                for ids, sampling in zip(self.prompts, self.samplings, strict=True)
            ]
            groups: dict[int, list[dict[str, Any]]] = {}
            async for index, answers in merge(sources):
                groups[index] = answers
        every = [groups[index] for index in range(len(sources))]
        for one in (each for group in every for each in group):
            one["meta_info"]["e2e_latency"] = time.monotonic() - began
            found.append(self._named(one, rid if self.single and len(every[0]) == 1 else None))
        return Json(found[0] if self.single and len(found) == 1 else found)

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        rid = self.body.rid or new_id("gen")
        with self.service.job(rid) as job:
            submitter: Any = job
            alone = [
                (ids, one)
                for ids, sampling in zip(self.prompts, self.samplings, strict=True)
                for one in _each(sampling)
            ]
            many = len(alone) > 1
            sources = [stream_answers(submitter, *each, self.score_from) for each in alone]
            async with aclosing(merge(sources)) as merged:
                async for index, part in merged:
                    named = self._named(part, None if many else rid)
                    yield {**named, "index": index} if many else named

    def _named(self, one: dict[str, Any], rid: str | None) -> dict[str, Any]:
        meta = one["meta_info"]
        if rid is not None:
            meta["id"] = rid
        if self.body.return_text_in_logprobs:
            table = self.service.client.tokenizer.token_bytes
            for name in ("input_token_logprobs", "output_token_logprobs"):
                meta[name] = [[x, id, table[id].decode("utf-8", "replace")] for x, id, _ in meta.get(name, [])]
        return one
