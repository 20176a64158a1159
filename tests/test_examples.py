"""Every example runs on a scripted backend, makes the calls it should, and prints its end."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sglang_lite.lang.backends import default
from sglang_lite.lang.choices import Scores
from sglang_lite.lang.prompt import Prompt
from sglang_lite.params import Constraint, Hint
from sglang_lite.testing import ScriptedBackend

FOLDER = Path(__file__).parents[1] / "examples"

RECORDS = {
    "json_schema": json.dumps({"place": "ship", "rooms": 3, "alone": True}),
    "regex": '{"name": "somebody"}',
}


class Answers(ScriptedBackend):
    """Gens get a number, or the form that they ask for; selects their first option."""

    selects: list[tuple[str, Sequence[str]]]

    @classmethod
    def new(cls) -> Answers:
        def answer(prompt: str, constraint: Constraint | None) -> str:
            return RECORDS[constraint.kind] if constraint else " 7 * 6"

        backend = cls.by_prompt(answer)
        assert isinstance(backend, cls)
        backend.selects = []
        return backend

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        unconditional: bool,
        hint: Hint | None = None,
    ) -> Scores:
        self.selects.append((prompt.text, choices))
        return Scores([[-float(at)] for at, _ in enumerate(choices, start=1)])


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Answers:
    backend = Answers.new()
    monkeypatch.setattr(default, "_default", [backend])
    return backend


def solved(name: str, backend: Answers) -> Any:
    states = importlib.import_module(name).solve(backend)
    assert all(state.error() is None for state in states)
    return states


@pytest.mark.parametrize(
    ("name", "states", "gens", "selects", "variables"),
    [
        ("few_shot", 32, 32, 0, ["answer"]),
        ("endings", 4, 0, 4, ["ending"]),
        ("agent", 3, 9, 0, ["thought", "call", "answer"]),
        ("town", 24, 6, 18, []),
        ("tree_of_thought", 2, 78, 54, ["best", "sure"]),
        ("skeleton", 8, 12, 0, []),
        ("judge", 1, 7, 6, ["opinion", "grade", "summary"]),
        ("character", 3, 6, 0, ["card", "home"]),
        ("chat", 2, 6, 0, ["answer_0", "answer_1", "answer_2"]),
        ("rag", 5, 5, 0, ["passages", "answer"]),
    ],
)
def test_calls_and_variables(
    backend: Answers, name: str, states: int, gens: int, selects: int, variables: list[str]
) -> None:
    found = solved(name, backend)
    assert len(found) == states
    assert (len(backend.prompts), len(backend.selects)) == (gens, selects)
    assert all(variable in state for state in found for variable in variables)


@pytest.mark.parametrize(
    "name",
    sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("running", "demo")),
)
def test_it_prints_what_it_found_and_what_it_took(
    backend: Answers, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    example, running = importlib.import_module(name), importlib.import_module("running")
    running.main(example.solve, example.show)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert re.fullmatch(r"[\d,]+ prompt tokens, [\d,]+ of them cached: hit rate [\d.]+%", lines[-1])


def test_each_is_in_the_list() -> None:
    listed = re.findall(r"\]\((\w+)\.py\)", (FOLDER / "README.md").read_text())
    assert set(listed) == {path.stem for path in FOLDER.glob("*.py")}


def test_a_thought_sees_its_ancestors_alone(backend: Answers) -> None:
    solved("tree_of_thought", backend)
    critics = [prompt for prompt in backend.prompts if prompt.endswith("Critic:")]
    assert len(critics) == 2 * 27
    for prompt in critics:
        own = prompt[prompt.rindex("Task:") :]
        assert [own.count(title) for title in ("Idea:", "How:", "Critic:")] == [1, 1, 1]


def test_the_calculator_is_told_of_in_the_next_prompt(backend: Answers) -> None:
    (state, *_) = solved("agent", backend)
    assert state["call"] == " 7 * 6"
    assert "calculator( 7 * 6)\nObservation: 42\nAnswer:" in state.text()


def test_a_tip_is_what_its_expansion_begins_with(backend: Answers) -> None:
    advice, first, *_ = solved("skeleton", backend)
    assert f"Tip: {advice['tip_1'].strip()}\nWhy:" in first.text()


def test_passages_are_those_with_the_most_words_in_common() -> None:
    rag = importlib.import_module("rag")
    assert rag.retrieve("Who founded the school of Melk?")[0].startswith("The school of Melk")
    assert rag.retrieve("How high is the lighthouse of Norden?")[0].endswith("34 metres high.")
