"""Output with a form: a card as one regex, and a record as a JSON schema made from a class.

Text that the form leaves no choice about is not decoded token by token.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field
from running import States, main

import sglang_lite as sgl

NAMES = ("Sherlock Holmes", "Harry Potter", "Merlin")
EXAMPLES = """Characters of well known stories, and where they live, as JSON.

{"name": "Cinderella", "sex": "female", "occupation": "princess", "age": 19}
{"place": "castle", "rooms": 120, "alone": false}

{"name": "Captain Nemo", "sex": "male", "occupation": "captain", "age": 50}
{"place": "ship", "rooms": 14, "alone": false}

"""
CARD = (
    r'\{"name": "NAME", "sex": "(male|female)", '
    r'"occupation": "(princess|wizard|detective|captain|outlaw)", "age": [1-9][0-9]\}'
)


class Home(BaseModel):
    place: Literal["castle", "house", "ship", "forest", "tower"]
    rooms: int = Field(ge=1, le=999)
    alone: bool


@sgl.function
def describe(s: Any, name: str) -> None:
    s += EXAMPLES
    s += sgl.gen("card", max_tokens=96, regex=CARD.replace("NAME", name), temperature=0)
    s += "\n" + sgl.gen("home", max_tokens=64, json_schema=Home, temperature=0)


def solve(backend: Any) -> States:
    """A state for each of `NAMES`, with the texts `card` and `home`."""
    states: States = describe.run_batch([{"name": name} for name in NAMES], backend=backend)
    return states


def show(states: States) -> None:
    for state in states:
        home = Home.model_validate_json(state["home"])
        company = "alone" if home.alone else "not alone"
        print(state["card"], f"lives {company} in a {home.place} of {home.rooms} rooms")


if __name__ == "__main__":
    main(solve, show)
