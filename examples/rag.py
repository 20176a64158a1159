"""Retrieve, then answer: instructions and worked examples first, then passages that were found.

What is the same for every question comes first, so that it is shared. The retriever counts words
in common; in your program, put a real one in its place.
"""

from __future__ import annotations

import re
from typing import Any

from running import States, main

import sglang_lite as sgl

CORPUS = (
    "The lighthouse of Norden was built in 1887 and is 34 metres high.",
    "Captain Ida Bruun was the keeper of the lighthouse of Norden for 29 years.",
    "The ferry to the island of Melk leaves at seven in the morning.",
    "The island of Melk has 212 inhabitants and one school.",
    "The school of Melk was founded by the teacher Piet Vos.",
    "Norden is known for its smoked herring.",
    "The market of Norden is held on Thursdays.",
    "The wreck of the ship Aurora lies three miles from Melk.",
    "The ship Aurora carried tea and porcelain.",
)
INSTRUCTIONS = """Answer the question with a few words from the passages.

Passages:
[1] The bridge of Harlow was opened in 1921.
[2] The bridge of Harlow was painted red by the town.
Question: When was the bridge of Harlow opened?
Answer: 1921

Passages:
[1] The baker of Harlow is called Tim Brook.
[2] The bakery opens at six.
Question: Who is the baker of Harlow?
Answer: Tim Brook

"""
QUESTIONS = (
    "How high is the lighthouse of Norden?",
    "Who founded the school of Melk?",
    "What did the ship Aurora carry?",
    "At which hour does the ferry to the island leave?",
    "On which day is the market of Norden held?",
)
SMALL_WORDS = {"the", "of", "is", "to", "a", "on", "in", "did", "does", "was", "how", "who", "what"}


def words(text: str) -> set[str]:
    """Words that tell something, without the endings that vary most."""
    found = re.findall(r"[a-z0-9]+", text.lower())
    return {word.removesuffix("s").removesuffix("ed") for word in found} - SMALL_WORDS


def retrieve(question: str, count: int = 2) -> list[str]:
    """The passages that have the most words in common with the question."""
    return sorted(CORPUS, key=lambda passage: -len(words(passage) & words(question)))[:count]


@sgl.function
def answer(s: Any, question: str) -> None:
    s["passages"] = retrieve(question)
    s += INSTRUCTIONS + "Passages:\n"
    s += "".join(f"[{number}] {each}\n" for number, each in enumerate(s["passages"], start=1))
    s += "Question: " + question + "\nAnswer:"
    s += sgl.gen("answer", max_tokens=12, stop="\n", temperature=0)


def solve(backend: Any) -> States:
    """A state for each of `QUESTIONS`, with `passages` and `answer`."""
    rows = [{"question": question} for question in QUESTIONS]
    states: States = answer.run_batch(rows, backend=backend)
    return states


def show(states: States) -> None:
    for question, state in zip(QUESTIONS, states, strict=True):
        print(f"{question} {state['answer'].strip()}")


if __name__ == "__main__":
    main(solve, show)
