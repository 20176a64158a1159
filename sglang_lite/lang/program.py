"""`@function`: a program, and the ways to run it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sglang_lite.errors import RequestFailed
from sglang_lite.lang.async_state import AsyncState
from sglang_lite.lang.backends.default import as_backend, set_default_backend
from sglang_lite.lang.bodies import arguments_of
from sglang_lite.lang.branch import Branch
from sglang_lite.lang.cells import Cell
from sglang_lite.lang.errors import ProgramError
from sglang_lite.lang.options import ASKED, NAMES, asked_of, sampling_of
from sglang_lite.lang.run import CANCELLED, INSIDE, TRACING, Run
from sglang_lite.lang.state import ProgramState, State
from sglang_lite.loop import shared_loop

__all__ = ["Program", "ProgramError", "function", "set_default_backend"]

RUN = ("backend", "stream", "seed", "timeout", "hints", "parallel", "use_thread")


class Program:
    """A function of a `ProgramState`, with some of its arguments bound.

    Args:
        body: `def` or `async def`; the first argument is the state.
        num_api_spec_tokens: tokens to ask a completion API for in one call that later gens, too,
            are answered from, as long as the text between them is what the model wrote.

    Raises:
        TypeError: the body has no argument for the state, or one with a name that `run` needs; or
            it is a generator.
    """

    def __init__(
        self,
        body: Callable[..., Any],
        *,
        num_api_spec_tokens: int | None = None,
        bound: Mapping[str, Any] | None = None,
    ) -> None:
        self.body, self.num_api_spec_tokens = body, num_api_spec_tokens
        self.bound = dict(bound or {})
        self.is_async = inspect.iscoroutinefunction(body)
        self.arguments, self.takes_any = arguments_of(body, RUN)
        functools.update_wrapper(self, body)

    @property
    def func(self) -> Callable[..., Any]:
        """The body, under SGLang's name."""
        return self.body

    def bind(self, **arguments: Any) -> Program:
        """This program with `arguments` given.

        Raises:
            TypeError: the program has no such argument.
        """
        self._know(arguments)
        return Program(
            self.body,
            num_api_spec_tokens=self.num_api_spec_tokens,
            bound={**self.bound, **arguments},
        )

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run; given another program's state first, continue that one instead."""
        if arguments and isinstance(arguments[0], State):
            return self.body(*arguments, **{**named, **self.bound})
        if trace := TRACING.get():
            return trace(self, arguments, named)
        return self.run(*arguments, **named)

    def run(
        self,
        *arguments: Any,
        backend: Any = None,
        stream: bool = False,
        seed: int | None = None,
        timeout: float | None = None,
        hints: bool = True,
        parallel: bool = True,
        use_thread: bool = True,
        **named: Any,
    ) -> ProgramState:
        """Start the program. Reading the state waits; this returns when the body has.

        `named` holds the program's own arguments, and sampling parameters for gens that give
        none: `temperature=0, max_new_tokens=64`, ...

        Args:
            stream: return at once, with the body running beside.
            seed: makes the run reproducible: each gen gets a seed derived from it and from its
                place in the program.
            timeout: seconds that a gen or select may take; then it fails with TimeoutError.
            hints: tell the runtime what is known of the program (what is kept, what forks).
            parallel: let branches generate side by side.
            use_thread: there for programs written for SGLang; nothing depends on it.

        Raises:
            TypeError: a name is neither an argument nor a sampling parameter.
            Exception: whatever the body raises.
        """
        own, options = self.split(named)
        state = self.start(backend, options, seed, timeout, hints=hints, parallel=parallel)
        ended = self.live_beside(state, arguments, own) if self.is_async or stream else None
        if ended is None:
            self.live(state, arguments, own)
        elif not stream:
            ended.get()
        return state

    async def arun(self, *arguments: Any, **named: Any) -> ProgramState:
        """Run to the end: of the body, and of all that it appended. Takes what `run` takes.

        An `async def` body runs in the caller's loop, another one in a thread.
        """
        settings = {name: named.pop(name) for name in RUN if name in named}
        settings.pop("stream", None), settings.pop("use_thread", None)
        own, options = self.split(named)
        state = self.start(settings.pop("backend", None), options, **settings)
        try:
            if self.is_async:
                await self.alive(state, arguments, own)
            else:
                await self.live_beside(state, arguments, own)
            await AsyncState(state._branch).sync()
        except asyncio.CancelledError:
            state.cancel()
            raise
        return state

    def run_batch(self, batch: Sequence[Any], **options: Any) -> Any:
        """Run once for each dict of arguments; see `lang.batch.run_batch`."""
        from sglang_lite.lang.batch import run_batch

        return run_batch(self, batch, **options)

    async def arun_batch(self, batch: Sequence[Any], **options: Any) -> list[ProgramState]:
        """The same in an event loop; see `lang.batch.arun_batch`."""
        from sglang_lite.lang.batch import arun_batch

        return await arun_batch(self, batch, **options)

    def trace(self, *, backend: Any = None, **named: Any) -> Any:
        """What the program would do, as far as its arguments and outputs do not decide; see
        `lang.trace.trace`."""
        from sglang_lite.lang.trace import trace

        return trace(self, named, backend)

    def cache(self, backend: Any = None) -> str:
        """Have the backend compute the text with which every run begins; return it."""
        from sglang_lite.lang.trace import static_prefix

        chosen = as_backend(backend)
        if prefix := static_prefix(self, chosen, self.arguments):
            shared_loop().run(chosen.cache_prefix(prefix))
        return prefix

    def compile(self, *, backend: Any = None, **named: Any) -> Any:
        """The program with its graph; see `lang.trace.Compiled`."""
        from sglang_lite.lang.trace import Compiled

        return Compiled(self, self.trace(backend=backend, **named), backend)

    # -------------------------------------------------------------- parts of a run

    def split(self, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The program's own arguments, bound ones included, and sampling parameters.

        A name that the program has as an argument is the program's.
        """
        own, given = {}, {}
        for name, value in named.items():
            if name in NAMES and name not in self.arguments:
                given[name] = value
            else:
                own[name] = value
        self._know(own)
        return {**own, **self.bound}, {**sampling_of(given), **asked_of(given)} if given else {}

    def start(
        self,
        backend: Any,
        options: dict[str, Any],
        seed: int | None = None,
        timeout: float | None = None,
        *,
        hints: bool = True,
        parallel: bool = True,
    ) -> ProgramState:
        asked = {name: options[name] for name in ASKED.values() if name in options}
        run = Run(
            as_backend(backend),
            shared_loop(),
            {name: value for name, value in options.items() if name not in asked},
            asked,
            self.body.__name__,
            seed,
            timeout,
            hints,
            None if parallel else asyncio.Lock(),
            self.num_api_spec_tokens,
        )
        return ProgramState(Branch(run))

    def live(self, state: ProgramState, arguments: Sequence[Any], own: Mapping[str, Any]) -> None:
        """Run the body here."""
        token = INSIDE.set(state._branch.run)
        try:
            state.ret_value = self.body(state, *arguments, **own)
        except BaseException as error:
            state._branch.run.abandon(error)
            raise
        finally:
            INSIDE.reset(token)
            state._branch.run.finish()

    async def alive(
        self, state: ProgramState, arguments: Sequence[Any], own: Mapping[str, Any]
    ) -> None:
        """Run an `async def` body here."""
        token = INSIDE.set(state._branch.run)
        try:
            inside = AsyncState(state._branch)
            state.ret_value = await self.body(inside, *arguments, **own)
        except BaseException as error:
            gone = isinstance(error, asyncio.CancelledError)
            state._branch.run.abandon(RequestFailed(CANCELLED) if gone else error)
            raise
        finally:
            INSIDE.reset(token)
            state._branch.run.finish()

    def live_beside(
        self, state: ProgramState, arguments: Sequence[Any], own: Mapping[str, Any]
    ) -> Cell[None]:
        """Run the body in the loop, or in a thread of its own; the cell is set at its end."""
        ended: Cell[None] = Cell()

        def live() -> None:
            try:
                self.live(state, arguments, own)
            except BaseException as error:  # noqa: BLE001 - who waits gets it
                ended.fail(error)
            else:
                ended.set(None)

        async def alive() -> None:
            try:
                await self.alive(state, arguments, own)
            except BaseException as error:  # noqa: BLE001 - who waits gets it, uncancelled
                gone = isinstance(error, asyncio.CancelledError)
                ended.fail((state._branch.error or error) if gone else error)
            else:
                ended.set(None)

        if self.is_async:
            run = state._branch.run
            run.loop.post(lambda: run.keep(asyncio.ensure_future(alive())))
        else:
            threading.Thread(target=live, name=self.body.__name__, daemon=True).start()
        return ended

    def _know(self, named: Mapping[str, Any]) -> None:
        if self.takes_any:
            return
        if unknown := next((name for name in named if name not in self.arguments), None):
            known = ", ".join(self.arguments) or "none"
            raise TypeError(
                f"{self.body.__name__}() has no argument {unknown!r} (its arguments: {known}), "
                "and it is no sampling parameter"
            )


def function(
    body: Callable[..., Any] | None = None,
    *,
    num_api_spec_tokens: int | None = None,
    api_num_spec_tokens: int | None = None,
) -> Any:
    """Make a program of a function whose first argument is the state; `@function` or with ().

    `api_num_spec_tokens` is an older name of `num_api_spec_tokens`.
    """
    tokens = api_num_spec_tokens if num_api_spec_tokens is None else num_api_spec_tokens
    if body is not None:
        return Program(body, num_api_spec_tokens=tokens)
    return lambda body: Program(body, num_api_spec_tokens=tokens)
