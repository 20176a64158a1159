"""Three programs on the embedded model, with the radix cache and without it.

    make demo            or        sglang-lite run examples/demo.py

A few-shot batch of 32 questions, a judge with six branches, and an agent with a calculator. Prints
what they answer, then what was computed and what could have been saved at best.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import agent
import few_shot
import judge
from rich.console import Console
from rich.table import Table

import sglang_lite as sgl

console = Console()


@sgl.function
def greet(s: Any) -> None:
    s += sgl.user("In one short sentence, what is a prefix?")
    s += sgl.assistant(sgl.gen("sentence", max_tokens=24, stop="\n", temperature=0))


@dataclass
class Cost:
    """What one run of all programs took."""

    prompt: int
    computed: int
    optimum: int
    seconds: float


def run(cached: bool) -> Cost:
    with sgl.Runtime(model="smollm2", disable_radix_cache=not cached) as runtime:
        runtime.prompts = []
        begin = time.perf_counter()
        if cached:
            for piece in greet.run(backend=runtime, stream=True).text_iter("sentence"):
                print(piece, end="", flush=True)
            print("\n")
        else:
            greet.run(backend=runtime).sync()
        answers(runtime, shown=cached)
        seconds = time.perf_counter() - begin
        info = runtime.get_server_info()
        return Cost(
            prompt=sum(map(len, runtime.prompts)),
            computed=info["computed_prompt_tokens"],
            optimum=distinct_tokens(runtime.prompts),
            seconds=seconds,
        )


def answers(backend: Any, *, shown: bool) -> None:
    """Run the three programs, and read what they say: reading waits for it."""
    for program in (few_shot, judge, agent):
        states = program.solve(backend)
        if shown:
            console.print(f"[bold]{program.__name__}[/]")
            program.show(states)
        for state in states:
            state.sync()


def distinct_tokens(prompts: Iterable[list[int]]) -> int:
    """Nodes of a trie of the prompts: what a cache that forgets nothing has to compute."""
    trie: dict[int, Any] = {}
    count = 0
    for prompt in prompts:
        node = trie
        for token in prompt:
            if token not in node:
                node[token] = {}
                count += 1
            node = node[token]
    return count


def main() -> None:
    costs = {"on": run(cached=True), "off": run(cached=False)}
    table = Table("radix cache", "prompt", "cached", "computed", "optimum", "hit rate", "seconds")
    for name, cost in costs.items():
        saved = cost.prompt - cost.computed
        table.add_row(
            name,
            f"{cost.prompt:,}",
            f"{saved:,}",
            f"{cost.computed:,}",
            f"{cost.optimum:,}",
            f"{saved / cost.prompt:.1%}",
            f"{cost.seconds:.1f}",
        )
    table.caption = (
        "optimum: distinct prompt tokens. Less is computed where a prompt goes on from an answer, "
        "whose tokens are in the cache since they were generated."
    )
    console.print(table)


if __name__ == "__main__":
    main()
