"""What programs get wrong is said at once, and nothing of it hangs or is lost."""

from __future__ import annotations

import functools
import os
import resource
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.lang.nodes import Untold
from sglang_lite.loop import LoopThread
from sglang_lite.testing import ScriptedBackend

FAKE = "sglang_lite.testing:fake_core"


def answering(text: str = "out", **options: Any) -> ScriptedBackend:
    return ScriptedBackend.by_prompt(lambda prompt: text, **options)


@sgl.function
def one(s: Any, i: int = 0) -> None:
    s += f"x{i}" + sgl.gen("a")


# -------------------------------------------------------------- what hung


def test_two_who_post_at_once_both_wake_the_loop() -> None:
    loop = LoopThread("test")
    together = threading.Barrier(2)

    class Slow(deque[Any]):
        def append(self, item: Any) -> None:
            super().append(item)
            together.wait(5)  # both have appended before either looks

    loop._posted = Slow()
    done = [threading.Event(), threading.Event()]
    threads = [threading.Thread(target=loop.post, args=(each.set,)) for each in done]
    for thread in threads:
        thread.start()
    assert all(each.wait(5) for each in done)
    for thread in threads:
        thread.join()
    loop.close()


@pytest.mark.parametrize("exit", [SystemExit, KeyboardInterrupt])
def test_a_body_that_exits_is_its_own_rows_error(exit: type[BaseException]) -> None:
    @sgl.function
    def program(s: Any, i: int) -> None:
        s += "x" + sgl.gen("a")
        if i == 1:
            raise exit(3)

    states = program.run_batch([{"i": i} for i in range(3)], backend=answering())
    assert [type(state.error()) for state in states] == [type(None), exit, type(None)]


def test_a_row_that_cannot_begin_ends_the_batch() -> None:
    with pytest.raises(sgl.InvalidRequest, match="`seed` is a whole number, got '7'"):
        one.run_batch([{"i": 1}, {"i": 2}], backend=answering(), seed="7")


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"max_tokens": 1.5}, "`max_tokens` must be a whole number, got 1.5"),
        ({"temperature": True}, "`temperature` must be a number, got True"),
        ({"top_k": 1.5}, "`top_k`"),
        ({"ignore_eos": "no"}, "`ignore_eos` must be true or false, got 'no'"),
        ({"stop_token_ids": [1.5]}, "`stop_token_ids`"),
        ({"stop": 5}, "`stop`"),
        ({"logit_bias": {"a": 1}}, "`logit_bias`"),
    ],
)
def test_a_parameter_of_a_wrong_type_never_reaches_the_wire(
    options: dict[str, Any], about: str
) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "x" + sgl.gen("a", **options)

    with pytest.raises(sgl.ProgramError) as caught:
        program.run(backend=answering())["a"]
    assert about in str(caught.value)


def test_a_forked_process_gets_a_loop_of_its_own() -> None:
    backend = answering()
    assert one.run(backend=backend)["a"] == "out"
    child = os.fork()
    if child == 0:  # the exit status tells; nothing else of pytest may run here
        status = 1
        try:
            status = 0 if one.run(backend=backend).get_var("a", timeout=10) == "out" else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_body_reads_its_own_stream_up_to_now() -> None:
    read: list[str] = []

    @sgl.function
    def program(s: Any) -> None:
        s += "x" + sgl.gen("a")
        read.extend(s.text_iter())
        s += "y"

    assert program.run(backend=answering()).text() == "xouty"
    assert read == ["x", "out"]


def test_what_is_appended_after_the_end_can_be_streamed() -> None:
    state = one.run(backend=answering())
    state.sync()
    state += sgl.gen("b")
    assert list(state.text_iter("b")) == ["out"]
    branch = state.fork(1)[0]
    branch += sgl.gen("c")
    assert list(branch.text_iter()) == ["out"]


def test_a_trace_of_a_loop_that_an_output_ends_ends() -> None:
    @sgl.function
    def program(s: Any) -> None:
        while True:
            s += sgl.gen("n")
            try:
                if int(s["n"]):
                    return
            except Exception:  # noqa: BLE001 - as people write it
                s += "again"

    assert "'n' is not known" in program.trace().opaque
    assert not issubclass(Untold, Exception)


def test_an_endless_trace_ends() -> None:
    @sgl.function
    def program(s: Any) -> None:
        while True:
            s += "more"

    assert "goes on after 10,000" in program.trace().opaque


# -------------------------------------------------------------- what was lost


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my only copy")
    with pytest.raises(ValueError, match="is no result of a batch"):
        one.run_batch([{"i": 1}], backend=answering(), resume=path)
    assert path.read_text() == "my only copy"


def test_a_last_line_without_its_end_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    one.run_batch([{"i": 1}], backend=answering(), resume=path)
    path.write_text(path.read_text().rstrip("\n"))
    backend = answering()
    one.run_batch([{"i": 1}, {"i": 2}], backend=backend, resume=path)
    assert len(backend.prompts) == 1
    one.run_batch([{"i": 1}, {"i": 2}], backend=backend, resume=path)
    assert len(backend.prompts) == 1


def test_results_are_of_one_program_and_its_arguments(tmp_path: Path) -> None:
    @sgl.function
    def other(s: Any, i: int) -> None:
        s += "other" + sgl.gen("b")

    path = tmp_path / "results.jsonl"
    one.run_batch([{"i": 1}], backend=answering(), resume=path)
    assert other.run_batch([{"i": 1}], backend=answering(), resume=path)[0].text() == "otherout"
    with pytest.raises(TypeError, match="row 0 cannot be told from others"):
        one.run_batch([{"i": object()}], backend=answering(), resume=path)


@pytest.mark.parametrize("value", [float("nan"), (1, 2), {1: "a"}])
def test_what_would_come_back_as_something_else_is_not_kept(tmp_path: Path, value: Any) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s["v"] = value

    with pytest.raises(TypeError, match="'v' is"):
        program.run_batch([{}], backend=answering(), resume=tmp_path / "results.jsonl")


def test_a_restored_state_has_its_turns_and_says_that_types_are_gone(tmp_path: Path) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("q") + sgl.assistant(sgl.gen("n", type=int))

    path = tmp_path / "results.jsonl"
    for _ in range(2):
        state = program.run_batch([{}], backend=answering("7"), resume=path)[0]
    assert state.restored
    assert [turn["role"] for turn in state.messages()] == ["user", "assistant"]
    assert state["n"] == "7"
    with pytest.raises(sgl.InvalidOutput, match="comes from a file"):
        state.value("n")


def test_turns_of_branches_are_turns_after_a_join() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("q1")
        group = s.fork(2)
        group += sgl.assistant(sgl.gen("a"))
        group.join("concate_and_append")
        s += sgl.user("q2")

    turns = program.run(backend=answering()).messages()
    assert [turn["content"] for turn in turns] == ["q1", "out", "out", "q2"]


def test_what_stands_between_turns_stays_there() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("x")
        s += "BETWEEN" + sgl.gen("g", max_tokens=4)
        s += sgl.user("bye") + sgl.assistant(sgl.gen("l", max_tokens=3))

    with sgl.Runtime("fake?eos=0", core=FAKE) as runtime:
        state = program.run(backend=runtime)
        assert f"BETWEEN{state['g']}" in state.text()
        assert state.text().index("BETWEEN") < state.text().index("bye")


def test_a_long_loop_costs_as_much_as_its_text() -> None:
    @sgl.function
    def program(s: Any) -> None:
        for _ in range(4000):
            s += "y" * 200

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(program.run(backend=answering()).text()) == 800_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000 * (1 if sys.platform != "darwin" else 1024), "KiB, but bytes on macOS"


def test_an_error_that_is_read_often_does_not_grow() -> None:
    def broken(prompt: str) -> str:
        raise ValueError("no")

    state = one.run(backend=ScriptedBackend.by_prompt(broken))
    for _ in range(100):
        with pytest.raises(sgl.ProgramError) as caught:
            state["a"]
    depth, trace = 0, caught.value.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth < 10


# -------------------------------------------------------------- what was taken for something else


@pytest.mark.parametrize("choices", ["yes", 5, [1]])
def test_choices_are_a_list_of_texts(choices: Any) -> None:
    with pytest.raises(sgl.InvalidRequest, match="one or more texts in a list"):
        sgl.select("a", choices)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: sgl.gen(5),
        lambda: sgl.gen("a", n=2.5),
        lambda: sgl.gen("a", retries="2"),
        lambda: sgl.gen("a", tools=5),
        lambda: sgl.gen("a", tools=[functools.partial(len)]),
        lambda: sgl.select("a", ["x"], temperature=-1),
        lambda: sgl.select("a", ["x"], choices_method="greedy"),
        lambda: one.run(backend="http://localhost:30000"),
        lambda: one.run(backend=ScriptedBackend),
        lambda: sgl.set_default_backend("x"),
        lambda: one.run(backend=answering(), timeout=float("nan")),
        lambda: one.run(backend=answering(), timeout="5"),
        lambda: one.run(backend=answering(), seed=1.5),
    ],
    ids=lambda each: f"line {each.__code__.co_firstlineno}",
)
def test_a_wrong_argument_is_refused_by_name(wrong: Callable[[], object]) -> None:
    with pytest.raises(sgl.InvalidRequest, match=r"`|backend="):
        wrong()


def test_an_expression_in_an_f_string_is_an_error() -> None:
    with pytest.raises(TypeError, match="append it with `\\+`"):
        f"Name: {sgl.gen('n')}"


def test_a_generator_is_no_program() -> None:
    def body(s: Any) -> Any:
        yield s

    with pytest.raises(TypeError, match="has a `yield`"):
        sgl.function(body)
    with pytest.raises(TypeError, match="made of a function"):
        sgl.function(functools.partial(body))


def test_a_type_that_fails_in_its_own_way_is_tried_again() -> None:
    def multiply(a: int, b: int) -> int:
        return a * b

    backend = ScriptedBackend(["[]", '{"name": "multiply", "arguments": {"a": 2, "b": 3}}'])

    @sgl.function
    def program(s: Any) -> None:
        s += "x" + sgl.gen("c", tools=[multiply], retries=1)

    assert program.run(backend=backend).value("c").run() == 6
