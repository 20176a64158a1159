"""Programs on a server of ours, over HTTP: `/generate` with ids in and ids out."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import httpx
import msgspec

from sglang_lite.errors import InvalidRequest, RuntimeUnavailable
from sglang_lite.global_config import global_config
from sglang_lite.lang.backends.encoder import Encoder, common
from sglang_lite.lang.backends.json_api import JsonApi, close_with
from sglang_lite.lang.backends.logprobs import with_texts
from sglang_lite.lang.backends.protocol import Ask, Part
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
    takes_hints = False
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
        rows, alone, ids = [], [], []
        usage = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}
        first = self.tokenizer.bos_token_id
        context = [self.tokenizer.eos_token_ids[0] if first is None else first]
        for choice in choices:
            whole = self.encode(prompt.add(choice))
            start = common(base, whole)
            row, meta = await self._score(whole, start)
            rows.append(row)
            ids.append(whole[start:])
            usage["prompt_tokens"] += len(whole)
            usage["cached_tokens"] += meta["cached_tokens"]
            if unconditional:
                alone.append((await self._score(context + whole[start:], 1))[0])
        return Scores(rows, alone if unconditional else None, usage, ids)

    def end_program(self, program: int) -> None:
        """Nothing was said about it."""

    async def cache_prefix(self, text: str) -> None:
        """Nothing to do: the runtime shares when it plans."""

    async def _score(self, ids: list[int], start: int) -> tuple[list[float], dict[str, Any]]:
        answer = await self._api.post(
            "/generate",
            {
                "input_ids": ids,
                "sampling_params": {"max_new_tokens": 0, "temperature": 0},
                "return_logprob": True,
                "logprob_start_len": start,
            },
        )
        meta = answer["meta_info"]
        return [x[0] for x in meta["input_token_logprobs"] if x[0] is not None], meta

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
        info: dict[str, Any] = response.json()
        return info

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
        shared_loop().run(self._api.close())


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
