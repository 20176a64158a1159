"""Few-shot questions: each subject has its worked examples, and they are computed a single time.

All questions of all subjects are submitted at once, as an evaluation such as MMLU does it.
"""

from __future__ import annotations

from typing import Any

from running import States, main

import sglang_lite as sgl

CAPITALS = """Name the capital city of the country. Answer with its name and nothing else.

Country: France, a republic in western Europe known for its wine, its cheese and the river Seine
Capital: Paris

Country: Japan, an island nation in eastern Asia with mountains, temples and very fast trains
Capital: Tokyo

Country: Egypt, a land in the north of Africa with deserts, pyramids and the long river Nile
Capital: Cairo

Country: Canada, a vast country in the north of America with lakes, forests and cold winters
Capital: Ottawa

Country: Peru, a country in the west of South America with high mountains and an old empire
Capital: Lima

"""
OPPOSITES = """Write the opposite of the word. Answer with one word.

Word: hot, as in a hot cup of tea on a winter evening
Opposite: cold

Word: big, as in a big house with many rooms and a garden
Opposite: small

Word: happy, as in a happy child on the first day of summer
Opposite: sad

Word: early, as in an early train before the sun is up
Opposite: late

Word: open, as in an open window on a warm night
Opposite: closed

"""
# fmt: off
COUNTRIES = (
    "Italy", "Spain", "Germany", "Austria", "Greece", "Norway", "Sweden", "Finland", "Denmark",
    "Poland", "Hungary", "Portugal", "Ireland", "Belgium", "Russia", "Turkey", "China", "India",
    "Thailand", "Kenya",
)
WORDS = (
    "fast", "rich", "light", "young", "strong", "full", "dry", "easy", "clean", "high", "long",
    "near",
)
# fmt: on
QUESTIONS = [
    *({"shots": CAPITALS, "question": f"Country: {each}\nCapital:"} for each in COUNTRIES),
    *({"shots": OPPOSITES, "question": f"Word: {each}\nOpposite:"} for each in WORDS),
]


@sgl.function
def ask(s: Any, shots: str, question: str) -> None:
    s += shots + question
    s += sgl.gen("answer", max_tokens=6, stop="\n", temperature=0)


def solve(backend: Any) -> States:
    """A state for each of `QUESTIONS`, with the variable `answer`."""
    states: States = ask.run_batch(QUESTIONS, backend=backend)
    return states


def show(states: States) -> None:
    answers = [state["answer"].strip() for state in states]
    asked = (*COUNTRIES, *WORDS)
    pairs = [f"{one}: {answer}" for one, answer in zip(asked, answers, strict=True)]
    print(", ".join(pairs[: len(COUNTRIES)]), ", ".join(pairs[len(COUNTRIES) :]), sep="\n")


if __name__ == "__main__":
    main(solve, show)
