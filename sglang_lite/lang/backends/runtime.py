"""Programs on a runtime of ours: in a process it starts, or behind a ZeroMQ address.

Token-exact: a prompt is sent as the ids that were generated and the ids of the literals between
them; nothing that a model wrote is ever encoded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sglang_lite.config import EngineConfig
from sglang_lite.errors import InvalidConfig
from sglang_lite.global_config import global_config
from sglang_lite.lang.backends.encoder import Encoder, common
from sglang_lite.lang.backends.logprobs import with_texts
from sglang_lite.lang.backends.protocol import Ask, Part
from sglang_lite.lang.backends.scoring import Asked, rows_of, shares, start_of
from sglang_lite.lang.choices import Scores
from sglang_lite.lang.model_template import ModelTemplate
from sglang_lite.lang.prompt import Generated, Prompt
from sglang_lite.lang.templates import Templated, get_chat_template
from sglang_lite.loop import shared_loop
from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.answers import logprobs_of, meta_of, meta_together, prompt_logprobs
from sglang_lite.runtime.client import Client, Completion
from sglang_lite.runtime.launch import start_worker

if TYPE_CHECKING:
    from sglang_lite.lang.backends.http import HttpBackend

log = logging.getLogger(__name__)

MOST_ASKED = 2048  # gens and selects at a time: a runtime's queue is bounded as well
MOST_REMEMBERED = 4096  # options whose logprobs without a prompt are kept
CONNECT_SECONDS = 10.0
SCORE = SamplingParams(max_tokens=0, temperature=0.0)


class ClientBackend(Templated):
    """A backend around a connected client, which lives in the shared loop.

    Args:
        chat_template_name: a template by name, in place of the model's own.
    """

    wants_prefix = False  # sharing happens when batches are planned: nothing is sent ahead
    takes_hints = True
    speculates = False
    continues = True
    scores_alone = True

    def __init__(self, client: Client, chat_template_name: str | None = None) -> None:
        self.client = client
        self._room = asyncio.Semaphore(MOST_ASKED)
        self._alone: OrderedDict[tuple[int, ...], list[float]] = OrderedDict()
        self.encode = Encoder(client.tokenizer)
        own = ModelTemplate(client.tokenizer.render_chat, _rewritten)
        self.chat_template = chat_template_name or own
        self.prompts: list[list[int]] | None = None  # set to a list to record what is sent

    async def generate(self, ask: Ask) -> AsyncIterator[Part]:
        async with self._room, aclosing(self._generate(ask)) as parts:
            async for part in parts:
                yield part

    async def _generate(self, ask: Ask) -> AsyncGenerator[Part, None]:
        ids = self._ids(ask.prompt)
        streams = self.client.submit_n(
            ids,
            ask.params,
            ask.n,
            constraint=ask.constraint,
            hint=ask.hint,
            logits_from=_logits_from(ask),
            skip_special_tokens=global_config.skip_special_tokens_in_output,
        )
        try:
            if ask.n > 1:
                done = [await stream.completion() for stream in streams]
                metas = [
                    self._meta(stream.id, ids, each, ask)
                    for stream, each in zip(streams, done, strict=True)
                ]
                yield Part(samples=tuple(map(_generated, done)), meta=meta_together(metas))
                return
            chunks = []
            async for chunk in streams[0]:
                chunks.append(chunk)
                if chunk.text:
                    out = streams[0].text.ids
                    yield Part(chunk.text, meta=meta_of(streams[0].id, len(ids), out, chunk.finish))
            whole = streams[0].collect(chunks)
            meta = self._meta(streams[0].id, ids, whole, ask)
            yield Part(samples=(_generated(whole),), meta=meta)
        finally:
            for stream in streams:
                await stream.aclose()

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        unconditional: bool,
        hint: Hint | None = None,
    ) -> Scores:
        base = self.encode(prompt)
        wholes = [self._ids(prompt.add(choice)) for choice in choices]
        asked = [Asked(whole, common(base, whole)) for whole in wholes]
        async with self._room:
            ids = [each.ids[each.start :] for each in asked]
            if not unconditional:
                rows, usage = await self._score(asked, hint)
                return Scores(rows, None, usage, ids)
            (rows, usage), alone = await asyncio.gather(
                self._score(asked, hint), self._score_alone(asked)
            )
        return Scores(rows, alone, usage, ids)

    def end_program(self, program: int) -> None:
        self.client.end_program(program)

    async def cache_prefix(self, text: str) -> None:
        """Compute `text` now. Programs do not need it, for they share when they are planned."""
        stream = self.client.submit(self.encode(Prompt().add(text)), SCORE)
        try:
            await stream.completion()
        finally:
            await stream.aclose()

    def get_server_info(self) -> dict[str, Any]:
        """Numbers of the runtime: rows, pages by owner, cached and computed tokens."""
        return shared_loop().run(self.client.ask("stats"))

    def flush_cache(self) -> bool:
        """Forget every cached page; False while requests are running."""
        return bool(shared_loop().run(self.client.ask("flush"))["flushed"])

    async def _score(
        self, asked: Sequence[Asked], hint: Hint | None
    ) -> tuple[list[list[float]], dict[str, int]]:
        """The logprobs of each text from its start on; what texts share is asked for once."""
        plan = shares(asked)
        streams = {
            at: self.client.submit(ids, SCORE, logits_from=first, hint=hint)
            for at, ((ids, _), (first, _)) in enumerate(zip(asked, plan, strict=True))
            if first < len(ids)
        }
        try:
            done = {at: await stream.completion() for at, stream in streams.items()}
        finally:
            for stream in streams.values():
                await stream.aclose()
        usage = {
            "prompt_tokens": sum(len(asked[at].ids) for at in done),
            "cached_tokens": sum(each.cached_tokens for each in done.values()),
            "completion_tokens": 0,
        }
        scored = [done[at].scores if at in done else [] for at in range(len(asked))]
        return rows_of(asked, plan, scored), usage

    async def _score_alone(self, asked: Sequence[Asked]) -> list[list[float]]:
        """The same without the prompt; known from before where the options are those of before."""
        context = start_of(self.client.tokenizer)
        options = [tuple(ids[start:]) for ids, start in asked]
        new = list(dict.fromkeys(each for each in options if each not in self._alone))
        rows, _ = await self._score([Asked([*context, *each], 1) for each in new], None)
        known = {each: self._alone[each] for each in options if each in self._alone}
        known |= zip(new, rows, strict=True)
        self._alone |= known
        while len(self._alone) > MOST_REMEMBERED:
            self._alone.popitem(last=False)
        return [known[each] for each in options]

    def _meta(self, id: int, ids: Sequence[int], done: Completion, ask: Ask) -> dict[str, Any]:
        meta = meta_of(id, len(ids), done.ids, done.finish)
        if done.logprobs is None:
            return meta
        meta |= logprobs_of(done.ids, done.logprobs, done.top or [])
        if (start := _logits_from(ask)) is not None:
            meta |= prompt_logprobs(ids, done.scores, start)
        return with_texts(meta, self.client.tokenizer) if ask.logprob_text else meta

    def _ids(self, prompt: Prompt) -> list[int]:
        ids = self.encode(prompt)
        if self.prompts is not None:
            self.prompts.append(ids)
        return ids


class Runtime(ClientBackend):
    """A runtime in a process of its own. `shutdown()` ends it, and so does the end of ours.

    Args:
        model: a known name, a hub id, a folder or a .gguf file.
        model_path: SGLang's name for `model`.
        options: the fields of `EngineConfig`.
        chat_template_name: a template by name, in place of the model's own.
        core: "module:function" that builds the core, in place of the one around a real model.

    Raises:
        InvalidConfig: an option, the device or the memory does not allow it.
    """

    def __init__(
        self,
        model: str = "smollm2",
        *,
        model_path: str | None = None,
        chat_template_name: str | None = None,
        core: str | None = None,
        **options: Any,
    ) -> None:
        if chat_template_name is not None:
            get_chat_template(chat_template_name)  # a wrong name fails before the model loads
        config = EngineConfig.of({"model": model_path or model, **options})
        self._worker = start_worker(config, core=core)
        try:
            process = self._worker.process
            connecting = Client.connect(self._worker.address, process=process)
            super().__init__(shared_loop().run(connecting), chat_template_name)
        except BaseException:
            self._worker.stop()
            raise
        self.address = self._worker.address

    def shutdown(self) -> None:
        """End the runtime; a second call does nothing."""
        shared_loop().run(self.client.close())
        self._worker.stop()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()


def RuntimeEndpoint(  # noqa: N802 - SGLang's name for it
    base_url: str,
    api_key: str | None = None,
    verify: str | None = None,
    chat_template_name: str | None = None,
) -> HttpBackend | ClientBackend:
    """A runtime that runs elsewhere: `ipc://` for ZeroMQ, `http://` or `https://` for a server.

    Args:
        api_key: sent to an HTTP server, for what stands in front of it.
        verify: a file of certificates to trust.
        chat_template_name: a template by name, in place of the model's own.

    Raises:
        RuntimeUnavailable: nobody answers there.
        InvalidConfig: an address of another kind, or no template has this name.
    """
    if not isinstance(base_url, str):
        raise InvalidConfig(f"an address is a text such as http://host:port, not {base_url!r}.")
    if base_url.startswith(("http://", "https://")):
        from sglang_lite.lang.backends.http import HttpBackend

        return HttpBackend(base_url, chat_template_name, api_key=api_key, verify=verify)
    connecting = Client.connect(base_url, timeout=CONNECT_SECONDS)
    return ClientBackend(shared_loop().run(connecting), chat_template_name)


def _logits_from(ask: Ask) -> int | None:
    start = ask.logprob_start
    wanted = ask.params.logprobs is not None and start is not None and start >= 0
    return start if wanted else None


def _generated(done: Completion) -> Generated:
    return Generated(done.text, tuple(done.kept_ids), done.tail)


def _rewritten(before: str, after: str) -> None:
    log.warning(
        "the chat template does not continue the conversation it rendered before; it is rendered "
        "afresh, and the KV of generated text is lost (%d characters before, %d now)",
        len(before),
        len(after),
    )
