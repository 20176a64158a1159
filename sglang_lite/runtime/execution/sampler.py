"""From logits to tokens: penalties, bias, grammar, temperature, filters, noise.

Every step works on the rows that ask for it, and what comes out for a row does not depend on the
others. Logprobs are those of the model itself: before all of these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sglang_lite.params import GREEDY_BELOW
from sglang_lite.runtime.execution import noise
from sglang_lite.runtime.scheduling.batch import Allowed, Entering, Int, Sampling

CANDIDATES = (64, 1024)  # how many of the likeliest are sorted before all are


class Draw(NamedTuple):
    tokens: Tensor  # [M] int64
    ok: Tensor  # [M]
    logprobs: Tensor  # [M]
    top_ids: Tensor  # [M, widest]
    top_logprobs: Tensor


class Sampler:
    """Draws one token for each row, and remembers what penalised requests have said."""

    def __init__(self, slots: int, vocab: int, device: str) -> None:
        self.slots, self.vocab, self.device = slots, vocab, device
        self._all_ids = torch.arange(vocab, dtype=torch.int32, device=device)
        self._said: Tensor | None = None  # [slots, vocab] how often each token was generated
        self._seen: Tensor | None = None  # [slots, vocab] whether it is in prompt or output

    def enter(self, entering: Entering, slot: Int) -> None:
        """Take in what requests that need penalties have seen before this step."""
        if not len(entering.row):
            return
        said, seen = self._memory()
        for index, row in enumerate(entering.row.tolist()):
            tokens = entering.tokens[entering.indptr[index] : entering.indptr[index + 1]]
            ids = self._index(tokens)
            output = ids[int(entering.prompt_length[index]) :]
            place = int(slot[row])
            said[place] = 0
            said[place].index_add_(0, output, torch.ones_like(output, dtype=said.dtype))
            seen[place] = False
            seen[place, ids] = True

    def draw(self, logits: Tensor, sampling: Sampling, slot: Int) -> Draw:
        """One token for each row of `logits`, which is used up. `slot` is that of each row."""
        ok = logits.sum(1).isfinite()  # one value that is not finite makes the sum so
        asked = np.flatnonzero(sampling.logprobs >= 0)
        raw = logits[self._index(asked)].log_softmax(-1) if len(asked) else None
        self._penalise(logits, sampling, slot)
        if len(sampling.bias_row):
            where = self._index(sampling.bias_row), self._index(sampling.bias_id)
            logits.index_put_(where, self._float(sampling.bias), accumulate=True)
        self._mask(logits, sampling.allowed)
        tokens = self._choose(logits, sampling, self._few(sampling.allowed))
        self._remember(tokens, sampling, slot)
        return Draw(tokens, ok, *self._report(raw, asked, tokens, sampling))

    def _mask(self, logits: Tensor, allowed: Allowed) -> None:
        """Leave only what the masks allow; rows without one do not pay."""
        if not len(allowed.row):
            return
        bits = ~allowed.bits.view(np.uint8)
        out = np.unpackbits(bits, axis=1, count=self.vocab, bitorder="little").view(np.bool_)
        banned = torch.from_numpy(out).to(self.device)
        if len(allowed.row) == len(logits):
            logits.masked_fill_(banned, float("-inf"))
        else:
            rows = self._index(allowed.row)
            logits[rows] = logits[rows].masked_fill_(banned, float("-inf"))

    def _few(self, allowed: Allowed) -> dict[int, Tensor]:
        """Row -> the only ids it may draw, where they are listed."""
        bounds = allowed.few_indptr
        return {
            row: torch.from_numpy(allowed.few_ids[bounds[at] : bounds[at + 1]]).to(self.device)
            for at, row in enumerate(allowed.few_row.tolist())
        }

    def _choose(self, logits: Tensor, sampling: Sampling, few: dict[int, Tensor]) -> Tensor:
        greedy = (sampling.temperature < GREEDY_BELOW) | (sampling.top_k == 1)
        if greedy.any():
            tokens = _argmax(logits)
        else:
            tokens = torch.zeros(len(logits), dtype=torch.long, device=self.device)
        for row, ids in few.items():
            if greedy[row]:
                tokens[row] = ids[_argmax(logits[row, ids])]
        key = torch.from_numpy(noise.keys(sampling.seed, sampling.position)).to(self.device)
        # A row at a time: its intermediate values stay in the processor's cache.
        for row in np.flatnonzero(~greedy).tolist():
            ids = few.get(row, self._all_ids)
            scaled = (logits[row, ids] if row in few else logits[row]) / float(
                sampling.temperature[row]
            )
            top_k, top_p = int(sampling.top_k[row]), float(sampling.top_p[row])
            kept, ids = _filtered(scaled, ids, top_k, top_p)
            if sampling.min_p[row] > 0:
                floor = kept.max() + float(np.log(sampling.min_p[row]))
                kept = kept.masked_fill(kept < floor, float("-inf"))
            tokens[row] = ids[_argmax(noise.gumbel(key[row], ids).add_(kept))]
        return tokens

    def _report(
        self, raw: Tensor | None, asked: NDArray[np.intp], tokens: Tensor, sampling: Sampling
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logprobs of the drawn tokens, and of the likeliest, where asked for."""
        count = len(tokens)
        widest = int(sampling.logprobs.max(initial=0))
        logprobs = torch.full((count,), float("nan"), device=tokens.device)
        ids = torch.zeros((count, widest), dtype=torch.long, device=tokens.device)
        top = torch.full((count, widest), float("nan"), device=tokens.device)
        if raw is not None:
            rows = self._index(asked)
            logprobs[rows] = raw.gather(1, tokens[rows, None])[:, 0]
            if widest:
                top[rows], ids[rows] = raw.topk(widest)
        return logprobs, ids, top

    def _penalise(self, logits: Tensor, sampling: Sampling, slot: Int) -> None:
        rows = _penalised(sampling)
        if not len(rows):
            return
        said, seen = self._memory()
        where, places = self._index(rows), self._index(slot[rows])
        x, said_here = logits[where], said[places]
        repetition = self._float(sampling.repetition[rows])[:, None]
        x = torch.where(seen[places], torch.where(x > 0, x / repetition, x * repetition), x)
        x -= self._float(sampling.frequency[rows])[:, None] * said_here
        x -= self._float(sampling.presence[rows])[:, None] * (said_here > 0)
        logits[where] = x

    def _remember(self, tokens: Tensor, sampling: Sampling, slot: Int) -> None:
        rows = _penalised(sampling)
        if len(rows):
            said, seen = self._memory()
            places, drawn = self._index(slot[rows]), tokens[self._index(rows)]
            said[places, drawn] += 1
            seen[places, drawn] = True

    def _memory(self) -> tuple[Tensor, Tensor]:
        """Made by the first request with a penalty; most runtimes never see one."""
        if self._said is None or self._seen is None:
            size = (self.slots, self.vocab)
            self._said = torch.zeros(size, dtype=torch.int32, device=self.device)
            self._seen = torch.zeros(size, dtype=torch.bool, device=self.device)
        return self._said, self._seen

    def _index(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.device)

    def _float(self, values: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.device)


def _filtered(scaled: Tensor, ids: Tensor, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """The logits of one row that top-k and then top-p leave, and the `ids` they belong to."""
    size = len(ids)
    limit = min(top_k, size)
    if limit == size and top_p >= 1:
        return scaled, ids
    whole = None if limit < size else scaled.logsumexp(0)
    for count in CANDIDATES:
        enough = limit <= count
        if count >= size or (limit < size and not enough):
            continue
        values, at = scaled.topk(count)
        values = values[:limit]
        keep = _reaching(values, whole, top_p)
        if enough or keep < count:  # else these few do not reach top-p
            return values[:keep], ids[at[:keep]]
    values = _sorted(scaled)[:limit]
    floor = values[_reaching(values, whole, top_p) - 1]
    return scaled.masked_fill(scaled < floor, float("-inf")), ids


def _penalised(sampling: Sampling) -> NDArray[np.intp]:
    return np.flatnonzero(
        (sampling.frequency != 0) | (sampling.presence != 0) | (sampling.repetition != 1)
    )


def _reaching(values: Tensor, whole: Tensor | None, top_p: float) -> int:
    """How many of the sorted `values` it takes to reach `top_p` of `whole` (None: of them all)."""
    total = values.logsumexp(0) if whole is None else whole
    share = (values - total).exp()
    before = share.cumsum(0, dtype=torch.float64) - share
    return max(1, int((before < top_p).sum()))


def _argmax(x: Tensor) -> Tensor:
    """Over the last dimension; of equals the first."""
    if x.is_cuda:
        return x.argmax(-1)
    # NumPy's is ten times as fast as PyTorch's on the CPU; so is its sort.
    return torch.from_numpy(np.asarray(x.numpy().argmax(-1)))


def _sorted(x: Tensor) -> Tensor:
    """Largest first."""
    if x.is_cuda:
        return x.sort(descending=True).values
    return torch.from_numpy(np.sort(x.numpy())[::-1].copy())
