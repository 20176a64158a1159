"""One request as its caller sees it: chunks while it runs, a completion at its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from sglang_lite.errors import SglangLiteError
from sglang_lite.runtime.detokenize import Detokenizer
from sglang_lite.wire import Finish, TopLogprobs


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one step added to a request. `text` may lag behind `ids`: see `Detokenizer`."""

    ids: list[int]
    text: str
    logprobs: list[float] | None = None  # one for each id, if asked for
    top: list[TopLogprobs] | None = None  # one for each id, if asked for
    scores: list[float] = field(default_factory=list)  # prompt logprobs that became known
    score_top: list[TopLogprobs] = field(default_factory=list)
    finish: Finish | None = None  # on the last chunk


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer.

    `kept_ids` and `tail` are what to continue from: the ids wholly before the cut, then the bytes
    that remain of the token the cut goes through.
    """

    text: str
    ids: list[int]
    kept_ids: list[int]
    tail: bytes
    logprobs: list[float] | None
    top: list[TopLogprobs] | None
    scores: list[float]  # of the prompt's tokens from max(logits_from, 1) on
    score_top: list[TopLogprobs]
    finish: Finish
    prompt_tokens: int

    @property
    def cached_tokens(self) -> int:
        return self.finish.cached_tokens


class Stream:
    """An async iterator of chunks. Iterate once, or await `completion()`.

    Raises, when iterated: the request's error, with its status, as its last word.
    """

    def __init__(
        self, id: int, prompt_tokens: int, text: Detokenizer, abort: Callable[[int], None]
    ) -> None:
        self.id, self.prompt_tokens = id, prompt_tokens
        self.text = text
        self._abort = abort
        self._queue: asyncio.Queue[Chunk | SglangLiteError] = asyncio.Queue()
        self._ended = False  # the last word was read

    def put(self, item: Chunk | SglangLiteError) -> None:
        """The client's side: a chunk, or the error that ends the stream."""
        self._queue.put_nowait(item)

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[Chunk]:
        try:
            while not self._ended:
                item = await self._queue.get()
                self._ended = isinstance(item, SglangLiteError) or item.finish is not None
                if isinstance(item, SglangLiteError):
                    raise item
                yield item
        finally:
            self.abort()  # whoever stops listening, by break, cancellation or error

    async def completion(self) -> Completion:
        """Wait for the end and return the whole."""
        return self.collect([chunk async for chunk in self])

    def collect(self, chunks: Sequence[Chunk]) -> Completion:
        """The whole of all the stream's chunks."""
        finish = chunks[-1].finish
        assert finish is not None
        logprobs = [x for chunk in chunks for x in chunk.logprobs or ()]
        top = [x for chunk in chunks for x in chunk.top or ()]
        return Completion(
            text="".join(chunk.text for chunk in chunks),
            ids=self.text.ids,
            kept_ids=self.text.kept_ids,
            tail=self.text.tail,
            logprobs=logprobs if any(chunk.logprobs is not None for chunk in chunks) else None,
            top=top if any(chunk.top is not None for chunk in chunks) else None,
            scores=[x for chunk in chunks for x in chunk.scores],
            score_top=[x for chunk in chunks for x in chunk.score_top],
            finish=finish,
            prompt_tokens=self.prompt_tokens,
        )

    def abort(self) -> None:
        """Ask the runtime to stop; harmless when the request has ended."""
        if not self._ended:
            self._abort(self.id)

    async def aclose(self) -> None:
        """Stop listening: the request is aborted and nothing more is read."""
        self.abort()
        self._ended = True
