"""Constrained output of the small model, which has never seen such a schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sglang_lite as sgl

pytestmark = pytest.mark.model

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "kind": {"enum": ["cat", "dog", "goldfish"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 30},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,8}$"},
                 "minItems": 1, "maxItems": 2},
        "size": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["name", "kind", "age", "tags"],
    "additionalProperties": False,
}  # fmt: skip
OPEN = {"type": "object", "required": ["a"], "properties": {"a": {"type": "array"}},
        "additionalProperties": True}  # fmt: skip
PROMPT = "A pet, as JSON:\n"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"jump_forward": False},
        {"page_size": 16},
        {"grammar_engine": "llguidance"},
        {"grammar_whitespace": "compact"},
        {"max_total_tokens": 160},  # eight rows do not fit at once
    ],
    ids=str,
)
def test_what_is_finished_validates(smollm2_folder: Path, options: dict[str, Any]) -> None:
    sampling = [
        {"json_schema": json.dumps(SCHEMA), "temperature": 1.0, "max_new_tokens": 120,
         "sampling_seed": seed, "frequency_penalty": 0.2 if seed % 2 else 0.0}
        for seed in range(8)
    ]  # fmt: skip
    with sgl.Engine(str(smollm2_folder), **options) as engine:
        answers = engine.generate([PROMPT] * len(sampling), sampling)
    metas = [answer["meta_info"] for answer in answers]
    finished = [
        answer["text"]
        for answer, meta in zip(answers, metas, strict=True)
        if meta["finish_reason"]["type"] == "stop"
    ]
    assert len(finished) >= 6
    for text in finished:
        jsonschema.validate(json.loads(text), SCHEMA)
    wanted = options.get("grammar_engine", "outlines")
    assert {meta["grammar"] for meta in metas} == {wanted}
    jumped = sum(meta["fast_forwarded_tokens"] for meta in metas)
    assert (jumped > 0) is options.get("jump_forward", True)


@sgl.function
def interview(s: Any) -> None:
    s += sgl.user("Name a colour.") + sgl.assistant(sgl.gen("colour", regex="(red|green|blue)"))
    s += sgl.user("How many?") + sgl.assistant(sgl.gen("count", dtype=int, max_tokens=4))
    s += sgl.user("More, as JSON.")
    s += sgl.assistant(sgl.gen("more", json_schema=SCHEMA, whitespace="compact", max_tokens=120))
    s += sgl.user("Anything.") + sgl.assistant(sgl.gen("any", json_schema=OPEN, max_tokens=8))


def test_a_program_with_constraints(smollm2_folder: Path) -> None:
    with sgl.Runtime(str(smollm2_folder)) as runtime:
        state = interview.run(backend=runtime, temperature=0.8, seed=3)
        assert state["colour"] in ("red", "green", "blue")
        assert re.fullmatch("-?[0-9]+", state["count"].strip())
        jsonschema.validate(json.loads(state["more"]), SCHEMA)
        assert ": " not in state["more"]
        assert state["any"].startswith("{")
        assert state.get_meta_info("more")["fast_forwarded_tokens"] > 10
        assert state.get_meta_info("any")["grammar"] == "llguidance"
        assert runtime.get_server_info()["pages_leased"] == 0
