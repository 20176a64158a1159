"""One program over many arguments."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sglang_lite.global_config import global_config
from sglang_lite.lang.async_state import AsyncState
from sglang_lite.lang.backends.default import as_backend
from sglang_lite.lang.crew import Crew
from sglang_lite.lang.program import Program
from sglang_lite.lang.progress import Progress
from sglang_lite.lang.resume import Kept
from sglang_lite.lang.state import ProgramState
from sglang_lite.lang.trace import static_prefix
from sglang_lite.loop import shared_loop

MOST_UNFINISHED = 1024  # programs of a batch at a time, unless the caller says otherwise
SHORTEST_PREFIX = 65  # characters worth sending ahead
TICK = 0.002  # seconds without a new body after which one more thread gets to run some

OnResult = Callable[[int, ProgramState], Any]
OnError = Literal["return", "raise"]


class Batch:
    """Rows, and what happens to each state once its program has ended."""

    def __init__(
        self,
        program: Program,
        batch: Sequence[Any],
        *,
        backend: Any = None,
        progress_bar: bool = False,
        on_result: OnResult | None = None,
        on_error: OnError = "return",
        resume: str | Path | None = None,
        seed: int | None = None,
        timeout: float | None = None,
        hints: bool = True,
        parallel: bool = True,
        **named: Any,
    ) -> None:
        if on_error not in ("return", "raise"):
            raise ValueError(f"on_error is 'return' or 'raise', not {on_error!r}")
        self.program, self.backend = program, as_backend(backend)
        self.rows = [_row(program, row) for row in batch]
        self.common, self.options = program.split(named)
        for row in self.rows:
            program._know(row)
        self.on_result, self.on_error = on_result, on_error
        self.kept = Kept(resume, program.body.__name__) if resume is not None else None
        self.progress = Progress(len(self.rows), program.body.__name__, shown=progress_bar)
        self.settings: dict[str, Any] = {"timeout": timeout, "hints": hints, "parallel": parallel}
        self.seed = seed

    def arguments(self, index: int) -> dict[str, Any]:
        return {**self.common, **self.rows[index], **self.program.bound}

    def start(self, index: int) -> ProgramState:
        """The state of a row's run, which has ended already if it is kept from another time."""
        seed = self.seed + index if type(self.seed) is int else self.seed
        state = self.program.start(self.backend, self.options, seed, **self.settings)
        if self.kept is not None and (known := self.kept.of(index, self.arguments(index))):
            known.restore(state)
        return state

    def ended(self, index: int, state: ProgramState) -> Any:
        """A row's program is over; return what `on_result` returns.

        Raises:
            BaseException: it failed, and on_error="raise" asks for that.
        """
        error = state._branch.error
        if error is None and self.kept is not None:
            self.kept.add(index, self.arguments(index), state)
        self.progress.add(state)
        told = self.on_result(index, state) if self.on_result is not None else None
        if error is not None and self.on_error == "raise":
            raise error
        return told

    def prefix(self) -> str:
        """What to send ahead: nothing unless several programs begin with it."""
        wanted = self.backend.wants_prefix and global_config.enable_precache_with_tracing
        if not wanted or len(self.rows) < 2:
            return ""
        found = static_prefix(self.program, self.backend, list(self.rows[0]))
        return found if len(found) >= SHORTEST_PREFIX else ""


def run_batch(
    program: Program,
    batch: Sequence[Any],
    *,
    num_threads: int | str = "auto",
    generator_style: bool = False,
    ordered: bool = True,
    **options: Any,
) -> Any:
    """Run `program` once for each dict (or tuple) of arguments; the states, in the batch's order.

    A program that fails leaves the others alone: its state has an `error()`.

    Args:
        num_threads: how many programs may be unfinished at a time; "auto": `MOST_UNFINISHED`.
        generator_style: an iterator over the states, each as soon as it and those before are done.
        ordered: False: states come as they end, from the iterator as well.
        backend: see `Program.run`; as are seed (of the first row; the others count up), timeout,
            hints and parallel.
        progress_bar: show one on stderr, with programs/s, tokens/s and the hit rate.
        on_result: called with (index, state) for each program as it ends, in the caller's thread.
        on_error: "raise": the first error of a program ends the batch; what runs is cancelled.
        resume: a file of results. Rows whose results are in it are not run again; others are
            added as they end.
        named: sampling parameters, and arguments common to all.

    Raises:
        TypeError: the batch is not a list of dicts or tuples, or one has an unknown argument.
        ValueError: `num_threads` is neither "auto" nor at least 1.
        ProgramError: a program failed, and on_error="raise".
    """
    room = _room("num_threads", num_threads)
    whole = Batch(program, batch, **options)
    if prefix := whole.prefix():
        shared_loop().run(whole.backend.cache_prefix(prefix))
    states = _as_they_end(whole, room)
    if ordered:
        states = _in_order(states)
    each = (state for _, state in states)
    return each if generator_style else list(each)


def _as_they_end(whole: Batch, room: int) -> Iterator[tuple[int, ProgramState]]:
    """(index, state) of each row, run by a crew of threads, or in the loop if it is async."""
    done: deque[tuple[int, ProgramState] | BaseException] = deque()  # or why a row cannot begin
    some = threading.Event()
    unfinished: dict[int, ProgramState] = {}

    def jobs() -> Iterator[Callable[[], None]]:
        for index in range(len(whole.rows)):
            yield lambda index=index: one(index)  # type: ignore[misc]

    def one(index: int) -> None:
        try:
            state = whole.start(index)
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            done.append(error)
            some.set()
            return
        unfinished[index] = state

        def over() -> None:
            crew.leave()
            del unfinished[index]
            done.append((index, state))
            if not some.is_set():
                some.set()

        _live(whole.program, state, whole.arguments(index))
        state._branch.when_idle(over)

    crew = Crew(jobs(), room)
    crew.push()
    try:
        for _ in whole.rows:
            _await_some(done, some, crew)
            found = done.popleft()
            if isinstance(found, BaseException):
                raise found
            whole.ended(*found)
            yield found
    finally:
        crew.stop()
        whole.progress.close()
        for state in list(unfinished.values()):
            state.cancel()


def _await_some(done: deque[Any], some: threading.Event, crew: Crew) -> None:
    """Wait until there is one, with one more thread whenever no body begins for a while."""
    before = crew.begun
    while not done:
        some.clear()
        if not done and not some.wait(None if crew.over else TICK) and crew.begun == before:
            crew.push()
        before = crew.begun


def _live(program: Program, state: ProgramState, own: Mapping[str, Any]) -> None:
    """Run a body; what it raises is this program's error, not the batch's."""
    try:
        if state.restored:
            state._branch.run.finish()
        elif program.is_async:
            program.live_beside(state, (), own).get()
        else:
            program.live(state, (), own)
    except BaseException:  # noqa: BLE001 - the state has it; nobody waits for this thread
        pass


def _in_order(states: Iterator[tuple[int, ProgramState]]) -> Iterator[tuple[int, ProgramState]]:
    waiting: dict[int, ProgramState] = {}
    following = 0
    for index, state in states:
        waiting[index] = state
        while following in waiting:
            yield following, waiting.pop(following)
            following += 1


async def arun_batch(
    program: Program,
    batch: Sequence[Any],
    *,
    max_concurrency: int | None = None,
    ordered: bool = True,
    **options: Any,
) -> list[ProgramState]:
    """`run_batch` in an event loop. `async def` bodies run as its tasks, others in threads.

    Args:
        max_concurrency: how many programs may be unfinished at a time; None: `MOST_UNFINISHED`.
        on_result: may be a coroutine function, too.
        options: as in `run_batch`.
    """
    room = asyncio.Semaphore(_room("max_concurrency", max_concurrency))
    whole = Batch(program, batch, **options)
    if prefix := whole.prefix():
        await shared_loop().await_here(whole.backend.cache_prefix(prefix))
    states: list[tuple[int, ProgramState]] = []

    async def one(index: int) -> None:
        async with room:
            state = whole.start(index)
            try:
                await _alive(program, state, whole.arguments(index))
            except asyncio.CancelledError:
                state.cancel()
                raise
        states.append((index, state))
        made = whole.ended(index, state)
        if inspect.isawaitable(made):
            await made

    tasks = [asyncio.ensure_future(one(index)) for index in range(len(whole.rows))]
    try:
        await asyncio.gather(*tasks)
    finally:
        whole.progress.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [state for _, state in (sorted(states, key=lambda each: each[0]) if ordered else states)]


async def _alive(program: Program, state: ProgramState, own: Mapping[str, Any]) -> None:
    try:
        if state.restored:
            state._branch.run.finish()
        elif program.is_async:
            await program.alive(state, (), own)
        else:
            await program.live_beside(state, (), own)
    except Exception:  # noqa: BLE001 - the state has it
        pass
    await AsyncState(state._branch).sync()


def _row(program: Program, row: Any) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return dict(row)
    if isinstance(row, (tuple, list)):
        free = [name for name in program.arguments if name not in program.bound]
        if len(row) > len(free):
            raise TypeError(f"a row has {len(row)} values for the arguments {', '.join(free)}")
        return dict(zip(free, row, strict=False))
    raise TypeError("a batch is a list of dicts or tuples, one for each run of the program")


def _room(name: str, value: int | str | None) -> int:
    if value in ("auto", None):
        return MOST_UNFINISHED
    if isinstance(value, int) and value >= 1:
        return value
    raise ValueError(f"{name} is 'auto' or at least 1, not {value!r}")
