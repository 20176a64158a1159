"""A hostile constraint gets a 4xx that names the limit; the server is as it was before."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import httpx
import psutil

from benchmarks.hostile import SIZES, TIME

SECONDS, MOST_WITHIN, GROWTH = 25.0, 1.0, 64 << 20


def measure() -> bool:
    command = [sys.executable, "-m", "sglang_lite", "serve", "--port", "0"]
    command += ["--grammar-engine", "auto", "--max-total-tokens", "8192"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        return _attack(_url(process), psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(20)


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"serving.*(http://\S+)", line):
            return found[1]
    raise AssertionError("the server did not start")


def _attack(url: str, process: psutil.Process) -> bool:
    http = httpx.Client(base_url=url, timeout=60)
    for _ in range(2):
        assert _ask(http, "json_object", "", "auto").status_code == 200
        assert _ask(http, "regex", "a{3}", "auto").status_code == 200
    time.sleep(3.0)
    before, memory = _children(process), _memory(process)
    met, quick, count = True, 0, 0
    for name, (kind, source, word) in {**SIZES, **TIME}.items():
        # The slow one is slow for an automaton only: the other engine would hold it.
        engine = "outlines" if name in TIME else "auto"
        began = time.monotonic()
        answer = _ask(http, kind, source, engine)
        took = time.monotonic() - began
        fine = 400 <= answer.status_code < 500 and took < SECONDS and word in answer.text
        met, quick, count = met and fine, quick + (took < MOST_WITHIN), count + 1
        if not fine:
            print(f"{name}: {answer.status_code} after {took:.1f} s: {answer.text[:200]}")
    time.sleep(3.0)
    alive = _ask(http, "regex", "b{3}", "auto").status_code == 200
    after, grown = _children(process), _memory(process) - memory
    print(f"{count} hostile constraints: all refused with a 4xx that names the limit within "
          f"{SECONDS:.0f} s: {met}; {quick} of {count} within {MOST_WITHIN:.0f} s")  # fmt: skip
    print(f"alive {alive}; processes {before} before, {after} after; memory {grown / 2**20:+.0f} "
          f"MiB (limit {GROWTH >> 20} MiB)")  # fmt: skip
    return met and alive and after <= before and quick > count / 2 and grown < GROWTH


def _ask(http: httpx.Client, kind: str, source: object, engine: str) -> httpx.Response:
    field = {"choice": {"structured_outputs": {"choice": source}},
             "json_object": {"response_format": {"type": "json_object"}}}  # fmt: skip
    text = source if isinstance(source, str) else json.dumps(source)
    body = {"prompt": "x", "max_tokens": 4, "grammar_engine": engine}
    body |= field.get(kind, {kind: text})
    return http.post("/v1/completions", json=body)


def _children(process: psutil.Process) -> int:
    return len(process.children(recursive=True))


def _memory(process: psutil.Process) -> int:
    return sum(each.memory_info().rss for each in [process, *process.children(recursive=True)])
