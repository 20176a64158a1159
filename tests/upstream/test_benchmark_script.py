"""A script like those of the benchmarks: arguments, data, a server, a batch, a file of results."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import pytest

import sglang_lite as sgl
from sglang_lite.api import set_default_backend
from sglang_lite.test.test_utils import (
    add_common_sglang_args_and_parse,
    select_sglang_backend,
)
from sglang_lite.utils import (
    dump_state_text,
    print_highlight,
    read_jsonl,
)


def one_example(lines, i, include_answer):
    text = "Question: " + lines[i]["question"] + "\nAnswer:"
    return text + " " + lines[i]["answer"] if include_answer else text


def main(args):
    set_default_backend(select_sglang_backend(args))
    lines = list(read_jsonl(args.data_path))
    shots = "".join(one_example(lines, i, True) + "\n\n" for i in range(args.num_shots))
    arguments = [
        {"question": one_example(lines, i, False)} for i in range(len(lines[: args.num_questions]))
    ]

    @sgl.function
    def few_shot(s, question):
        s += shots + question
        s += sgl.gen("answer", max_tokens=12, stop=["Question", "Assistant:"])

    tic = time.time()
    states = few_shot.run_batch(
        arguments, temperature=0, num_threads=args.parallel, progress_bar=True
    )
    latency = time.time() - tic
    tokens = sum(s.get_meta_info("answer")["completion_tokens"] for s in states)
    print_highlight(f"Output throughput: {tokens / latency:.3f} token/s")
    dump_state_text(args.text_file, states)
    with open(args.result_file, "a") as fout:
        value = {
            "task": "few_shot",
            "backend": args.backend,
            "latency": round(latency, 3),
            "num_requests": args.num_questions,
            "other": {"parallel": args.parallel},
        }
        fout.write(json.dumps(value) + "\n")
    return states


def test_a_benchmark(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "questions.jsonl"
    rows = [{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(6)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results, texts = tmp_path / "result.jsonl", tmp_path / "texts.txt"
    options = ["--data-path", data, "--text-file", texts, "--result-file", results]
    where = ["--host", "http://127.0.0.1", "--port", port, "--parallel", 8, "--backend", "srt"]
    monkeypatch.setattr(sys, "argv", ["bench.py", *map(str, [*options, *where])])

    parser = argparse.ArgumentParser()
    parser.add_argument("--num-shots", type=int, default=2)
    parser.add_argument("--data-path", type=str, default="test.jsonl")
    parser.add_argument("--text-file", type=str, default="texts.txt")
    parser.add_argument("--num-questions", type=int, default=5)
    args = add_common_sglang_args_and_parse(parser)
    try:
        states = main(args)
    finally:
        sgl.set_default_backend(None)

    assert len(states) == 5
    assert all(len(state["answer"]) == 12 for state in states)
    assert "token/s" in capsys.readouterr().out
    written = json.loads(results.read_text())
    assert written["backend"] == "srt"
    assert written["other"] == {"parallel": 8}
    dumped = texts.read_text()
    assert all(state.text() in dumped for state in states)
    assert "=" * 40 + " 0 " + "=" * 40 in dumped


def test_an_endpoint_knows_its_model(port: int) -> None:
    backend = sgl.RuntimeEndpoint(f"http://localhost:{port}")
    assert isinstance(backend.model_info["model_path"], str)
    assert backend.get_model_name() == backend.model_info["model_path"]

    @sgl.function
    def qa(s, question):
        s += sgl.user(question)
        s += sgl.assistant(sgl.gen("answer", max_tokens=10))

    state = qa.run(question="Hello?", backend=backend, stream=True)
    pieces = list(state.text_iter("answer"))
    assert "".join(pieces) == state["answer"]
    backend.flush_cache()
    assert isinstance(backend.get_server_info(), dict)


def test_the_common_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py"])
    args = add_common_sglang_args_and_parse(argparse.ArgumentParser())
    assert args.parallel == 64
    assert args.host == "http://127.0.0.1"
    assert args.port == 30000
    assert args.backend == "srt"
    assert args.result_file == "result.jsonl"


def test_results_that_are_only_texts(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    dump_state_text(str(file), ["one", ["two", "three"]])
    assert "one" in file.read_text()
    assert "three" in file.read_text()
