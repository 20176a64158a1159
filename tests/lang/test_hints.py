"""What requests say of their program, and what the runtime makes of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from live_server import LiveServer, eventually

import sglang_lite as sgl
from sglang_lite.lang.backends.scoring import Asked, rows_of, shares
from sglang_lite.params import Hint

FAKE = "sglang_lite.testing:fake_core"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[sgl.Runtime]:
    with sgl.Runtime("fake?eos=0", core=FAKE, page_size=4) as runtime:
        told: list[Hint | None] = []
        submit = runtime.client.submit

        def listening(*given: Any, hint: Hint | None = None, **options: Any) -> Any:
            told.append(hint)
            return submit(*given, hint=hint, **options)

        monkeypatch.setattr(runtime.client, "submit", listening)
        runtime.told = told  # type: ignore[attr-defined]
        yield runtime


def retained(runtime: sgl.Runtime) -> int:
    return int(runtime.get_server_info()["pages_retained"])


def test_a_program_keeps_its_text_until_it_ends(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> int:
        s += "word " * 20 + sgl.gen("x", max_tokens=4)
        s["x"]
        inside = retained(runtime)
        s += " and" + sgl.gen("y", max_tokens=4)
        return inside

    state = program.run(backend=runtime)
    state.sync()
    assert state.ret_value * 4 >= 100, "the text is kept while the body thinks"
    deadline = time.monotonic() + 10
    while retained(runtime) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert retained(runtime) == 0, "and let go when the program has ended"


def test_branches_are_a_group_and_say_whether_more_comes(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "root" + sgl.gen("r", max_tokens=1)
        group = s.fork(3)
        group += sgl.gen("a", max_tokens=1) + " then " + sgl.gen("b", max_tokens=1)
        group.join()
        s += sgl.select("end", ["yes", "no"], all_scores=False)

    program.run(backend=runtime).sync()
    told: list[Hint] = runtime.told  # type: ignore[attr-defined]
    assert len({hint.program for hint in told}) == 1
    root, first, second, last = told[0], told[1:4], told[4:7], told[7:]
    assert (root.group, root.size) == (0, 1)
    assert [(h.group, h.size, h.step, h.more) for h in first] == [(1, 3, 0, True)] * 3
    assert [(h.group, h.size, h.step, h.more) for h in second] == [(1, 3, 1, False)] * 3
    assert [(h.group, h.step) for h in last] == [(0, 1)] * 2


def test_hints_can_be_left_out(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> int:
        s += "word " * 20 + sgl.gen("x", max_tokens=4)
        s["x"]
        return retained(runtime)

    assert program.run(backend=runtime, hints=False).ret_value == 0
    assert runtime.told == [None]  # type: ignore[attr-defined]


def test_a_tools_time_is_how_long_its_text_is_kept(runtime: sgl.Runtime) -> None:
    def wait(seconds: int) -> int:
        return seconds

    tool = sgl.Tool(wait)
    tool.took(1.5)

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("go")
        s.tool_loop([tool], max_tokens=60)

    with pytest.raises((sgl.InvalidOutput, RuntimeError)):
        program.run(backend=runtime)
    assert runtime.told[0].retain_ms == 3000  # type: ignore[attr-defined]


def test_what_options_share_is_asked_for_once() -> None:
    asked = [Asked([1, 2, 3, 4], 1), Asked([1, 2, 3, 5], 1), Asked([1, 2, 3], 1), Asked([9, 2], 0)]
    plan = shares(asked)
    assert [tuple(each) for each in plan] == [(1, None), (3, 0), (3, 0), (0, None)]
    rows = rows_of(asked, plan, [[-1.0, -2.0, -3.0], [-4.0], [], [-5.0, -6.0]])
    assert rows == [[-1.0, -2.0, -3.0], [-1.0, -2.0, -4.0], [-1.0, -2.0], [-5.0, -6.0]]


# -------------------------------------------------------------- over HTTP


def test_over_http_a_program_keeps_its_text_until_it_ends() -> None:
    @sgl.function
    def program(s: Any) -> int:
        s += "word " * 20 + sgl.gen("x", max_tokens=4)
        s["x"]
        return int(server.stats()["pages_retained"])

    with LiveServer("fake?eos=0", "--page-size", "4") as server:
        backend: Any = sgl.RuntimeEndpoint(server.url)
        assert program.run(backend=backend).ret_value * 4 >= 100
        assert eventually(lambda: server.stats()["pages_retained"] == 0), "the program has ended"
        assert program.run(backend=backend, hints=False).ret_value == 0
        backend.shutdown()


def test_over_http_options_are_scored_as_in_process() -> None:
    options = ["red fox", "red hen", "blue", "red"] + [f"number {index}" for index in range(80)]

    @sgl.function
    def program(s: Any) -> None:
        s += "Which animal?" + sgl.select("x", options, all_scores=True)

    with LiveServer("fake?eos=0") as server, sgl.Runtime("fake?eos=0", core=FAKE) as runtime:
        backend: Any = sgl.RuntimeEndpoint(server.url)
        before = server.stats()["computed_prompt_tokens"]
        far, near = program.run(backend=backend), program.run(backend=runtime)
        assert far["x"] == near["x"]
        there, here = far.get_meta_info("x"), near.get_meta_info("x")
        for name in ("input_token_logprobs", "normalized_prompt_logprobs", "probs"):
            assert there[name] == here[name], name
        computed = server.stats()["computed_prompt_tokens"] - before
        once = runtime.get_server_info()["computed_prompt_tokens"]
        assert abs(computed - once) <= 8, "which of them came first may cost or save a token"
        backend.shutdown()
