"""Programs on a server of ours, over HTTP: `/generate` with ids in and ids out."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from itertools import chain
from typing import Any

import httpx
import msgspec

from sglang_lite.errors import InvalidRequest, RuntimeUnavailable, SglangLiteError
from sglang_lite.global_config import global_config
from sglang_lite.lang.backends.encoder import Encoder, common
from sglang_lite.lang.backends.json_api import JsonApi, close_with
from sglang_lite.lang.backends.logprobs import with_texts
from sglang_lite.lang.backends.protocol import Ask, Part
from sglang_lite.lang.backends.scoring import Asked, rows_of, shares, start_of
from sglang_lite.lang.choices import Scores
from sglang_lite.lang.model_template import ModelTemplate
from sglang_lite.lang.prompt import Generated, Prompt
from sglang_lite.lang.templates import Templated
from sglang_lite.loop import shared_loop
from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.answers import meta_together
from sglang_lite.runtime.constraints import say
from sglang_lite.runtime.detokenize import Detokenizer
from sglang_lite.runtime.scheduling.finish import StopStrings
from sglang_lite.runtime.tokenizer import Tokenizer
from sglang_lite.wire import Finish, FinishReason

AT_ONCE = 64  # texts that are scored by one HTTP request


class _Info(msgspec.Struct):
    """What we need of what a server says of its model."""

    model_path: str
    takes_hints: bool = False


class HttpBackend(Templated):
    """The tokenizer is read from the model's folder, so the server runs on this machine.

    Args:
        chat_template_name: a template by name, in place of the model's own.
        api_key: sent with every request, for what stands in front of the server.
        verify: a file of certificates to trust.

    Raises:
        RuntimeUnavailable: nobody answers at `address`.
    """

    wants_prefix = False
    speculates = False
    continues = True
    scores_alone = False

    def __init__(
        self,
        address: str,
        chat_template_name: str | None = None,
        *,
        api_key: str | None = None,
        verify: str | None = None,
    ) -> None:
        self.address = address.rstrip("/")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        trusted: Any = ssl.create_default_context(cafile=verify) if verify else True
        self.model_info = self._info(headers, trusted)
        self.takes_hints = self.model_info["takes_hints"]
        self._programs = secrets.randbits(62)  # where ours begin: others number theirs, too
        self._words: set[asyncio.Task[Any]] = set()  # that nobody waits for
        self.tokenizer = _tokenizer(self.model_info["model_path"])
        self.encode = Encoder(self.tokenizer)
        self.chat_template = chat_template_name or ModelTemplate(self.tokenizer.render_chat)
        self._api = JsonApi(self.address, headers=headers, verify=trusted)
        close_with(self, self._api, shared_loop())

    async def generate(self, ask: Ask) -> AsyncIterator[Part]:
        params, n = ask.params, ask.n
        sampling = {**_sampling(params, n), **say(ask.constraint)}
        body = {
            "input_ids": self.encode(ask.prompt),
            "sampling_params": sampling,
            **_logprobs(ask),
            **self._hinted(ask.hint),
        }
        if n > 1:
            answers = await self._api.post("/generate", body)
            samples = tuple(self._generated(answer, params) for answer in answers)
            meta = meta_together([self._meta(answer, ask) for answer in answers])
            yield Part(samples=samples, meta=meta)
            return
        seen, last = 0, None
        async with aclosing(self._api.stream("/generate", {**body, "stream": True})) as events:
            async for last in events:
                if last["text"][seen:]:
                    yield Part(last["text"][seen:], meta=last["meta_info"])
                    seen = len(last["text"])
        if last is None:
            raise RuntimeUnavailable(f"{self.address} sent an empty stream.")
        yield Part(samples=(self._generated(last, params),), meta=self._meta(last, ask))

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        unconditional: bool,
        hint: Hint | None = None,
    ) -> Scores:
        base = self.encode(prompt)
        wholes = [self.encode(prompt.add(choice)) for choice in choices]
        asked = [Asked(whole, common(base, whole)) for whole in wholes]
        ids = [each.ids[each.start :] for each in asked]
        if not unconditional:
            rows, usage = await self._score(asked, hint)
            return Scores(rows, None, usage, ids)
        context = start_of(self.tokenizer)
        (rows, usage), (alone, _) = await asyncio.gather(
            self._score(asked, hint),
            self._score([Asked([*context, *each], 1) for each in ids], None),
        )
        return Scores(rows, alone, usage, ids)

    def end_program(self, program: int) -> None:
        async def say() -> None:
            with suppress(SglangLiteError):  # a server that is gone retains nothing
                await self._api.post("/end_program", {"program": self._programs + program})

        word = asyncio.ensure_future(say())
        self._words.add(word)
        word.add_done_callback(self._words.discard)

    async def cache_prefix(self, text: str) -> None:
        """Nothing to do: the runtime shares when it plans."""

    async def _score(
        self, asked: Sequence[Asked], hint: Hint | None
    ) -> tuple[list[list[float]], dict[str, int]]:
        """The logprobs of each text from its start on; what texts share is asked for once."""
        plan = shares(asked)
        sent = [at for at, (ids, _) in enumerate(asked) if plan[at].first < len(ids)]
        texts = [(asked[at].ids, plan[at].first) for at in sent]
        work = [
            self._scored(texts[begin : begin + AT_ONCE], hint)
            for begin in range(0, len(texts), AT_ONCE)
        ]
        metas = dict(zip(sent, chain.from_iterable(await asyncio.gather(*work)), strict=True))
        scored = [
            [logprob for logprob, *_ in metas[at]["input_token_logprobs"] if logprob is not None]
            if at in metas
            else []
            for at in range(len(asked))
        ]
        usage = {
            "prompt_tokens": sum(len(asked[at].ids) for at in sent),
            "cached_tokens": sum(meta["cached_tokens"] for meta in metas.values()),
            "completion_tokens": 0,
        }
        return rows_of(asked, plan, scored), usage

    async def _scored(
        self, texts: Sequence[tuple[list[int], int]], hint: Hint | None
    ) -> list[dict[str, Any]]:
        """Of each text what the server says, with logprobs from the position given on."""
        body = {
            "input_ids": [ids for ids, _ in texts],
            "logprob_start_len": [first for _, first in texts],
            "sampling_params": {"max_new_tokens": 0, "temperature": 0},
            "return_logprob": True,
            **self._hinted(hint),
        }
        return [answer["meta_info"] for answer in await self._api.post("/generate", body)]

    def _hinted(self, hint: Hint | None) -> dict[str, Any]:
        if hint is None:
            return {}
        said = {name: value for name, value in msgspec.structs.asdict(hint).items() if value}
        return {"hint": {**said, "program": self._programs + hint.program}}

    def _meta(self, answer: dict[str, Any], ask: Ask) -> dict[str, Any]:
        meta: dict[str, Any] = answer["meta_info"]
        return with_texts(meta, self.tokenizer) if ask.logprob_text else meta

    def _generated(self, answer: dict[str, Any], params: SamplingParams) -> Generated:
        """What to continue from: the server names the stop; where it cuts is found here again."""
        ids, reason = answer["output_ids"], answer["meta_info"]["finish_reason"] or {}
        table, matched = self.tokenizer.token_bytes, reason.get("matched")
        cut = 0
        if isinstance(matched, str):
            stops = StopStrings(params.stop)
            found = [stops.feed(table[id]) for id in ids][-1]
            cut = found[1] if found else 0
        elif matched is not None:
            cut = len(table[ids[-1]])
        skip = global_config.skip_special_tokens_in_output
        text = Detokenizer(self.tokenizer, (), skip_special=skip, trim=True)
        shown = text.feed(ids, Finish(FinishReason.STOP, matched, cut))
        return Generated(shown, tuple(text.kept_ids), text.tail)

    def _info(self, headers: dict[str, str], trusted: Any) -> dict[str, Any]:
        url = f"{self.address}/get_model_info"
        try:
            response = httpx.get(url, headers=headers, verify=trusted, timeout=10)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise RuntimeUnavailable(f"no runtime answers at {self.address}: {error}") from error
        try:
            info = msgspec.json.decode(response.content, type=_Info)
        except msgspec.MsgspecError as error:
            said = response.text[:200]
            message = f"{self.address} is no server of ours ({error}); {url} says: {said!r}"
            raise RuntimeUnavailable(message) from error
        return msgspec.structs.asdict(info)

    def get_model_name(self) -> str:
        """The folder of the model, as the server tells it."""
        return str(self.model_info["model_path"])

    def get_server_info(self) -> dict[str, Any]:
        """Numbers of the runtime: rows, pages by owner, cached and computed tokens."""
        info: dict[str, Any] = shared_loop().run(self._api.get("/get_server_info"))
        return info

    def flush_cache(self) -> bool:
        """Forget every cached page; False while requests are running."""
        try:
            shared_loop().run(self._api.post("/flush_cache", {}))
        except InvalidRequest:
            return False
        return True

    def shutdown(self) -> None:
        """Close the connections; the server goes on."""

        async def close() -> None:
            await asyncio.gather(*self._words)
            await self._api.close()

        shared_loop().run(close())


def _tokenizer(folder: str) -> Any:
    if folder:
        return Tokenizer.load(folder)
    from sglang_lite.testing import ByteTokenizer  # a fake runtime: it has no files

    return ByteTokenizer()


def _sampling(params: SamplingParams, n: int) -> dict[str, Any]:
    """The parameters under SGLang's names; logprobs are asked for beside them."""
    fields = msgspec.structs.asdict(params)
    fields.pop("logprobs")
    fields["max_new_tokens"] = fields.pop("max_tokens")
    fields["min_new_tokens"] = fields.pop("min_tokens")
    fields["stop"], fields["stop_token_ids"] = list(params.stop), list(params.stop_token_ids)
    fields["skip_special_tokens"] = global_config.skip_special_tokens_in_output
    return {**{k: v for k, v in fields.items() if v is not None}, "n": n}


def _logprobs(ask: Ask) -> dict[str, Any]:
    if ask.params.logprobs is None:
        return {}
    start = {} if ask.logprob_start is None else {"logprob_start_len": ask.logprob_start}
    return {"return_logprob": True, "top_logprobs_num": ask.params.logprobs, **start}
