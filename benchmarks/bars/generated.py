"""What a small model writes at temperature 1 under two hundred schemas validates, every time."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema

from benchmarks.constrained import Ask, run
from benchmarks.drive import core_of
from benchmarks.schemas import schemas
from sglang_lite.params import Constraint, SamplingParams

COUNT = 200
MOST = 400  # tokens


def measure() -> bool:
    core = core_of()
    try:
        asked = [
            Ask(
                f"Write one JSON value of type {name}, as short as you can:\n",
                SamplingParams(max_tokens=MOST, temperature=1.0, seed=index),
                Constraint("json_schema", json.dumps(schema, ensure_ascii=False)),
            )
            for index, (name, schema) in enumerate(schemas(COUNT))
        ]
        answers = run(core, asked)
    finally:
        core.close("the end")
    finished = valid = 0
    engines: Counter[str] = Counter()
    for answer, (name, schema) in zip(answers, schemas(COUNT), strict=True):
        engines[answer.finish.grammar.partition(":")[0] if answer.finish else "refused"] += 1
        if answer.finish is None or answer.finish.reason.value != "stop":
            continue
        finished += 1
        try:
            kind = jsonschema.Draft202012Validator
            judge = kind(schema, format_checker=kind.FORMAT_CHECKER)
            judge.validate(json.loads(answer.text))
            valid += 1
        except (ValueError, jsonschema.ValidationError) as error:
            print(f"schema {name}: {answer.text!r}: {str(error)[:200]}")
    print(f"{COUNT} schemas, {dict(engines)}; {finished} outputs finished within {MOST} tokens")
    print(f"valid: {valid} of {finished} (limit: all)")
    return valid == finished and finished >= COUNT * 0.8 and engines["refused"] == 0
