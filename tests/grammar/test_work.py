"""Whatever a schema says, compiling it ends in a grammar or in a refusal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lite.config import GrammarLimits
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.jobs import Job, Made, Refused
from sglang_lite.runtime.grammar.schema.keywords import TABLE
from sglang_lite.runtime.grammar.work import compile_job

WORDS = [name for row in TABLE for name in row.names] + ["$defs", "$anchor", "$id", "title"]
JUNK = [
    5, -1, 0.5, "a", [], {}, [1], [[1]], {"a": 1}, None, True, False, ["a"], {"a": {}}, [{}],
    "date", "#", {"type": "object", "properties": {"a": {}}}, ["string"], 10**30,
]  # fmt: skip
TYPES = ["object", "string", "integer", "array", ["string", "null"]]
nonsense = st.dictionaries(st.sampled_from(WORDS), st.sampled_from(JUNK), max_size=4)


@pytest.mark.parametrize("engine", ["auto", "llguidance"])
def test_no_schema_breaks_the_compiler(engine: str) -> None:
    @settings(deadline=None, derandomize=True, max_examples=600)
    @given(nonsense, st.sampled_from(TYPES) | st.none())
    def check(schema: dict[str, object], kind: object) -> None:
        source = json.dumps(schema if kind is None else {**schema, "type": kind})
        constraint = Constraint("json_schema", source, "single", engine=engine)  # type: ignore[arg-type]
        assert isinstance(compile_job(Job(constraint, GrammarLimits(), 16, b"")), Made | Refused)

    check()
