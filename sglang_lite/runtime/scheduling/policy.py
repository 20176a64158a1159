"""In which order a client's waiting requests are tried.

A policy is a pure function from the oldest waiting requests and what is cached of each to that
order. It need not be fair: `queues.py` sees to it that nobody waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from sglang_lite.runtime.scheduling.request import Request
from sglang_lite.seeds import derive_seed

Cached = Callable[[Request], int]
Policy = Callable[[Sequence[Request], Cached], list[Request]]


def fcfs(waiting: Sequence[Request], cached: Cached) -> list[Request]:
    """First come, first served."""
    return list(waiting)


def lpm(waiting: Sequence[Request], cached: Cached) -> list[Request]:
    """Longest prefix match first: what is cached is used before it is evicted."""
    return sorted(waiting, key=lambda request: -cached(request))  # stable: then by arrival


def dfs(waiting: Sequence[Request], cached: Cached) -> list[Request]:
    """Depth first through the tree of waiting prompts: a subtree is finished before another
    begins. At a fork a branch that has begun (some of it is cached) goes first, then the one
    with the most requests."""
    texts = {request: (request.namespace, request.tokens.tobytes()) for request in waiting}
    ordered = sorted(waiting, key=texts.__getitem__)  # neighbours share the most
    shared = [
        _common(one, other) if texts[one][0] == texts[other][0] else -1
        for one, other in pairwise(ordered)
    ]
    return _depth_first(ordered, shared, cached)


def priority(waiting: Sequence[Request], cached: Cached) -> list[Request]:
    """The highest `priority` of the hints first."""
    return sorted(waiting, key=lambda request: -request.hint.priority)  # stable: then by arrival


def random(waiting: Sequence[Request], cached: Cached) -> list[Request]:
    """A shuffled order, the same each time: what an order is worth is measured against it."""
    return sorted(waiting, key=lambda request: derive_seed(request.arrival))


POLICIES: dict[str, Policy] = {
    "lpm": lpm,
    "fcfs": fcfs,
    "dfs": dfs,
    "priority": priority,
    "random": random,
}


def _depth_first(ordered: list[Request], shared: list[int], cached: Cached) -> list[Request]:
    """`ordered`, of which neighbours have `shared` leading tokens, a branch after another."""
    if len(ordered) < 2:
        return ordered
    trunk = min(shared)
    cuts = [0, *(at for at, each in enumerate(shared, 1) if each == trunk), len(ordered)]

    def place(branch: tuple[int, int]) -> tuple[bool, int, int]:
        members = ordered[slice(*branch)]
        begun = any(cached(request) > max(trunk, 0) for request in members)
        return not begun, -len(members), min(request.arrival for request in members)

    return [
        request
        for begin, end in sorted(pairwise(cuts), key=place)
        for request in _depth_first(ordered[begin:end], shared[begin : end - 1], cached)
    ]


def _common(one: Request, other: Request) -> int:
    """How many leading tokens are equal."""
    size = min(one.known, other.known)
    differ = np.flatnonzero(one.ids[:size] != other.ids[:size])
    return int(differ[0]) if differ.size else size
