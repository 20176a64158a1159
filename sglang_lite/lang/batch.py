"""One program over many arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tqdm import tqdm

from sglang_lite.lang.backends.protocol import Backend
from sglang_lite.lang.prefix import static_prefix
from sglang_lite.lang.program import Program, as_backend, finish
from sglang_lite.lang.state import ProgramState

MOST_THREADS = 64  # bodies that run at once; what they generate is not bound by it
SHORTEST_PREFIX = 65  # characters worth sending ahead


def run_batch(
    program: Program,
    batch: Sequence[Mapping[str, Any]],
    *,
    backend: Any = None,
    num_threads: int | str = "auto",
    progress_bar: bool = False,
    generator_style: bool = False,
    seed: int | None = None,
    **named: Any,
) -> Any:
    """Run `program` once for each dict of arguments; the states, in the order of the batch.

    A program that fails leaves the others alone: its state has an `error()`.

    Args:
        num_threads: how many programs may be unfinished at a time; "auto": as many as there are.
        progress_bar: show one, on stderr.
        generator_style: an iterator over the states, each as soon as it and those before are done.
        named: sampling parameters, and arguments common to all.

    Raises:
        TypeError: the batch is not a sequence of dicts.
        ValueError: `num_threads` is neither "auto" nor at least 1.
    """
    rows = list(batch)
    if not all(isinstance(row, Mapping) for row in rows):
        raise TypeError("a batch is a list of dicts, one for each run of the program")
    if num_threads != "auto" and not (isinstance(num_threads, int) and num_threads >= 1):
        raise ValueError(f"num_threads is 'auto' or at least 1, not {num_threads!r}")
    chosen = as_backend(backend)
    if chosen.wants_prefix and len(rows) > 1:
        _send_ahead(program, rows, chosen)
    states = _run(program, rows, chosen, num_threads, seed, named)
    if progress_bar:
        states = tqdm(states, total=len(rows), desc=program.body.__name__)
    return states if generator_style else list(states)


def _run(
    program: Program,
    rows: Sequence[Mapping[str, Any]],
    backend: Backend,
    num_threads: int | str,
    seed: int | None,
    named: Mapping[str, Any],
) -> Iterator[ProgramState]:
    bounded = isinstance(num_threads, int)
    workers = num_threads if isinstance(num_threads, int) else MOST_THREADS
    workers = max(1, min(workers, len(rows)))

    def one(index: int, row: Mapping[str, Any]) -> ProgramState:
        own, options = program.split({**named, **row})
        state = program.start(backend, options, None if seed is None else seed + index)
        try:
            state.ret_value = program.body(state, **own)
        except Exception as error:  # noqa: BLE001 - it is this program's, not the batch's
            state._branch.fail(error)
        finish(state)
        if bounded:
            state.sync()
        return state

    with ThreadPoolExecutor(workers, "sglang-lite batch") as pool:
        started: list[Future[ProgramState]] = [pool.submit(one, *each) for each in enumerate(rows)]
        for future in started:
            state = future.result()
            state.sync()
            yield state


def _send_ahead(program: Program, rows: Sequence[Mapping[str, Any]], backend: Backend) -> None:
    prefix = static_prefix(program, rows[0])
    if len(prefix) >= SHORTEST_PREFIX:
        from sglang_lite.loop import shared_loop

        shared_loop().run(backend.cache_prefix(prefix))
