"""Seeded workloads as token ids, and the fewest tokens that must be computed for each.

W1 few-shot, W2 agents, W3 tree of thought, W4 nothing shared, W5 one stream. The requests of a
phase are submitted at once, phases one after another. Greedy, EOS ignored: every engine does the
same work.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

VOCAB = 40_000  # ids below it are plain words in every vocabulary of interest
FIRST = 300


@dataclass(frozen=True)
class Ask:
    prompt: list[int]
    max_new: int


Phases = list[list[Ask]]


def _words(draw: random.Random, count: int) -> list[int]:
    return [draw.randrange(FIRST, VOCAB) for _ in range(count)]


def few_shot(draw: random.Random) -> Phases:
    shared = _words(draw, 1000)
    return [[Ask(shared + _words(draw, 60), 4) for _ in range(64)]]


def agents(draw: random.Random) -> Phases:
    system = _words(draw, 800)
    texts = [system + _words(draw, 60) for _ in range(12)]
    phases = []
    for _ in range(5):
        phases.append([Ask(list(text), 48) for text in texts])
        texts = [text + _words(draw, 128) for text in texts]
    return phases


def tree_of_thought(draw: random.Random) -> Phases:
    head = _words(draw, 600)
    branches, leaves = [], []
    for _ in range(8):
        problem = head + _words(draw, 200)
        for _ in range(8):
            branch = problem + _words(draw, 20)
            branches.append(Ask(branch, 32))
            thought = branch + _words(draw, 32)
            leaves += [Ask(thought + _words(draw, 16), 32) for _ in range(4)]
    return [branches, leaves]


def nothing_shared(draw: random.Random) -> Phases:
    return [[Ask(_words(draw, 256), 128) for _ in range(48)]]


def one_stream(draw: random.Random) -> Phases:
    return [[Ask(_words(draw, 128), 256)]]


WORKLOADS: dict[str, Callable[[random.Random], Phases]] = {
    "W1": few_shot,
    "W2": agents,
    "W3": tree_of_thought,
    "W4": nothing_shared,
    "W5": one_stream,
}


def make(name: str, seed: int = 20251201) -> Phases:
    return WORKLOADS[name](random.Random(f"{name}:{seed}"))


def distinct_tokens(prompts: Iterable[list[int]]) -> int:
    """Tokens that a perfect prefix tree computes: nodes of a trie of the prompts."""
    trie: dict[int, dict] = {}  # type: ignore[type-arg]
    count = 0
    for prompt in prompts:
        node = trie
        for token in prompt:
            if token not in node:
                node[token] = {}
                count += 1
            node = node[token]
    return count
