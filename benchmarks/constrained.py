"""Runs constrained requests on a core and keeps what came out of each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cache

from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.model.hub import open_model
from sglang_lite.runtime.tokenizer import Tokenizer
from sglang_lite.wire import Finish, Submit, pack

CLIENT = b"benchmark"


@dataclass(frozen=True)
class Ask:
    prompt: str
    params: SamplingParams
    constraint: Constraint | None = None


@dataclass
class Answer:
    ids: list[int] = field(default_factory=list)
    finish: Finish | None = None
    error: str = ""
    text: str = ""


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.load(open_model("smollm2").folder)


def run(core: EngineCore, asked: list[Ask]) -> list[Answer]:
    """Submit all, as fast as they are compiled, and step to the end; a refused one has an error."""
    spell = tokenizer()
    answers = {id: Answer() for id in range(len(asked))}
    base = time.monotonic_ns()
    waiting = list(enumerate(asked))[::-1]
    while waiting or not core.idle:
        while waiting and core.stats()["grammars_compiling"] < 32:
            id, ask = waiting.pop()
            tokens = pack(spell.encode(ask.prompt))
            core.submit(CLIENT, Submit(base + id, tokens, ask.params, ask.constraint))
        if core.stalled:
            time.sleep(0.0005)
        for output in core.step().values():
            at = 0
            for id, count in zip(output.ids, output.counts, strict=True):
                answers[id - base].ids += output.tokens[at : at + count]
                at += count
            for id, finish in output.finishes.items():
                answers[id - base].finish = finish
            for id, _, reason, _ in output.failures:
                answers[id - base].error = reason
    for answer in answers.values():
        kept = [id for id in answer.ids if id not in spell.special_ids]
        answer.text = spell.decode(kept)
    return list(answers.values())
