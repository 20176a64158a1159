"""A small town: its people see events, and four functions say what each event is to whom.

Every function is a template of its own, and its text is computed once, however many events there
are. Answers are short: a word, or a few.
"""

from __future__ import annotations

from typing import Any

from running import States, main

import sglang_lite as sgl

EVENTS = [
    {"person": "Maria", "event": "Maria is cooking soup"},
    {"person": "Maria", "event": "Maria hears that her brother was in an accident"},
    {"person": "Oskar", "event": "Oskar is watering the tomatoes"},
    {"person": "Oskar", "event": "Oskar wins the first prize in the chess club"},
    {"person": "Lena", "event": "Lena is brushing her teeth"},
    {"person": "Lena", "event": "Lena finds that somebody stole her bicycle"},
]
PLACES = ("kitchen", "garden", "bathroom", "hospital", "street", "club")
FEELINGS = ("happy", "calm", "sad", "afraid", "angry")


@sgl.function
def weight(s: Any, person: str, event: str) -> None:
    s += """Is it an ordinary moment, or one to remember for years?

Paul is washing the dishes. This is ordinary.
Anna marries her best friend. This is important.
Paul is buying milk. This is ordinary.
Anna loses her job after ten years. This is important.
Anna is combing her hair. This is ordinary.
Thieves take all the money of Paul. This is important.
Paul is painting the fence. This is ordinary.
Anna is chosen as the new mayor. This is important.
"""
    s += event + ". This is" + sgl.select("weight", [" ordinary", " important"])


@sgl.function
def triple(s: Any, person: str, event: str) -> None:
    s += """Write each sentence as who, does, what.

Sentence: Paul is reading a book
Triple: (Paul, reads, book)
Sentence: Anna hears that the shop is closed
Triple: (Anna, hears of, closed shop)
Sentence: Paul is feeding the horses
Triple: (Paul, feeds, horses)
"""
    s += "Sentence: " + event + "\nTriple: (" + person + ","
    s += sgl.gen("rest", max_tokens=10, stop=[")", "\n"])


@sgl.function
def feeling(s: Any, person: str, event: str) -> None:
    s += """What do people feel?

Paul lost his dog. Paul is sad.
Anna gets a letter from an old friend. Anna is happy.
Paul hears steps in the dark. Paul is afraid.
Anna sits in the sun. Anna is calm.
Paul was cheated by the dealer. Paul is angry.
"""
    s += event + ". " + person + " is" + sgl.select("feeling", [" " + each for each in FEELINGS])


@sgl.function
def place(s: Any, person: str, event: str) -> None:
    s += (
        "The places of the town: "
        + ", ".join(PLACES)
        + """.
Where does each of these happen?

Paul is peeling potatoes: in the kitchen
Anna is picking roses: in the garden
Paul is taking a shower: in the bathroom
Anna is visiting the doctor: in the hospital
Paul is waiting for the bus: in the street
"""
    )
    s += event + ": in the" + sgl.select("place", [" " + each for each in PLACES])


FUNCTIONS = (weight, triple, feeling, place)


def solve(backend: Any) -> States:
    """A state for each function and event, function by function."""
    return [
        state
        for function in FUNCTIONS
        for state in function.run_batch(EVENTS, backend=backend, temperature=0)
    ]


def show(states: States) -> None:
    count = len(EVENTS)
    weights, triples, feelings, places = (
        states[at : at + count] for at in range(0, 4 * count, count)
    )
    for at, row in enumerate(EVENTS):
        print(
            f"{row['event']}: {weights[at]['weight'].strip()},{feelings[at]['feeling']},"
            f"{places[at]['place']}, ({row['person']},{triples[at]['rest']})"
        )


if __name__ == "__main__":
    main(solve, show)
