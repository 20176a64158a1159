"""Programs on any endpoint that speaks OpenAI's API: theirs, or a server of one's own.

Text in and text out: what a model wrote is sent back as text, and encoded anew over there. What
goes beyond OpenAI's API is sent only to servers that are known to have it. See docs/backends.md.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from sglang_lite.errors import InvalidConfig, SglangLiteError, Unsupported
from sglang_lite.lang.backends import openai_bodies as bodies
from sglang_lite.lang.backends.json_api import JsonApi, close_with
from sglang_lite.lang.backends.openai_answers import Answer, TokenUsage, usage_of
from sglang_lite.lang.backends.openai_bodies import DIALECTS, Dialect
from sglang_lite.lang.backends.openai_scores import Echo, scores_of
from sglang_lite.lang.backends.protocol import Ask, Part
from sglang_lite.lang.choices import Scores
from sglang_lite.lang.prompt import Prompt
from sglang_lite.lang.templates import Template, Templated, get_chat_template_by_model_path
from sglang_lite.loop import shared_loop
from sglang_lite.params import Hint

log = logging.getLogger(__name__)

OPENAI_URL = "https://api.openai.com/v1"
COMPLETION_MODELS = ("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002")
OWNERS: dict[Any, Dialect] = {"vllm": "vllm", "sglang": "sglang", "sglang_lite": "sglang_lite"}
TIMEOUT = 600.0


class OpenAI(Templated):
    """A model behind OpenAI's API.

    Args:
        model_name: what requests give as `model`.
        is_chat_model: chat completions or completions; None: by the name, and of a name that
            tells nothing, chat.
        chat_template: of completion models, which turns a program's turns into text: a name or a
            template; None: by the model's name. For a chat model it is only what `text()` shows.
        is_azure: of SGLang's interface; such an endpoint is reached by its `base_url`.
        base_url: of the endpoint; None: OPENAI_BASE_URL, else OpenAI's.
        api_key: None: OPENAI_API_KEY.
        timeout: seconds in which something must arrive.
        max_retries: of requests that were refused for now (429, 5xx) or not taken.
        dialect: what the server has beyond OpenAI's API: "openai" (nothing), "vllm", "sglang" or
            "sglang_lite"; None: it is asked who owns its models, when that first matters.
        continue_final_message: whether a chat endpoint continues a turn that has text; None: if
            its dialect is known to.
        stream: receive answers as they grow; False for servers without `stream_options`.
        default_headers: sent with every request.

    Raises:
        InvalidConfig: OpenAI's own endpoint without a key, or an unknown dialect.
    """

    wants_prefix = False
    takes_hints = False
    speculates = True
    scores_alone = False

    def __init__(
        self,
        model_name: str,
        is_chat_model: bool | None = None,
        chat_template: Any = None,
        is_azure: bool = False,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        max_retries: int = 3,
        dialect: Dialect | None = None,
        continue_final_message: bool | None = None,
        stream: bool = True,
        default_headers: Mapping[str, str] | None = None,
    ) -> None:
        if is_azure:
            raise Unsupported(
                "is_azure is not available; give Azure's own URL with its v1 API: "
                "OpenAI(base_url='https://RESOURCE.openai.azure.com/openai/v1', api_key=...).",
                param="is_azure",
            )
        if dialect is not None and dialect not in DIALECTS:
            raise InvalidConfig(f"dialect is one of {', '.join(DIALECTS)}, not {dialect!r}.")
        self.model_name = model_name
        self.is_chat_model = (
            model_name not in COMPLETION_MODELS if is_chat_model is None else is_chat_model
        )
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self._theirs = urlsplit(self.base_url).hostname == urlsplit(OPENAI_URL).hostname
        self._dialect: Dialect | None = "openai" if self._theirs else dialect
        self._continue, self._stream = continue_final_message, stream
        self.chat_template = chat_template or self._usual_template()
        self.token_usage = TokenUsage()
        self._api = JsonApi(
            self.base_url,
            headers={**self._key(api_key), **(default_headers or {})},
            timeout=timeout,
            max_retries=max_retries,
        )
        close_with(self, self._api, shared_loop())

    def _usual_template(self) -> Template:
        return get_chat_template_by_model_path("" if self.is_chat_model else self.model_name)

    @property
    def continues(self) -> bool:
        """Whether a gen may stand after any text: always on a completion model."""
        return bool(self._continue) or not self.is_chat_model

    async def generate(self, ask: Ask) -> AsyncIterator[Part]:
        path = "/chat/completions" if self.is_chat_model else "/completions"
        body = await (self._chat(ask) if self.is_chat_model else self._completion(ask))
        answer = Answer(self.base_url, ask.n)
        if ask.n > 1 or not self._stream:
            text = answer.take(await self._api.post(path, body))
            yield self._counted(answer.end(text if ask.n == 1 else ""))
            return
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        async with aclosing(self._api.stream(path, body)) as events:
            async for event in events:
                if text := answer.take(event):
                    yield Part(text)
        yield self._counted(answer.end())

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        unconditional: bool,
        hint: Hint | None = None,
    ) -> Scores:
        """Logprobs of the choices, which the server echoes with the prompt.

        Raises:
            Unsupported: a chat model, OpenAI's own endpoint, or a server that does not echo.
        """
        if self.is_chat_model or self._theirs:
            what = "a chat model tells no likelihoods of given texts"
            if not self.is_chat_model:
                what = "OpenAI's completions no longer tell the likelihoods of given texts"
            raise Unsupported(
                f"select: {what}. Use gen(regex='(this|that)') where the server holds constraints, "
                "or a completion model of a server that echoes logprobs (sglang_lite, vLLM, "
                "SGLang: OpenAI(is_chat_model=False, base_url=...)).",
                param="choices",
            )
        return await scores_of(self._echo, prompt.text, choices, unconditional)

    def end_program(self, program: int) -> None:
        """Nothing was said about it."""

    async def cache_prefix(self, text: str) -> None:
        """Nothing to do: this API has no word for it, and its servers share as they please."""

    def shutdown(self) -> None:
        """Close the connections."""
        shared_loop().run(self._api.close())

    def _counted(self, part: Part) -> Part:
        self.token_usage.add(part.meta)
        return part

    # -------------------------------------------------------------- bodies

    async def _chat(self, ask: Ask) -> dict[str, Any]:
        messages, begun = bodies.turns(ask, self.template)
        body = await self._common(ask, chat=True)
        if begun:
            if not await self._continues_turns():
                raise bodies.refuse_to_continue()
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        most = "max_completion_tokens" if self._theirs else "max_tokens"
        logprobs = bodies.chat_logprobs(ask.params.logprobs)
        return {**body, "messages": messages, most: ask.params.max_tokens, **logprobs}

    async def _completion(self, ask: Ask) -> dict[str, Any]:
        body = await self._common(ask, chat=False)
        body |= {"prompt": ask.prompt.text, "max_tokens": ask.params.max_tokens}
        if ask.params.logprobs is not None:
            body["logprobs"] = ask.params.logprobs
        return body

    async def _common(self, ask: Ask, *, chat: bool) -> dict[str, Any]:
        if ask.logprob_start is not None:
            raise Unsupported(
                "logprob_start_len: OpenAI's API has no logprobs of a part of the prompt; leave it "
                "out, or use sglang_lite's RuntimeEndpoint.",
                param="logprob_start_len",
            )
        dialect = await self._known() if bodies.needs_dialect(ask) else "openai"
        return {
            "model": self.model_name,
            **bodies.sampling(ask.params, ask.n, dialect),
            **bodies.constrained(ask.constraint, dialect, chat),
        }

    async def _echo(self, texts: Sequence[str]) -> tuple[list[Echo], dict[str, int]]:
        body = {"model": self.model_name, "prompt": list(texts), "echo": True, "logprobs": 1}
        answer = await self._api.post("/completions", {**body, "max_tokens": 0, "temperature": 0.0})
        return Echo.read(self.base_url, answer, len(texts)), usage_of(answer.get("usage") or {})

    # -------------------------------------------------------------- who answers

    async def _known(self) -> Dialect:
        if self._dialect is None:
            try:
                listed = await self._api.get("/models")
                owner = listed["data"][0]["owned_by"]
            except (SglangLiteError, LookupError, TypeError) as error:
                log.info("%s does not say whose its models are: %r", self.base_url, error)
                owner = None
            self._dialect = OWNERS.get(owner, "openai")
        return self._dialect

    async def _continues_turns(self) -> bool:
        if self._continue is None:
            return await self._known() != "openai"
        return self._continue

    def _key(self, given: str | None) -> dict[str, str]:
        key = given or os.environ.get("OPENAI_API_KEY")
        if key is None and self._theirs:
            raise InvalidConfig(
                "no key for OpenAI's endpoint: set OPENAI_API_KEY, or give api_key=... (or "
                "base_url=... of a server that needs none)."
            )
        return {"Authorization": f"Bearer {key}"} if key else {}
