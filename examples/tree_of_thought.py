"""A tree of thought: three ideas, three ways to carry out each, three verdicts each; the best wins.

A branch shares all that its ancestors wrote. The calls of a level are made together, and the
branches of one text differ because they are sampled.
"""

from __future__ import annotations

from typing import Any

from running import States, main

import sglang_lite as sgl

WIDTH = 3
EXAMPLES = """Task: a present for a boy who likes football
Idea: a ball with his name
How: Buy a ball, write his name on it in red, and wrap it in green paper.
Critic: He can play with it every day.
Verdict: good

Task: a present for a man who likes to sleep
Idea: a loud drum
How: Buy a drum and play it next to his bed early in the morning.
Critic: It will wake him up.
Verdict: bad

"""
TASKS = (
    "a present for a grandmother who likes her garden",
    "a present for a girl who likes to read",
)
LEVELS = (("Idea:", "idea", 12), ("How:", "how", 32), ("Critic:", "critic", 24))


def think(s: Any, level: int = 0) -> list[Any]:
    """The leaves of the tree below `s`, each with the variables of all levels and a verdict."""
    if level == len(LEVELS):
        s += "Verdict:" + sgl.select("verdict", [" good", " bad"])
        return [s]
    title, name, length = LEVELS[level]
    branches = s.fork(WIDTH)
    branches += title + sgl.gen(name, max_tokens=length, stop="\n") + "\n"
    return [leaf for branch in branches for leaf in think(branch, level + 1)]


@sgl.function
def tree(s: Any, task: str) -> None:
    s += EXAMPLES + "Task: " + task + "\n"
    leaves = think(s)
    good, _ = zip(*(leaf.get_meta_info("verdict")["probs"] for leaf in leaves), strict=True)
    best = leaves[good.index(max(good))]
    s["sure"] = max(good)
    s["best"] = {name: best[name].strip() for _, name, _ in LEVELS}


def solve(backend: Any) -> States:
    """A state for each of `TASKS`: the `best` leaf's texts, and how `sure` the verdict was."""
    rows = [{"task": task} for task in TASKS]
    states: States = tree.run_batch(rows, backend=backend, temperature=0.5, seed=2)
    return states


def show(states: States) -> None:
    for task, state in zip(TASKS, states, strict=True):
        best = state["best"]
        print(f"{task}: {best['idea']} ({state['sure']:.0%} good)\n  {best['how']}")


if __name__ == "__main__":
    main(solve, show)
