"""A judge looks at an essay from six sides at once, then sums up: a fork of six branches."""

from __future__ import annotations

from typing import Any

from running import States, main

import sglang_lite as sgl

ASPECTS = ("clarity", "structure", "evidence", "originality", "grammar", "conclusion")
ESSAY = """Cities should plant more trees. In summer the streets heat up, and a row of trees cools
them by several degrees. Trees also hold rain water, so fewer cellars are flooded. Some people say
that roots break the pavement and that leaves block the drains. Both are true, and both cost less
than a hospital full of people with heat stroke. A tree planted today gives shade in ten years, so
the right time to begin was ten years ago, and the second best is now."""


@sgl.function
def judge(s: Any, essay: str) -> None:
    s += sgl.system("You are a strict but fair judge of school essays.")
    s += sgl.user("Here is an essay.\n\n" + essay)
    branches = s.fork(len(ASPECTS))
    branches += lambda i: sgl.user(f"In one short sentence: how good is its {ASPECTS[i]}?")
    branches += sgl.assistant(sgl.gen("opinion", max_tokens=24, stop=[".", "\n"], temperature=0))
    branches += sgl.user("So is it good or bad?")
    branches += sgl.assistant(sgl.select("grade", ["good", "bad"]))
    branches.join()
    opinions = zip(ASPECTS, s["opinion"], strict=True)
    s += sgl.user("\n".join(f"{aspect}: {said}." for aspect, said in opinions) + "\nSum it up.")
    s += sgl.assistant(sgl.gen("summary", max_tokens=32, stop="\n", temperature=0))


def solve(backend: Any) -> States:
    """One state: `opinion` and `grade` have an item for each of `ASPECTS`; then `summary`."""
    return [judge.run(essay=ESSAY, backend=backend)]


def show(states: States) -> None:
    (state,) = states
    for aspect, grade, opinion in zip(ASPECTS, state["grade"], state["opinion"], strict=True):
        print(f"{aspect}: {grade} ({opinion.strip()})")
    print(state["summary"].strip())


if __name__ == "__main__":
    main(solve, show)
