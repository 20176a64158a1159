"""The runtime as endpoints use it: jobs that end with their HTTP request, and their limits.

A job is every runtime request behind one HTTP request. Whoever leaves it, by answer, error or
a reader that has gone, aborts what still runs.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from sglang_lite.errors import InvalidRequest, ModelNotFound, RuntimeUnavailable, SglangLiteError
from sglang_lite.params import SamplingParams
from sglang_lite.runtime.client import Client, Stream

T = TypeVar("T")

LONG_TEXT = 1 << 16  # characters from which encoding would hold up other requests' streams
ANSWER_WITHIN = 5.0  # seconds; a question is answered between two steps


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Limits of the HTTP side."""

    max_body_bytes: int = 16 << 20
    max_choices: int = 128  # `n` of one prompt
    max_batch: int = 1024  # choices of all prompts of one HTTP request together
    drain_seconds: float = 5.0  # for open requests, after a signal to stop


class Service:
    """One connected client, the jobs that run through it, and the checks that need its model."""

    def __init__(self, client: Client, options: ServerOptions) -> None:
        self.client, self.options = client, options
        self.jobs: dict[str, Job] = {}
        self.refused = 0  # requests answered with a 4xx
        self.started = time.time()

    @property
    def model_name(self) -> str:
        return self.client.model.name

    def check_model(self, name: str | None) -> None:
        """Raise ModelNotFound unless `name` is the served model or left out."""
        if name is not None and name != self.model_name:
            raise ModelNotFound(
                f"the model {name[:200]!r} is not served here; `model` is {self.model_name!r}.",
                param="model",
            )

    def check_choices(self, prompts: int, n: int) -> None:
        """Raise InvalidRequest when one HTTP request asks for more answers than allowed."""
        limits = self.options
        if not 1 <= n <= limits.max_choices:
            raise InvalidRequest(
                f"`n` must be between 1 and {limits.max_choices}, got {n}.", param="n"
            )
        if prompts * n > limits.max_batch:
            raise InvalidRequest(
                f"{prompts} prompts with n={n} ask for {prompts * n} answers, at most "
                f"{limits.max_batch} fit into one request; send several.",
                param="prompt",
            )

    async def encode(self, text: str, *, param: str, add_bos: bool = True) -> list[int]:
        """The ids of `text`, which must not be empty."""
        if not text:
            raise InvalidRequest("the prompt is empty; it needs at least one token.", param=param)
        encode = self.client.tokenizer.encode
        if len(text) < LONG_TEXT:
            ids: list[int] = encode(text, add_bos=add_bos)
        else:
            ids = await asyncio.to_thread(encode, text, add_bos=add_bos)
        return ids

    def job(self, id: str) -> Job:
        return Job(self, id)

    async def ask(self, about: str) -> dict[str, Any]:
        """What the runtime answers to a question about itself.

        Raises:
            RuntimeUnavailable: it is gone, or does not answer in time.
        """
        try:
            return await asyncio.wait_for(self.client.ask(about), ANSWER_WITHIN)
        except asyncio.TimeoutError:
            raise RuntimeUnavailable(
                f"the runtime did not answer within {ANSWER_WITHIN:g} s; it may be busy with a "
                "long step."
            ) from None

    def check_length(self, count: int) -> None:
        """Raise InvalidRequest for a prompt that cannot fit, before `n` copies of it are sent."""
        most = self.client.model.context_length
        if count > most:
            raise InvalidRequest(
                f"the prompt has {count} tokens, and prompt and answer together have at most "
                f"{most} (model, --context-length and KV pool bound it); shorten the prompt.",
                param="prompt",
            )

    def check_ids(self, name: str, ids: Sequence[int]) -> None:
        """Raise InvalidRequest unless every id is one of the model's."""
        size = self.client.model.vocab_size
        if ids and not (min(ids) >= 0 and max(ids) < size):
            wrong = min(ids) if min(ids) < 0 else max(ids)
            raise InvalidRequest(
                f"`{name}` has the token id {_shown(wrong)}; ids are between 0 and {size - 1}.",
                param=name,
            )


class Job:
    """The runtime requests of one HTTP request. Use it in a `with` statement."""

    def __init__(self, service: Service, id: str) -> None:
        self.service, self.id = service, id
        self._streams: list[Stream] = []

    def submit_n(
        self, tokens: Sequence[int], params: SamplingParams, n: int, **options: Any
    ) -> list[Stream]:
        """Start `n` samples of one prompt.

        Raises:
            InvalidRequest: the prompt is too long, or a token id is none of the model's.
            RuntimeUnavailable: the runtime is gone.
        """
        service = self.service
        service.check_length(len(tokens))
        service.check_ids("prompt", tokens)
        service.check_ids("stop_token_ids", params.stop_token_ids)
        service.check_ids("logit_bias", list(params.logit_bias))
        if params.top_k > service.client.model.vocab_size:  # the same as all of them
            params = msgspec.structs.replace(params, top_k=-1)
        streams = service.client.submit_n(tokens, params, n, **options)
        self._streams += streams
        return streams

    def abort(self) -> None:
        """Ask the runtime to end what still runs; each request then gets its last word."""
        for stream in self._streams:
            stream.abort()

    def fail(self, error: SglangLiteError) -> None:
        """End what still runs at once, with `error` as its last word."""
        self.abort()
        for stream in self._streams:
            stream.put(error)

    def __enter__(self) -> Job:
        if self.id in self.service.jobs:
            raise InvalidRequest(
                f"`rid` {self.id[:200]!r} is in use by an open request.", param="rid"
            )
        self.service.jobs[self.id] = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del self.service.jobs[self.id]
        self.abort()


def new_id(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex}"


async def merge(sources: Sequence[AsyncIterator[T]]) -> AsyncGenerator[tuple[int, T], None]:
    """What any of `sources` yields, as it comes, with the number of its source.

    The first error of any source ends them all.
    """
    queue: asyncio.Queue[tuple[int, T] | Exception | None] = asyncio.Queue()

    async def pump(index: int, source: AsyncIterator[T]) -> None:
        try:
            async for item in source:
                queue.put_nowait((index, item))
            queue.put_nowait(None)
        except Exception as error:  # noqa: BLE001 - raised again by whoever reads the queue
            queue.put_nowait(error)

    tasks = [asyncio.ensure_future(pump(*each)) for each in enumerate(sources)]
    try:
        left = len(tasks)
        while left:
            got = await queue.get()
            if isinstance(got, Exception):
                raise got
            if got is None:
                left -= 1
            else:
                yield got
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _shown(number: int) -> str:
    """`number`, shortened when it has more digits than anybody wants to read."""
    return str(number) if abs(number) < 10**20 else f"{number:.3e}"[:20]
