"""OpenAI's endpoints: models, chat completions and completions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.client import Chunk
from sglang_lite.runtime.server.bodies import ChatBody, CompletionBody, Sampling, read
from sglang_lite.runtime.server.prompts import (
    chat_params,
    chat_prompt,
    completion_params,
    constraint_of,
    prompts,
)
from sglang_lite.runtime.server.responses import EventStream, Json, unless_gone
from sglang_lite.runtime.server.service import Service, merge, new_id
from sglang_lite.runtime.server.shapes import ChatShape, CompletionShape, Shape, Usage, join

router = APIRouter()


@router.get("/v1/models")
async def models(request: Request) -> Response:
    return Json({"object": "list", "data": [_model(request.app.state.service)]})


@router.get("/v1/models/{name:path}")
async def model(request: Request, name: str) -> Response:
    service: Service = request.app.state.service
    service.check_model(name)
    return Json(_model(service))


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    service: Service = request.app.state.service
    body = await read(request, ChatBody, service.options.max_body_bytes)
    ignored = _judge(service, body)
    params = chat_params(body, service.client.model.context_length)
    constraint = constraint_of(body)
    ids = await chat_prompt(service, body)
    shape = ChatShape(service.client.tokenizer.token_bytes)
    work = Work(service, body, [ids], params, constraint, shape)
    return await _answer(request, work, ignored)


@router.post("/v1/completions")
async def completions(request: Request) -> Response:
    service: Service = request.app.state.service
    body = await read(request, CompletionBody, service.options.max_body_bytes)
    ignored = _judge(service, body)
    params, constraint = completion_params(body), constraint_of(body)
    asked, single = await prompts(service, body.prompt, None, names=("prompt", "prompt"))
    n = 1 if body.n is None else body.n
    service.check_choices(len(asked), n)
    shape = CompletionShape(service.client.tokenizer.token_bytes)
    if body.echo:
        given = [body.prompt] if single else body.prompt
        texts = [_echo(service, *each) for each in zip(given, asked, strict=True)]
        shape.echo = [each for each in zip(texts, asked, strict=True) for _ in range(n)]
    work = Work(service, body, asked, params, constraint, shape)
    return await _answer(request, work, ignored)


@dataclass(frozen=True, slots=True)
class Work:
    """One request that was understood: what to run, and the shape of its answer."""

    service: Service
    body: Sampling
    prompts: list[list[int]]
    params: SamplingParams
    constraint: Constraint | None
    shape: Shape

    @property
    def scored(self) -> bool:
        """Whether prompts' logprobs belong to the answer."""
        return self.params.logprobs is not None and bool(getattr(self.body, "echo", False))

    async def chunks(self, id: str, usage: Usage) -> AsyncGenerator[tuple[int, Chunk], None]:
        """Chunks of every choice, with the choice's index; counted into `usage`."""
        body = self.body
        with self.service.job(id) as job:
            streams = [
                stream
                for ids in self.prompts
                for stream in job.submit_n(
                    ids,
                    self.params,
                    usage.n,
                    constraint=self.constraint,
                    logits_from=0 if self.scored else None,
                    skip_special_tokens=body.skip_special_tokens is not False,
                    no_stop_trim=bool(body.no_stop_trim),
                )
            ]
            async with aclosing(merge([aiter(each) for each in streams])) as merged:
                async for index, chunk in merged:
                    usage.add(index, chunk)
                    yield index, chunk

    async def whole(self) -> Response:
        usage, shape, head = self._head(self.shape.whole_kind)
        parts: dict[int, list[Chunk]] = {i: [] for i in range(len(self.prompts) * usage.n)}
        async for index, chunk in self.chunks(head["id"], usage):
            parts[index].append(chunk)
        choices = [shape.whole(index, join(each)) for index, each in parts.items()]
        return Json({**head, "choices": choices, "usage": usage.body()})

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        usage, shape, head = self._head(self.shape.part_kind)
        options = self.body.stream_options
        with_usage = bool(options and options.include_usage)
        started: set[int] = set()
        held: dict[int, list[Chunk]] = {}
        async with aclosing(self.chunks(head["id"], usage)) as chunks:
            async for index, chunk in chunks:
                if self.scored and index not in started:
                    # A prompt is echoed with all its logprobs, which may take several steps.
                    held.setdefault(index, []).append(chunk)
                    if not (chunk.ids or chunk.finish):
                        continue
                    chunk = join(held.pop(index))
                choice = shape.part(index, chunk, index not in started)
                started.add(index)
                if choice is not None:
                    yield {**head, "choices": [choice], **({"usage": None} if with_usage else {})}
        if with_usage:
            yield {**head, "choices": [], "usage": usage.body()}

    def _head(self, kind: str) -> tuple[Usage, Shape, dict[str, Any]]:
        usage = Usage([len(ids) for ids in self.prompts], 1 if self.body.n is None else self.body.n)
        head = {
            "id": new_id(self.shape.prefix),
            "object": kind,
            "created": int(time.time()),
            "model": self.service.model_name,
        }
        return usage, self.shape, head


def _echo(service: Service, given: str | list[int], ids: list[int]) -> str:
    """A prompt as text, also when it came as ids."""
    if isinstance(given, str):
        return given
    service.check_ids("prompt", ids)
    text: str = service.client.tokenizer.decode(ids, skip_special_tokens=False)
    return text


def _judge(service: Service, body: Sampling) -> list[str]:
    """Refuse what is not available before any work; return the fields without effect."""
    ignored = body.judge()
    service.check_model(body.model)
    service.check_choices(1, 1 if body.n is None else body.n)
    return ignored


async def _answer(request: Request, work: Work, ignored: list[str]) -> Response:
    headers = {"x-ignored-fields": ", ".join(ignored)} if ignored else {}
    if work.body.stream:
        return EventStream(work.events(), headers)
    response = await unless_gone(request, work.whole())
    response.headers.update(headers)
    return response


def _model(service: Service) -> dict[str, Any]:
    return {
        "id": service.model_name,
        "object": "model",
        "created": int(service.started),
        "owned_by": "sglang_lite",
        "max_model_len": service.client.model.context_length,
    }
