"""Fakes to test programs, servers and the runtime itself without weights, files or a GPU.

* `ScriptedBackend` answers a program's gens from a list or a function.
* `ByteTokenizer` has a token for each byte, and needs no files.
* `FakeRunner` stands where the model does and notices every misplaced key.
* `fake_core` builds a whole runtime from the last two; a worker started with it serves HTTP and
  ZeroMQ like a real one.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Collection, Iterable, Sequence
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from sglang_lite.config import EngineConfig, Machine, ModelFacts, resolve
from sglang_lite.errors import InvalidRequest
from sglang_lite.lang.backends.scripted import ScriptedBackend
from sglang_lite.runtime.build import assemble_core
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.scheduling.batch import Allowed, Batch, Int, Sampled
from sglang_lite.wire import ModelInfo

__all__ = ["ByteTokenizer", "FakeRunner", "ScriptedBackend", "fake_core"]

BOS, EOS = 256, 257
START = 0xCBF29CE484222325


def extend(state: int, token: int) -> int:
    """The state of a text that is one token longer (FNV-1a)."""
    return ((state ^ (token + 1)) * 0x100000001B3) % 2**64


def draw(
    state: int,
    alphabet: Sequence[int],
    banned: Iterable[int] = (),
    only: Collection[int] | None = None,
) -> int:
    """The token that follows a text in this state: a function of the whole text.

    `only`: what a grammar allows; of the alphabet if anything of it is among these.
    """
    out = set(banned)
    if only is not None:
        alphabet = [token for token in alphabet if token in only] or sorted(only)
    allowed = [token for token in alphabet if token not in out] or list(alphabet)
    return allowed[(state >> 33) % len(allowed)]


class ByteTokenizer:
    """Ids 0 to 255 are bytes, 256 begins a text and 257 ends it. The chat template is ChatML's."""

    vocab_size = 258
    bos_token_id = BOS
    add_bos = True
    eos_token_ids = (EOS,)
    special_ids = frozenset({BOS, EOS})
    token_bytes: Sequence[bytes] = (*(bytes([i]) for i in range(256)), b"<s>", b"</s>")

    def encode(self, text: str, *, add_bos: bool = True) -> list[int]:
        return [BOS] * add_bos + list(text.encode())

    def encode_as_text(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        decoder = self.decoder(skip_special_tokens=skip_special_tokens)
        return decoder.feed(ids) + decoder.flush()

    def decoder(self, *, skip_special_tokens: bool = True) -> ByteDecoder:
        return ByteDecoder(skip_special_tokens)

    def render_chat(
        self,
        messages: Sequence[dict[str, object]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **options: object,
    ) -> str:
        if not messages:
            raise InvalidRequest("`messages` is empty.", param="messages")
        turns = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages]
        text = "".join(turns)
        if continue_final_message:
            return text[: -len("<|im_end|>\n")]
        return text + ("<|im_start|>assistant\n" if add_generation_prompt else "")


class ByteDecoder:
    """Bytes to text, a whole character at a time."""

    def __init__(self, skip_special_tokens: bool) -> None:
        self._skip = skip_special_tokens
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Sequence[int]) -> str:
        shown = (i for i in ids if not (self._skip and i in ByteTokenizer.special_ids))
        return self._utf8.decode(b"".join(ByteTokenizer.token_bytes[i] for i in shown))

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


class FakeRunner:
    """A runner without a model. The next token is a hash of the whole text.

    The "KV" of a token is the hash of the text up to it. A row reads all of it back through its
    segments, so a page given to the wrong row, too early or twice, raises AssertionError here.
    """

    def __init__(
        self,
        page_size: int,
        alphabet: Sequence[int],
        *,
        delay: float = 0.0,
        fail_at: Iterable[int] = (),
        nan_at: Iterable[int] = (),
    ) -> None:
        self.page_size, self.alphabet, self.delay = page_size, alphabet, delay
        self.fail_at, self.nan_at = set(fail_at), set(nan_at)
        self.kv: dict[int, int] = {}  # slot -> state of the text that ends there
        self.last_token: dict[int, int] = {}  # request slot -> its latest draw
        self.computed_tokens = 0
        self._states: list[list[int]] = []  # of the latest batch: row -> state after each token

    def forward(self, batch: Batch) -> None:
        if self.delay:
            time.sleep(self.delay)
        if batch.seq in self.fail_at:
            raise RuntimeError("this launch was told to fail")
        self.computed_tokens += len(batch.tokens)
        self._states, at = [], 0
        for row in range(batch.rows):
            self._copy(batch)  # what earlier rows of this batch wrote may be copied for this one
            start, length = int(batch.start[row]), int(batch.length[row])
            read = self._slots(batch, row)
            assert len(read) == start + length, f"row {row} reads {len(read)} positions"
            state = self.kv[read[start - 1]] if start else START
            states = []
            for token, slot in zip(
                batch.tokens[at : at + length].tolist(),
                batch.write[at : at + length].tolist(),
                strict=True,
            ):
                if token < 0:
                    token = self.last_token[int(batch.slot[row])]
                state = extend(state, token)
                states.append(state)
                if slot:
                    self.kv[slot] = state
            self._states.append(states)
            at += length
        self._copy(batch)
        for row in range(batch.rows):
            start = int(batch.start[row])
            own = [self.kv.get(slot) for slot in self._slots(batch, row)[start:]]
            assert own == self._states[row], f"row {row} reads foreign keys"

    def sample(self, batch: Batch) -> _Ready:
        sampling, scoring = batch.sampling, batch.scoring
        flat = [state for states in self._states for state in states]
        tokens = []
        allowed = allowed_ids(sampling.allowed)
        for index, at in enumerate(sampling.at.tolist()):
            mine = (sampling.bias_row == index) & np.isneginf(sampling.bias)
            banned, only = sampling.bias_id[mine].tolist(), allowed.get(index)
            tokens.append(draw(flat[at], self.alphabet, banned, only))
            self.last_token[int(batch.slot[sampling.row[index]])] = tokens[-1]
        widest = max([0, *sampling.logprobs.tolist()])
        score_widest = max([0, *scoring.logprobs.tolist()])
        ok = np.full(len(tokens), batch.seq not in self.nan_at)
        scores = [
            score(flat[at], t)
            for at, t in zip(scoring.at.tolist(), scoring.target.tolist(), strict=True)
        ]
        return _Ready(
            Sampled(
                tokens=np.array(tokens, np.int32),
                ok=ok,
                logprobs=np.array(
                    [
                        score(flat[at], t)
                        for at, t in zip(sampling.at.tolist(), tokens, strict=True)
                    ],
                    np.float32,
                ),
                top_ids=np.tile(np.arange(widest, dtype=np.int32), (len(tokens), 1)),
                top_logprobs=np.full((len(tokens), widest), -1.0, np.float32),
                scores=np.array(scores, np.float32),
                score_top_ids=np.tile(np.arange(score_widest, dtype=np.int32), (len(scores), 1)),
                score_top_logprobs=np.full((len(scores), score_widest), -1.0, np.float32),
            )
        )

    def _copy(self, batch: Batch) -> None:
        for source, target in zip(batch.copy_from.tolist(), batch.copy_to.tolist(), strict=True):
            if source in self.kv:
                self.kv[target] = self.kv[source]

    def _slots(self, batch: Batch, row: int) -> list[int]:
        """KV slots of the row's positions, in order, as its segments name them."""
        segments, runs = batch.segments, []
        for run in range(len(segments.first)):
            readers = segments.readers[
                segments.reader_indptr[run] : segments.reader_indptr[run + 1]
            ]
            if row in readers:
                pages = segments.pages[segments.indptr[run] : segments.indptr[run + 1]]
                assert 0 not in pages, "page 0 belongs to nobody"
                slots: Int = (pages[:, None] * self.page_size + np.arange(self.page_size)).ravel()
                begin = int(segments.first[run])
                skip = begin % self.page_size
                runs.append((begin, slots[skip : skip + int(segments.length[run])].tolist()))
        out: list[int] = []
        for begin, slots_of_run in sorted(runs, key=lambda each: each[0]):
            assert begin == len(out), f"row {row} misses or repeats positions at {len(out)}"
            out += slots_of_run
        return out


def allowed_ids(allowed: Allowed) -> dict[int, set[int]]:
    """Row -> the ids it may draw, of the rows that are constrained."""
    found = {}
    for row, bits in zip(allowed.row.tolist(), allowed.bits, strict=True):
        each = np.unpackbits(bits.view(np.uint8), bitorder="little")
        found[row] = set(np.flatnonzero(each).tolist())
    for at, row in enumerate(allowed.few_row.tolist()):
        ids = allowed.few_ids[allowed.few_indptr[at] : allowed.few_indptr[at + 1]]
        found[row] = set(ids.tolist())
    return found


class _Ready:
    def __init__(self, sampled: Sampled) -> None:
        self._sampled = sampled

    def wait(self) -> Sampled:
        return self._sampled


def score(state: int, token: int) -> float:
    """A made-up logprob of `token` after a text in this state."""
    return -(extend(state, token) % 997 + 1) / 997


def fake_core(config: EngineConfig) -> tuple[EngineCore, ModelInfo]:
    """A runtime around `FakeRunner`, serving a model named "fake".

    `config.model` may carry options: "fake?delay=0.05&fail_at=3&eos=0": seconds each step takes,
    the launch that fails, whether texts ever end by themselves.
    """
    options = dict(parse_qsl(urlsplit(config.model).query))
    tokenizer = ByteTokenizer()
    facts = ModelFacts(context_length=4096, parameters=0, kv_elements_per_token=1)
    machine = Machine(device="cpu", free_bytes=1 << 20, cores=1, fast_bfloat16=False)
    resolved = resolve(config, facts, machine)
    letters = list(b"abcdefghijklmnopqrstuvwxyz     ")
    runner = FakeRunner(
        resolved.page_size,
        letters if options.get("eos") == "0" else [*letters, EOS],
        delay=float(options.get("delay", 0)),
        fail_at=[int(at) for at in options.get("fail_at", "").split(",") if at],
    )
    info = ModelInfo(
        name=config.served_model_name or "fake",
        folder="",
        vocab_size=tokenizer.vocab_size,
        context_length=resolved.context_length,
        eos_token_ids=tokenizer.eos_token_ids,
        page_size=resolved.page_size,
        max_total_tokens=resolved.max_total_tokens,
    )
    return assemble_core(resolved, runner, info, tokenizer), info
