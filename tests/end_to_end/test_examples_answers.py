"""Some of the examples on the real small model: what they say, and what they share."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.meter import Meter, Reading

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def meter(smollm2_folder: Path) -> Iterator[Meter]:
    with Meter(str(smollm2_folder), dtype="float32") as meter:
        yield meter


def solved(name: str, meter: Meter) -> tuple[Any, Reading]:
    states: list[Any] = []

    def work(backend: Any) -> list[Any]:
        states.extend(importlib.import_module(name).solve(backend))
        return states

    reading = meter.read(work)
    assert reading.duplicates == 0
    assert reading.ratio > 0.98
    return states, reading


def test_few_shot(meter: Meter) -> None:
    states, reading = solved("few_shot", meter)
    answers = [state["answer"].strip() for state in states]
    assert {"Rome", "Madrid", "Oslo", "slow", "poor"} <= set(answers)
    assert reading.achieved > 0.85


def test_endings(meter: Meter) -> None:
    states, _ = solved("endings", meter)
    assert states[0]["ending"] == " It breaks into many pieces."
    assert states[2]["ending"] == " turns on the light."


def test_rag(meter: Meter) -> None:
    states, _ = solved("rag", meter)
    assert states[0]["answer"].strip().startswith("34")
    assert "Piet Vos" in states[1]["answer"]


def test_character(meter: Meter) -> None:
    states, _ = solved("character", meter)
    character = importlib.import_module("character")
    for state in states:
        home = character.Home.model_validate_json(state["home"])
        assert 1 <= home.rooms <= 999
    assert '"occupation": "detective"' in states[0]["card"]


def test_a_chat_goes_on_from_generated_tokens(meter: Meter) -> None:
    states, reading = solved("chat", meter)
    assert "Paris" in states[0]["answer_0"]
    assert reading.computed == reading.optimum
