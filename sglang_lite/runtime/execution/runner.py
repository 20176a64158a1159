"""The model at work: what a batch says is computed, and what was drawn is read back.

The runner knows tensors and slots. It does not know requests, prefixes or policies: everything it
needs of them is in the `Batch`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sglang_lite.config import Resolved
from sglang_lite.kernels.linear import best
from sglang_lite.kernels.protocol import Geometry, attention, linear
from sglang_lite.runtime.execution.sampler import Draw, Sampler
from sglang_lite.runtime.execution.threads import Threads
from sglang_lite.runtime.model.config import read_config
from sglang_lite.runtime.model.decoder import Decoder, Writes
from sglang_lite.runtime.model.loader import Checkpoint
from sglang_lite.runtime.scheduling.batch import Batch, Int, Sampled, Scoring

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SCORED_ROWS = 64  # rows of [rows, vocab] at once


class ModelRunner:
    """A model, its KV pool, and the little it remembers of each slot between steps.

    Raises:
        ModelFileError: the weights in `folder` cannot be used.
        InvalidConfig: no such attention backend.
    """

    def __init__(self, resolved: Resolved, folder: str | Path) -> None:
        torch.set_num_threads(resolved.threads)
        self._threads = _adaptive(resolved)
        self.device = resolved.device
        self.computed_tokens = 0
        config = read_config(folder)
        dtype = DTYPES[resolved.dtype]
        fixed = resolved.config.deterministic
        backend = resolved.config.attention_backend
        if backend == "auto":
            backend = "fixed" if fixed else "segments"
        page_size = resolved.page_size
        geometry = Geometry(config.heads, config.kv_heads, config.head_dim, page_size)
        self.attention = attention(backend)(geometry, self.device)
        self.vocab_size = config.vocab
        with torch.inference_mode():
            self.model = Decoder(
                config,
                Checkpoint(folder),
                linear("fixed" if fixed else best(dtype, self.device)),
                positions=resolved.context_length,
                dtype=dtype,
                device=self.device,
            )
            slots = (resolved.num_pages + 1) * page_size
            shape = (config.layers, slots, 2, config.kv_heads, config.head_dim)
            self.cache = _zeros(shape, dtype, self.device)
            rows = resolved.max_running_requests
            self.last_token = torch.zeros(rows, dtype=torch.long, device=self.device)
            self.sampler = Sampler(rows, config.vocab, self.device)
        self._hidden: dict[int, Tensor] = {}

    @torch.inference_mode()
    def forward(self, batch: Batch) -> None:
        """Write the KV of every token and keep the hidden states that `sample` will want."""
        if self._threads is not None:
            self._threads.adapt(time.monotonic())
        tokens = self._index(batch.tokens)
        if (batch.tokens < 0).any():
            last = self.last_token[self._index(batch.slot[batch.row_of_token])]
            tokens = torch.where(tokens < 0, last, tokens)
        copies = len(batch.copy_from) > 0
        writes = Writes(
            self._index(batch.write),
            self._index(batch.copy_from) if copies else None,
            self._index(batch.copy_to) if copies else None,
        )
        wanted = _wanted(batch)
        self._hidden[batch.seq] = self.model.forward(
            tokens,
            self._index(batch.positions),
            self._index(wanted) if len(wanted) < len(batch.tokens) else None,
            self.cache,
            writes,
            self.attention,
            self.attention.plan(batch),
        )
        self.computed_tokens += len(batch.tokens)

    @torch.inference_mode()
    def sample(self, batch: Batch) -> Launched:
        """Draw and score what `batch` asks for, after its `forward`."""
        hidden = self._hidden.pop(batch.seq)
        wanted = _wanted(batch)
        slot = batch.slot[batch.sampling.row]
        self.sampler.enter(batch.entering, batch.slot)
        draw = None
        if len(slot):
            rows = self._index(np.searchsorted(wanted, batch.sampling.at))
            draw = self.sampler.draw(self.model.logits(hidden[rows]), batch.sampling, slot)
            self.last_token[self._index(slot)] = draw.tokens
        scores = self._scores(hidden, np.searchsorted(wanted, batch.scoring.at), batch.scoring)
        return Launched(draw, scores)

    def _scores(
        self, hidden: Tensor, rows: NDArray[np.intp], scoring: Scoring
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logprob of each target, and of the likeliest ids."""
        widest = int(scoring.logprobs.max(initial=0))
        parts = []
        for begin in range(0, len(rows), SCORED_ROWS):
            some = slice(begin, begin + SCORED_ROWS)
            logprobs = self.model.logits(hidden[self._index(rows[some])]).log_softmax(-1)
            target = self._index(scoring.target[some])
            top, ids = logprobs.topk(widest)
            parts.append((logprobs.gather(1, target[:, None])[:, 0], ids, top))
        if not parts:
            nothing = torch.empty(0)
            return nothing, torch.empty((0, 0), dtype=torch.long), torch.empty((0, 0))
        scores, ids, top = (torch.cat(part) for part in zip(*parts, strict=True))
        return scores, ids, top

    def _index(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.device, non_blocking=True)


def _adaptive(resolved: Resolved) -> Threads | None:
    """What adapts the number of threads; nothing, where it is chosen, or shows in the results."""
    config = resolved.config
    if resolved.device != "cpu" or config.threads is not None or config.deterministic:
        return None
    return Threads(resolved.threads, torch.set_num_threads)


class Launched:
    """Results on their way to the host."""

    def __init__(self, draw: Draw | None, scores: tuple[Tensor, Tensor, Tensor]) -> None:
        self._draw = None if draw is None else Draw(*(_to_host(part) for part in draw))
        self._scores = tuple(_to_host(part) for part in scores)
        self._done = None
        if (draw is not None and draw.tokens.is_cuda) or scores[0].is_cuda:
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record()

    def wait(self) -> Sampled:
        if self._done is not None:
            self._done.synchronize()
        scores, score_ids, score_top = (part.numpy() for part in self._scores)
        after = {
            "scores": scores,
            "score_top_ids": score_ids.astype(np.int32),
            "score_top_logprobs": score_top,
        }
        if self._draw is None:
            nothing: Int = np.empty(0, np.int32)
            return Sampled(nothing, np.empty(0, np.bool_), np.empty(0, np.float32), **after)
        draw = self._draw
        return Sampled(
            tokens=draw.tokens.numpy().astype(np.int32),
            ok=draw.ok.numpy(),
            logprobs=draw.logprobs.numpy(),
            top_ids=draw.top_ids.numpy().astype(np.int32),
            top_logprobs=draw.top_logprobs.numpy(),
            **after,
        )


def _wanted(batch: Batch) -> Int:
    """The tokens, in order, whose logits somebody asks for."""
    wanted: Int = np.unique(np.concatenate([batch.sampling.at, batch.scoring.at]))
    return wanted


def _to_host(x: Tensor) -> Tensor:
    return x.to("cpu", non_blocking=True)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    """Zeros that, on the CPU, take memory only once they are written."""
    if device != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    same_size = np.dtype(f"u{dtype.itemsize}")
    return torch.from_numpy(
        np.zeros(shape, same_size).view(np.int16 if dtype.itemsize == 2 else np.int32)
    ).view(dtype)
