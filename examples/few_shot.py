"""Five worked examples, then 32 questions at once: the examples are computed a single time."""

from __future__ import annotations

from typing import Any

import sglang_lite as sgl

SHOTS = """Name the capital city of the country. Answer with the name of the city and nothing else.

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
# fmt: off
COUNTRIES = (
    "Italy", "Spain", "Germany", "Austria", "Greece", "Norway", "Sweden", "Finland", "Denmark",
    "Poland", "Hungary", "Portugal", "Ireland", "Belgium", "Russia", "Turkey", "China", "India",
    "Thailand", "Vietnam", "Indonesia", "Australia", "Kenya", "Nigeria", "Ethiopia", "Morocco",
    "Mexico", "Cuba", "Brazil", "Argentina", "Chile", "Colombia",
)
# fmt: on


@sgl.function
def capital(s: Any, country: str) -> None:
    s += SHOTS + "Country: " + country + "\nCapital:"
    s += sgl.gen("city", max_tokens=6, stop="\n", temperature=0)


def ask_all(backend: Any) -> list[tuple[str, str]]:
    """(country, answer) for each of the countries."""
    rows = [{"country": country} for country in COUNTRIES]
    states = capital.run_batch(rows, backend=backend, progress_bar=True)
    return [
        (row["country"], state["city"].strip()) for row, state in zip(rows, states, strict=True)
    ]


if __name__ == "__main__":
    for country, city in ask_all(None):
        print(f"{country}: {city}")
