"""What is around each program here: a model to run on, and a line about what that took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sglang_lite as sgl
from sglang_lite.lang.backends.default import as_backend

States = Sequence[sgl.ProgramState]


def main(solve: Callable[[Any], States], show: Callable[[States], None]) -> None:
    """Run the programs, print what they say, and what they took."""
    with some_backend() as backend:
        states = solve(backend)
        show(states)
        print(usage(states))


@contextmanager
def some_backend() -> Iterator[Any]:
    """The backend that was set (by `sglang-lite run --model ...`), else the embedded model."""
    try:
        backend = as_backend(None)
    except sgl.InvalidRequest:
        with sgl.Runtime(model="smollm2") as runtime:
            yield runtime
    else:
        yield backend


def usage(states: States) -> str:
    """How many tokens of all prompts were found in the cache."""
    for state in states:
        state.sync()
    prompt = sum(state.usage["prompt_tokens"] for state in states)
    cached = sum(state.usage["cached_tokens"] for state in states)
    rate = cached / max(1, prompt)
    return f"{prompt:,} prompt tokens, {cached:,} of them cached: hit rate {rate:.1%}"
