"""SGLang's native endpoints: generate, abort, and what the server says about itself."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from sglang_lite import __version__
from sglang_lite.errors import InvalidRequest, ModelNotFound
from sglang_lite.params import Hint
from sglang_lite.runtime.answers import answer, stream_answers
from sglang_lite.runtime.server.bodies import AbortBody, EndProgramBody, GenerateBody, read
from sglang_lite.runtime.server.prompts import prompts
from sglang_lite.runtime.server.responses import EventStream, Json, unless_gone
from sglang_lite.runtime.server.service import Service, merge, new_id
from sglang_lite.runtime.sglang_names import Sampling, read_hint, read_sampling
from sglang_lite.seeds import derive_seed

router = APIRouter()


@router.post("/generate")
async def generate(request: Request) -> Response:
    service: Service = request.app.state.service
    body = await read(request, GenerateBody, service.options.max_body_bytes)
    body.judge()
    asked, single = await prompts(service, body.text, body.input_ids, names=("text", "input_ids"))
    work = Work(
        service, body, asked, _samplings(body, len(asked)), _starts(body, len(asked)),
        read_hint(body.hint, body.priority), single,
    )  # fmt: skip
    service.check_choices(sum(each.n for each in work.samplings), 1)
    if body.stream:
        return EventStream(work.events())
    return await unless_gone(request, work.whole())


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """One request that was understood."""

    service: Service
    body: GenerateBody
    prompts: list[list[int]]
    samplings: list[Sampling]
    starts: list[int]  # of each prompt the first position whose logprob is wanted; -1: none
    hint: Hint | None
    single: bool  # one prompt outside of a list: its answer is outside of a list, too

    async def whole(self) -> Response:
        began, rid = time.monotonic(), self.body.rid or new_id("gen")
        with self.service.job(rid) as job:
            asked = [
                answer(job, ids, sampling, start, self.hint)
                for ids, sampling, start in self._each()
            ]
            found = [one for group in await asyncio.gather(*asked) for one in group]
        many = len(found) > 1
        for index, one in enumerate(found):
            self._name(one, f"{rid}-{index}" if many else rid)
            one["meta_info"]["e2e_latency"] = time.monotonic() - began
        return Json(found if many or not self.single else found[0])

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        rid = self.body.rid or new_id("gen")
        with self.service.job(rid) as job:
            sources = [
                stream_answers(job, ids, one, start, self.hint)
                for ids, sampling, start in self._each()
                for one in _samples(sampling)
            ]
            many = len(sources) > 1
            async with aclosing(merge(sources)) as merged:
                async for index, part in merged:
                    self._name(part, f"{rid}-{index}" if many else rid)
                    yield {**part, "index": index} if many else part

    def _each(self) -> Iterator[tuple[list[int], Sampling, int]]:
        return zip(self.prompts, self.samplings, self.starts, strict=True)

    def _name(self, one: dict[str, Any], rid: str) -> None:
        meta = one["meta_info"]
        meta["id"] = rid
        if self.body.return_text_in_logprobs:
            table = self.service.client.tokenizer.token_bytes
            for name in ("input_token_logprobs", "output_token_logprobs"):
                for triple in meta.get(name, ()):
                    triple[2] = table[triple[1]].decode("utf-8", "replace")


def _samplings(body: GenerateBody, count: int) -> list[Sampling]:
    """The sampling of each prompt."""
    given = body.sampling_params
    top = 0 if body.top_logprobs_num is None else body.top_logprobs_num
    more = {"logprobs": top} if body.return_logprob else {}
    if not isinstance(given, list):
        return [read_sampling(given, **more)] * count
    _as_many("sampling_params", given, count)
    return [read_sampling(one, **more) for one in given]


def _starts(body: GenerateBody, count: int) -> list[int]:
    """Of each prompt the first position whose logprob is wanted."""
    given = body.logprob_start_len
    if given is None or not body.return_logprob:
        return [-1] * count
    if not isinstance(given, list):
        return [given] * count
    _as_many("logprob_start_len", given, count)
    return given


def _as_many(name: str, given: list[Any], count: int) -> None:
    if len(given) != count:
        raise InvalidRequest(
            f"{count} prompts need as many `{name}`, got {len(given)}.", param=name
        )


def _samples(sampling: Sampling) -> list[Sampling]:
    """One sampling for each of the `n` samples, with the seed that it would get as one of them."""
    if sampling.n == 1:
        return [sampling]
    params = sampling.params
    seed = secrets.randbits(63) if params.seed is None else params.seed
    seeded = [
        msgspec.structs.replace(params, seed=derive_seed(seed, index))
        for index in range(sampling.n)
    ]
    return [dataclasses.replace(sampling, n=1, params=each) for each in seeded]


@router.post("/abort_request")
async def abort_request(request: Request) -> Response:
    service: Service = request.app.state.service
    body = await read(request, AbortBody, service.options.max_body_bytes)
    body.judge()
    if body.abort_all:
        jobs = list(service.jobs.values())
    elif not body.rid:
        raise InvalidRequest("`rid` is empty; give the id of an open request.", param="rid")
    elif body.rid not in service.jobs:
        raise ModelNotFound(f"no open request has the id {body.rid[:200]!r}.", param="rid")
    else:
        jobs = [service.jobs[body.rid]]
    for job in jobs:
        job.abort()
    return Json({"aborted": len(jobs)})


@router.post("/end_program")
async def end_program(request: Request) -> Response:
    """What `hint.program` named has ended: nothing is retained for it any longer."""
    service: Service = request.app.state.service
    body = await read(request, EndProgramBody, service.options.max_body_bytes)
    body.judge()
    service.client.end_program(Hint(program=body.program).program)
    return Json({"ended": True})


@router.api_route("/flush_cache", methods=["GET", "POST"])
async def flush_cache(request: Request) -> Response:
    service: Service = request.app.state.service
    flushed = (await service.ask("flush"))["flushed"]
    if not flushed:
        reason = "requests are running or waiting; the cache is flushed only when there are none."
        return Json({"flushed": False, "message": reason}, 400)
    return Json({"flushed": True})


@router.get("/get_model_info")
@router.get("/model_info")
async def model_info(request: Request) -> Response:
    model = request.app.state.service.client.model
    about = {
        "model_path": model.folder,
        "tokenizer_path": model.folder,
        "served_model_name": model.name,
        "is_generation": True,
        "takes_hints": True,
        "vocab_size": model.vocab_size,
        "max_context_length": model.context_length,
        "eos_token_ids": model.eos_token_ids,
    }
    return Json(about)


@router.get("/get_server_info")
@router.get("/server_info")
async def server_info(request: Request) -> Response:
    service: Service = request.app.state.service
    model = service.client.model
    about = {
        "version": __version__,
        "served_model_name": model.name,
        "context_length": model.context_length,
        "page_size": model.page_size,
        "max_total_tokens": model.max_total_tokens,
        "open_http_requests": len(service.jobs),
    }
    return Json({**about, **await service.ask("stats")})
