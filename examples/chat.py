"""Conversations of several turns: each turn sends all of the turns before, and computes none.

What the model said is in the cache as it was generated: its tokens are not encoded again.
"""

from __future__ import annotations

from typing import Any

from running import States, main

import sglang_lite as sgl

CONVERSATIONS = (
    (
        "What is the capital of France?",
        "And the capital of Italy?",
        "Which language do people speak there?",
    ),
    (
        "I would like to bake bread. What do I need?",
        "I have no yeast. Can I still do it?",
        "Thank you! Say goodbye in one short sentence.",
    ),
)


@sgl.function
def chat(s: Any, turns: tuple[str, ...]) -> None:
    s += sgl.system("You are a helpful assistant.")
    for number, turn in enumerate(turns):
        s += sgl.user(turn)
        s += sgl.assistant(
            sgl.gen(f"answer_{number}", max_tokens=24, stop=[".", "\n"], temperature=0)
        )


def solve(backend: Any) -> States:
    """A state for each of `CONVERSATIONS`, with `answer_0` and so on."""
    rows = [{"turns": turns} for turns in CONVERSATIONS]
    states: States = chat.run_batch(rows, backend=backend)
    return states


def show(states: States) -> None:
    for state in states:
        for message in state.messages()[1:]:
            print(f"{message['role']}: {message['content']}")
        print()


if __name__ == "__main__":
    main(solve, show)
