"""Whoever waits for a program gets a clear error, in seconds, however its backend ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import bad_backends as bad
import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend as B

pytestmark = pytest.mark.timeout(30)
SOON = 10.0  # seconds; what takes longer hangs


@sgl.function
def ask(s: Any) -> None:
    s += "q" + sgl.gen("x") + "."


@sgl.function
def choose(s: Any) -> None:
    s += "q" + sgl.select("x", ["yes", "no"]) + "."


async def _pieces(state: Any, name: str | None = None) -> list[str]:
    return [piece async for piece in state.text_async_iter(name)]


def _joined(state: Any) -> Any:
    group = state.fork(2)
    group += sgl.gen("y")
    group.join()
    return state["y"]


def _copied(state: Any) -> Any:
    with state.copy() as inner:
        inner += sgl.gen("z")
    return state["z"]


def _role(state: Any) -> Any:
    with state.user():
        state += "more"
    return state.messages()


def _scope(state: Any) -> Any:
    with state.var_scope("all"):
        state += "more"
    return state["all"]


READERS: dict[str, Callable[[Any], Any]] = {
    "[]": lambda state: state["x"],
    "value": lambda state: state.value("x"),
    "text": lambda state: state.text(),
    "text, timeout": lambda state: state.text(timeout=60),
    "str": str,
    "messages": lambda state: state.messages(),
    "get_meta_info": lambda state: state.get_meta_info("x", 60),
    "get_var": lambda state: state.get_var("x", 60),
    "text_iter": lambda state: list(state.text_iter()),
    "text_iter, name": lambda state: list(state.text_iter("x")),
    "text_async_iter": lambda state: asyncio.run(_pieces(state)),
    "text_async_iter, name": lambda state: asyncio.run(_pieces(state, "x")),
    "fork": lambda state: state.fork(1)[0].text(),
    "stream of a fork": lambda state: list(state.fork(1)[0].text_iter()),
    "join": _joined,
    "copy": _copied,
    "role": _role,
    "scope": _scope,
}
ENDS: dict[Any, type[BaseException]] = {
    bad.raises: ValueError,
    bad.raises_half_way: ValueError,
    bad.raises_after_the_samples: ValueError,
    bad.says_nothing: RuntimeError,
    bad.gives_no_samples: RuntimeError,
    bad.gives_rubbish: AttributeError,
    bad.gives_no_iterator: TypeError,
    bad.exits: SystemExit,
    bad.interrupts: KeyboardInterrupt,
    bad.was_cancelled_inside: asyncio.CancelledError,
    bad.raises_what_cannot_be_printed: bad.Unprintable,
    bad.never: TimeoutError,
    bad.never_ends: TimeoutError,
    bad.never_closes: TimeoutError,
    bad.cannot_be_cancelled: TimeoutError,
}


def outcomes(read: dict[str, Callable[[], Any]], then: Callable[[], object]) -> dict[str, Any]:
    """What each of `read` comes to, all begun in threads of their own before `then` happens."""
    pool = ThreadPoolExecutor(len(read))
    futures = {name: pool.submit(each) for name, each in read.items()}
    time.sleep(0.05)
    then()
    done, _ = wait(futures.values(), SOON)
    pool.shutdown(wait=False)
    return {
        name: (future.exception() or future.result()) if future in done else "hangs"
        for name, future in futures.items()
    }


def ended(backend: bad.Bad, calls: int) -> list[str]:
    """How the calls of a backend ended, once so many have."""
    deadline = time.monotonic() + SOON
    while len(backend.ended) < calls and time.monotonic() < deadline:
        time.sleep(0.005)
    return backend.ended


FORMS = {bad.says_nothing, bad.gives_no_samples, bad.gives_rubbish}  # of gens; scores have others


@pytest.mark.parametrize(
    ("program", "end"),
    [(ask, end) for end in ENDS] + [(choose, end) for end in ENDS if end not in FORMS],
    ids=lambda each: getattr(each, "__name__", "?"),
)
def test_every_reader_hears_how_it_ended(program: sgl.Program, end: Any) -> None:
    backend = bad.Bad(end)
    state = program.run(backend=backend, timeout=0.5)
    readers = {name: lambda read=read: read(state) for name, read in READERS.items()}
    for name, error in outcomes(readers, backend.go.set).items():
        assert isinstance(error, sgl.ProgramError), (name, error)
        assert "in ask(): gen('x') failed" in str(error) or "select('x') failed" in str(error)
        assert type(error.__cause__) is ENDS[end], name
    state.sync(SOON)
    assert state.error() is state._branch.error
    for name, read in READERS.items():  # and those who come late hear it, too
        with pytest.raises(sgl.ProgramError, match=r"\('x'\) failed"):
            read(state)
        assert name


@pytest.mark.parametrize("end", [bad.never, bad.never_closes, bad.cannot_be_cancelled])
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_every_reader_hears_that_it_was_cancelled(end: Any, timeout: float | None) -> None:
    backend = bad.Bad(end)
    state = ask.run(backend=backend, timeout=timeout)
    backend.go.set()
    readers = {name: lambda read=read: read(state) for name, read in READERS.items()}
    for name, error in outcomes(readers, state.cancel).items():
        assert "the program was cancelled" in str(error), (name, error)
    assert "the program was cancelled" in str(state.error())


def test_what_was_there_before_can_still_be_read() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "q" + sgl.gen("a") + sgl.gen("b")

    state = program.run(backend=B(["first"]))
    assert state["a"] == "first"
    with pytest.raises(sgl.ProgramError):
        state["b"]
    state.cancel()
    assert state["a"] == state.get_var("a", 1) == "first"


@pytest.mark.parametrize("seconds", [0, 0.0, -1, -0.5, 0.05])
def test_a_timeout_is_an_error_and_the_value_may_still_come(seconds: float) -> None:
    async def late(request: Any) -> Any:
        yield bad.ANSWER

    backend = bad.Bad(late)
    state = ask.run(backend=backend)
    for read in (
        lambda: state.text(seconds),
        lambda: state.sync(seconds),
        lambda: state.get_var("x", seconds),
        lambda: state.get_meta_info("x", seconds),
    ):
        with pytest.raises(TimeoutError, match="it may still come"):
            read()
    backend.go.set()
    assert state.get_var("x", float("inf")) == "ok"
    assert state.text(1e12) == "qok."


def test_a_cancellation_at_any_moment_leaves_nobody_waiting() -> None:
    """The moment at which a branch begins to wait included."""
    for attempt in range(60):
        state = ask.run(backend=B(["x"] * 4, delay=0.0005))
        group = state.fork(3)
        group += sgl.gen("y")
        group.join()
        time.sleep(attempt * 2e-5)
        threading.Thread(target=state.cancel).start()
        outcome = outcomes({"sync": lambda: state.sync(SOON)}, lambda: None)  # noqa: B023
        assert outcome == {"sync": None}


def test_a_branch_that_is_cancelled_as_it_begins_to_wait_ends() -> None:
    """Both were asked of the loop while it did something else."""
    backend = B(["x"])
    entered, leave = threading.Event(), threading.Event()
    state = ask.start(backend, {})
    loop = state._branch.run.loop
    loop.post(lambda: (entered.set(), leave.wait(SOON)))
    assert entered.wait(SOON)
    state += sgl.gen("x")  # begins in the loop's next turn,
    loop.post(state.cancel)  # and is cancelled in the same
    leave.set()
    with pytest.raises(sgl.RequestFailed, match="cancelled"):
        state.get_var("x", SOON)


def test_the_body_ends_when_the_program_is_cancelled() -> None:
    held: list[Any] = []

    @sgl.function
    def program(s: Any) -> None:
        s += "q" + sgl.gen("x")
        held.append(s)
        s["x"]

    @sgl.function
    async def awaited(s: Any) -> None:
        s += "q" + sgl.gen("x")
        held.append(s)
        await s["x"]

    for each in (program, awaited):
        held.clear()
        backend = bad.free(bad.never)

        def cancel() -> None:
            while not held:
                time.sleep(0.01)
            held[0].cancel()

        readers = {"run": lambda: each.run(backend=backend)}  # noqa: B023
        error = outcomes(readers, cancel)["run"]
        assert isinstance(error, sgl.RequestFailed), each
        assert ended(backend, 1) == ["CancelledError"], "what ran was aborted"


def test_a_body_that_fails_ends_what_it_began() -> None:
    @sgl.function
    def program(s: Any) -> None:
        group = s.fork(2)
        group += sgl.gen("x")
        s += sgl.gen("x")
        kept.extend([s, *group])
        while len(backend.prompts) < 3:
            time.sleep(0.005)
        raise KeyError("bug")

    kept: list[Any] = []
    backend = bad.free(bad.never)
    with pytest.raises(KeyError, match="bug"):
        program.run(backend=backend)
    for state in kept:
        with pytest.raises(KeyError, match="bug"):
            state.get_var("x", SOON)
    assert ended(backend, 3) == ["CancelledError"] * 3


def test_waiting_in_the_loop_of_programs_is_refused_and_not_waited_for() -> None:
    @sgl.function
    async def reads(s: Any) -> None:
        s += sgl.gen("x")
        s["x"].get()

    @sgl.function
    async def runs(s: Any) -> None:
        judge.run(backend=B(["x"]))

    @sgl.function
    async def judge(s: Any) -> None:
        s += "x"

    for program in (reads, runs):
        with pytest.raises(RuntimeError, match=r"would block the event loop.*await"):
            program.run(backend=bad.free(bad.never))
