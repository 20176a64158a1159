"""Which of four endings is the likeliest? `select` scores them all; nothing is generated.

The examples are computed once for all questions, and each question once for its four endings.
"""

from __future__ import annotations

from typing import Any

from running import States, main

import sglang_lite as sgl

SHOTS = """A man lights a fire under a pot of water. He waits until it boils, then puts in the rice.
A girl sits down at the piano. She opens her notes and begins to play a slow song.
A dog sees a cat in the garden. It barks and runs after the cat until it climbs a tree.
Two boys put on their shoes and take a ball. They go out to the field and play football.
A woman gets on the bus in the rain. She closes her umbrella and looks for a seat.
A cook cuts an onion on a board. His eyes fill with tears and he wipes them with his sleeve.
"""
STORIES: list[dict[str, Any]] = [
    {
        "story": "A boy drops a glass on the stone floor.",
        "endings": [
            "It breaks into many pieces.",
            "It flies to the moon.",
            "It begins to sing a song.",
            "It reads the newspaper.",
        ],
    },
    {
        "story": "A woman is very tired after a long day at work. She goes home,",
        "endings": [
            "paints the ocean with a spoon.",
            "lies down on her bed and falls asleep.",
            "turns into a tall green tree.",
            "buys eleven trains for the dog.",
        ],
    },
    {
        "story": "It is dark in the room, so the man",
        "endings": [
            "eats the window.",
            "swims across the table.",
            "turns on the light.",
            "sells the weather.",
        ],
    },
    {
        "story": "The children build a snowman in the garden. When the sun comes out,",
        "endings": [
            "the snowman writes a letter.",
            "the garden drives away.",
            "the piano gets a haircut.",
            "the snow begins to melt.",
        ],
    },
]


@sgl.function
def finish(s: Any, story: str, endings: list[str]) -> None:
    s += SHOTS + story
    s += sgl.select("ending", [" " + each for each in endings])  # the space belongs to the word


def solve(backend: Any) -> States:
    """A state for each of `STORIES`, with the variable `ending`."""
    states: States = finish.run_batch(STORIES, backend=backend)
    return states


def show(states: States) -> None:
    for row, state in zip(STORIES, states, strict=True):
        sure = max(state.get_meta_info("ending")["probs"])
        print(f"{row['story']} ...{state['ending']} ({sure:.0%})")


if __name__ == "__main__":
    main(solve, show)
