"""`Engine`: a runtime inside this process, with SGLang's offline interface.

The same worker loop and the same client as everywhere, over `inproc://`: no second path for
stops, errors or detokenizing.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Any

from sglang_lite.config import EngineConfig
from sglang_lite.errors import InvalidRequest
from sglang_lite.loop import shared_loop
from sglang_lite.params import SamplingParams
from sglang_lite.runtime.answers import answer, stream_answers
from sglang_lite.runtime.client import Client
from sglang_lite.runtime.sglang_names import Sampling, read_sampling
from sglang_lite.runtime.transport import router
from sglang_lite.runtime.worker import DEFAULT_CORE, Worker, load_builder

_numbers = itertools.count(1)

Answer = dict[str, Any]
Params = dict[str, Any] | SamplingParams | None


class Engine:
    """A model in this process. Close it with `shutdown()` or use it in a `with` statement.

    Args:
        model: a known name, a hub id, a folder or a .gguf file.
        options: the fields of `EngineConfig`.
        core: "module:function" that builds the core, in place of the one around a real model.

    Raises:
        InvalidConfig: an option, the device or the memory does not allow it.
    """

    def __init__(
        self,
        model: str = "smollm2",
        *,
        model_path: str | None = None,
        core: str = DEFAULT_CORE,
        **options: Any,
    ) -> None:
        config = EngineConfig.of({"model": model_path or model, **options})
        self._built, info = load_builder(core)(config)
        self.address = f"inproc://sglang-lite-{next(_numbers)}"
        self._worker = Worker(self._built, info, router(self.address))
        self._thread = _WorkerThread(self._worker)
        self._thread.start()
        self.loop = shared_loop()
        self.client: Client = self.loop.run(Client.connect(self.address, process=self._thread))
        self.tokenizer = self.client.tokenizer

    def generate(
        self,
        prompt: str | Sequence[str] | None = None,
        sampling_params: Params | Sequence[Params] = None,
        *,
        input_ids: Sequence[int] | Sequence[Sequence[int]] | None = None,
        return_logprob: bool = False,
        logprob_start_len: int = -1,
        top_logprobs_num: int = 0,
        stream: bool = False,
    ) -> Any:
        """Answers to one prompt (a dict) or to several (a list), or an iterator of one's growth.

        Args:
            prompt: text, or a list of texts; or give `input_ids`, token ids, instead.
            sampling_params: SGLang's names in a dict, or `SamplingParams`; one, or one for each.
            logprob_start_len: first prompt position whose logprob is reported; -1: none.

        Raises:
            InvalidRequest: a prompt or a parameter is at fault.
            RuntimeUnavailable: the engine was shut down or has failed.
        """
        if stream:
            return self.loop.iterate(
                self._stream(
                    prompt, sampling_params, input_ids, return_logprob, logprob_start_len,
                    top_logprobs_num,
                )
            )  # fmt: skip
        return self.loop.run(
            self._generate(
                prompt, sampling_params, input_ids, return_logprob, logprob_start_len,
                top_logprobs_num,
            )
        )  # fmt: skip

    async def async_generate(
        self,
        prompt: str | Sequence[str] | None = None,
        sampling_params: Params | Sequence[Params] = None,
        *,
        input_ids: Sequence[int] | Sequence[Sequence[int]] | None = None,
        return_logprob: bool = False,
        logprob_start_len: int = -1,
        top_logprobs_num: int = 0,
        stream: bool = False,
    ) -> Any:
        """`generate` for a caller in an event loop; with `stream`, an async iterator."""
        asked = (
            prompt, sampling_params, input_ids, return_logprob, logprob_start_len, top_logprobs_num
        )  # fmt: skip
        if stream:
            return self.loop.iterate_here(self._stream(*asked))
        return await self.loop.await_here(self._generate(*asked))

    def as_language_backend(self) -> Any:
        """This engine as a backend of the language."""
        from sglang_lite.lang.backends.runtime import ClientBackend

        return ClientBackend(self.client)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text)
        return ids

    def get_server_info(self) -> dict[str, Any]:
        """Numbers of the runtime: rows, pages by owner, cached and computed tokens."""
        return self.loop.run(self.client.ask("stats"))

    def flush_cache(self) -> bool:
        """Forget every cached page; False while requests are running."""
        return bool(self.loop.run(self.client.ask("flush"))["flushed"])

    def shutdown(self) -> None:
        """End the engine; a second call does nothing."""
        if self._thread.is_alive():
            self.loop.run(self.client.close())
            self._worker.stopping.set()
            self._thread.join()
            # Weights and KV are held by cycles: without this, until some later collection.
            del self._built, self._worker
            gc.collect()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    # -------------------------------------------------------------- inside

    async def _generate(
        self, prompt: Any, sampling: Any, input_ids: Any, logprob: bool, start: int, top: int
    ) -> Any:
        prompts, single = self._prompts(prompt, input_ids)
        each = sampling if isinstance(sampling, (list, tuple)) else [sampling] * len(prompts)
        if len(each) != len(prompts):
            raise InvalidRequest(
                f"{len(prompts)} prompts need as many `sampling_params`, got {len(each)}.",
                param="sampling_params",
            )
        asked = [
            answer(self.client, ids, _sampling(given, logprob, top), start if logprob else -1)
            for ids, given in zip(prompts, each, strict=True)
        ]
        groups = await asyncio.gather(*asked)
        if single:
            return groups[0] if len(groups[0]) > 1 else groups[0][0]
        return [one for group in groups for one in group]

    async def _stream(
        self, prompt: Any, sampling: Any, input_ids: Any, logprob: bool, start: int, top: int
    ) -> AsyncIterator[Answer]:
        prompts, single = self._prompts(prompt, input_ids)
        if not single:
            raise InvalidRequest("a stream answers one prompt.", param="prompt")
        settings = _sampling(sampling, logprob, top)
        async for part in stream_answers(self.client, prompts[0], settings, start):
            yield part

    def _prompts(self, prompt: Any, input_ids: Any) -> tuple[list[Sequence[int]], bool]:
        """Every prompt's ids, and whether the caller gave a single one."""
        if (prompt is None) == (input_ids is None):
            raise InvalidRequest("give either `prompt` or `input_ids`.", param="prompt")
        if input_ids is not None:
            single = not input_ids or isinstance(input_ids[0], int)
            return ([input_ids], True) if single else (list(input_ids), False)
        if isinstance(prompt, str):
            return [self.encode(prompt)], True
        return [self.encode(text) for text in prompt], False


class _WorkerThread(threading.Thread):
    """The worker's loop in a thread that can be polled like a process."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(name="sglang-lite runtime", daemon=True)
        self._worker = worker
        self._status: int | None = None

    def run(self) -> None:
        try:
            self._worker.run()
            self._status = 0
        except Exception:  # noqa: BLE001 - everybody has been told; the status says the rest
            self._status = 1
        del self._worker

    def poll(self) -> int | None:
        return self._status


def _sampling(given: Params, logprob: bool, top: int) -> Sampling:
    if isinstance(given, SamplingParams):
        return Sampling(given)
    return read_sampling(given, **({"logprobs": top} if logprob else {}))
