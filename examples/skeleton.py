"""A skeleton of thought: short tips one after another, each expanded by a program of its own.

`expand` starts as soon as its tip is there and runs while the next tip is written: `run` returns
when the body of a program has, and only reading a variable waits.
"""

from __future__ import annotations

from typing import Any

from running import States, main

import sglang_lite as sgl

TIPS = 3
TOPICS = ("staying healthy", "making friends")


@sgl.function
def expand(s: Any, topic: str, tip: str) -> None:
    s += """Explain each tip in one sentence that says why it helps.

Topic: saving money
Tip: Make a list before you go shopping.
Why: With a list you buy what you need, and you are not tempted by what only looks cheap.

Topic: learning a language
Tip: Read aloud.
Why: Your mouth learns the sounds while your eyes learn the words, so both are there when you speak.

"""
    s += "Topic: " + topic + "\nTip: " + tip + "\nWhy:"
    s += sgl.gen("why", max_tokens=40, stop=[".", "\n"], temperature=0)


@sgl.function
def advise(s: Any, topic: str, runtime: Any) -> States:
    s += """Give short tips, one to a line.

Tips for saving money
1. Make a list before you go shopping.
2. Cook at home.
3. Repair your shoes.

"""
    s += "Tips for " + topic + "\n"
    expansions = []
    for number in range(1, TIPS + 1):
        tip = f"tip_{number}"
        s += f"{number}." + sgl.gen(tip, max_tokens=16, stop="\n", temperature=0) + "\n"
        expansions.append(expand.run(topic=topic, tip=s[tip].strip(), backend=runtime))
    return expansions


def solve(backend: Any) -> States:
    """For each of `TOPICS` its state, with `tip_1` and so on, then its expansions', with `why`."""
    rows = [{"topic": topic, "runtime": backend} for topic in TOPICS]
    states = advise.run_batch(rows, backend=backend)
    return [each for state in states for each in (state, *state.ret_value)]


def show(states: States) -> None:
    for at, topic in enumerate(TOPICS):
        advice, *expansions = states[at * (TIPS + 1) : (at + 1) * (TIPS + 1)]
        print(f"{topic}:")
        for number, expansion in enumerate(expansions, start=1):
            print(f"  {advice[f'tip_{number}'].strip()} {expansion['why'].strip()}")


if __name__ == "__main__":
    main(solve, show)
