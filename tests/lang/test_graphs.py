"""Traces of programs, and graphs of what runs did."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.lang.nodes import Opaque
from sglang_lite.testing import ByteTokenizer
from sglang_lite.testing import ScriptedBackend as B


@sgl.function
def judge(s: Any, essay: str, limit: int = 3) -> None:
    s += "You grade essays.\n" + essay
    group = s.fork(2)
    group += lambda index: f" {index}:"
    group += sgl.gen("grade", max_tokens=limit)
    group.join()
    s += "\nTogether: " + sgl.gen("end")


def edges(graph: sgl.Graph, kind: str) -> list[tuple[str, str]]:
    def said(id: int) -> str:
        node = graph.nodes[id]
        return f"{node.branch} {node.kind}"

    return [(said(e.source), said(e.target)) for e in graph.edges if e.kind == kind]


def test_a_trace_has_branches_and_what_is_known_of_the_text() -> None:
    graph = judge.trace()
    assert graph.opaque == ""
    assert graph.static_prefix == "You grade essays.\n"
    kinds = [(node.branch, node.kind, node.name) for node in graph.nodes]
    assert kinds == [
        ("0", "text", None),
        ("0", "argument", "essay"),
        ("0/1.0", "text", None),
        ("0/1.1", "text", None),
        ("0/1.0", "gen", "grade"),
        ("0/1.1", "gen", "grade"),
        ("0", "join", None),
        ("0", "text", None),
        ("0", "gen", "end"),
    ]
    assert edges(graph, "fork") == [("0 argument", "0/1.0 text"), ("0 argument", "0/1.1 text")]
    assert edges(graph, "join") == [("0/1.0 gen", "0 join"), ("0/1.1 gen", "0 join")]
    assert graph.nodes[0].place.startswith(__file__)
    known = judge.trace(essay="Once. ")
    assert known.static_prefix == "You grade essays.\nOnce. "


def test_a_variable_of_one_branch_in_another_is_an_edge() -> None:
    @sgl.function
    def program(s: Any) -> None:
        group = s.fork(1)
        group += sgl.gen("idea")
        s += "It said: " + group[0]["idea"]

    graph = program.trace()
    assert edges(graph, "variable") == [("0/1.0 gen", "0 variable")]


@pytest.mark.parametrize(
    ("body", "prefix"),
    [
        (lambda s, q: s.__iadd__("a").__iadd__(f"{q}"), "a"),
        (lambda s, q: s.__iadd__("a").__iadd__("b" if q else "c"), "a"),
        (lambda s, q: s.__iadd__("a").__iadd__({"x": "y"}[q]), "a"),
        (lambda s, q: s.__iadd__("a").__iadd__("x" * len(q)), "a"),
        (lambda s, q: s.__iadd__("a").__iadd__(q.upper()), "a"),
        (lambda s, q: s.__iadd__("a").__iadd__(sgl.gen("x")).__iadd__(s["x"] + 1), "a"),
        (lambda s, q: s.__iadd__("a").__iadd__(s.text()), "a"),
        (lambda s, q: s.__iadd__("ab").__iadd__("c" if q == "x" else "d"), "ab"),
        (lambda s, q: 1 / 0, ""),
    ],
    ids=["form", "truth", "key", "length", "method", "sum", "text", "equal", "bug"],
)
def test_what_depends_on_the_unknown_ends_a_trace_and_raises_nothing(
    body: Any, prefix: str
) -> None:
    graph = sgl.function(body).trace()
    assert graph.static_prefix == prefix
    assert graph.opaque
    assert graph.opaque in str(graph)


def test_a_trace_covers_turns_scopes_and_other_programs() -> None:  # 39
    @sgl.function
    def inner(s: Any, q: str) -> None:
        s += "inner " + q

    @sgl.function
    def program(s: Any, q: str) -> None:
        with s.user():
            s += "Q: " + q
        group = s.fork(2)
        group += sgl.gen("d")
        group.join()
        with s.var_scope("v"):
            s += "t"
        inner(s, q=q)

    graph = program.trace(backend=B([], template="chatml"))
    assert graph.opaque == ""
    assert graph.static_prefix == "<|im_start|>user\nQ: "
    assert [node.kind for node in graph.nodes if node.branch == "0"] == [
        "turn", "text", "argument", "end of turn", "join", "scope", "text", "end of scope", "text",
        "argument",
    ]  # fmt: skip


def test_async_programs_are_traced_as_far_as_they_wait_for_themselves() -> None:
    @sgl.function
    async def program(s: Any, wait: Any) -> None:
        s += "a" + sgl.gen("x")
        s += "b" + await s["x"]
        await wait()

    import asyncio

    async def outside() -> None:
        await asyncio.sleep(0)

    graph = program.trace(wait=outside)
    assert [node.kind for node in graph.nodes] == ["text", "gen", "text", "variable"]
    assert "waits for something outside" in graph.opaque


def test_tracing_in_one_thread_leaves_others_alone() -> None:  # 34
    gate, inside = threading.Event(), threading.Event()

    @sgl.function
    def slow(s: Any, q: str) -> None:
        s += "p" * 80
        inside.set()
        gate.wait(2)
        s += q

    @sgl.function
    def other(s: Any) -> None:
        s += "hello"

    backend = B([])
    thread = threading.Thread(target=lambda: slow.cache(backend=backend))
    thread.start()
    assert inside.wait(2)
    try:
        out = other(backend=backend)
    finally:
        gate.set()
        thread.join()
    assert out.text() == "hello"
    assert backend.cached == ["p" * 80]


def test_a_run_has_a_graph_with_what_it_cost() -> None:
    class Priced(B):
        encode = staticmethod(lambda prompt: ByteTokenizer().encode(prompt.text, add_bos=False))

        async def generate(self, ask: Any) -> Any:
            async for part in super().generate(ask):
                size = len(ask.prompt.text)
                told = {"prompt_tokens": size, "cached_tokens": size // 2, "completion_tokens": 1}
                yield type(part)(part.text, part.samples, told if part.samples else {})

    state = judge.run(essay="Once upon a time.", backend=Priced(["A", "B", "C"]))
    state.sync()
    graph = state.graph()
    head = len("You grade essays.\nOnce upon a time.")
    asked = [head + 3, head + 3, head + len("\nTogether: ")]
    assert [node.prompt_tokens for node in graph.nodes if node.kind == "gen"] == asked
    assert graph.hit_rate == pytest.approx(sum(n // 2 for n in asked) / sum(asked))
    # the second branch shares the head and the blank before its number, the last one the head
    assert graph.optimal_hit_rate == pytest.approx((head + 1 + head) / sum(asked))
    said = json.loads(graph.to_json())
    assert said["program"] == "judge"
    assert len(said["nodes"]) == len(graph.nodes)
    assert all(node["seconds"] >= 0 for node in said["nodes"])
    drawn = graph.to_mermaid()
    assert drawn.startswith("flowchart TD\n")
    assert drawn.count("-->|fork|") == 2
    shown = str(graph).splitlines()
    assert shown[0] == "judge()"
    assert any(line.startswith("    0/1.1: gen grade: 'B'  (38 prompt") for line in shown)


def test_a_label_of_a_mermaid_graph_cannot_break_it() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += 'say "hi"]\n' + "x" * 100

    line = program.run(backend=B()).graph().to_mermaid().splitlines()[1]
    assert line.count('"') == 2
    assert line.endswith("…'\"]")


def test_compiling_refuses_what_the_text_alone_does_not_decide() -> None:
    compiled = judge.compile(backend=B.by_prompt(lambda prompt: prompt[-2]))
    assert compiled.graph.static_prefix == "You grade essays.\n"
    assert compiled.run(essay="x")["end"] == ":"
    assert compiled.run_batch([{"essay": "x"}])[0]["grade"] == ["0", "1"]

    @sgl.function
    def branches(s: Any, q: str) -> None:
        s += "a" if q else "b"

    with pytest.raises(Opaque, match=r"branches\(\) cannot be compiled.*'q' is not known"):
        branches.compile()


def test_usage_is_told_by_gen_by_branch_and_by_program() -> None:
    class Priced(B):
        async def generate(self, ask: Any) -> Any:
            async for part in super().generate(ask):
                told = {"prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 2}
                yield type(part)(part.text, part.samples, told)

    state = judge.run(essay="x", backend=Priced(["A", "B", "C"]))
    state.sync()
    assert state.usage["prompt_tokens"] == 30
    assert (state.usage["calls"], state.usage["cached_tokens"]) == (3, 12)
    assert state.usage_of()["prompt_tokens"] == 10, "of the branch itself"
    assert state.usage_of("end")["completion_tokens"] == 2
    assert state.usage_of("nothing")["calls"] == 0
