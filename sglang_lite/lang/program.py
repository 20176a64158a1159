"""`@function`: a program, and the ways to run it."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sglang_lite.errors import InvalidRequest
from sglang_lite.lang.backends.protocol import Backend
from sglang_lite.lang.branch import Branch, Run
from sglang_lite.lang.errors import ProgramError
from sglang_lite.lang.state import ProgramState
from sglang_lite.loop import shared_loop

__all__ = ["Program", "ProgramError", "function", "set_default_backend"]

# run options -> sampling parameters
SAMPLING = {
    "max_new_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "min_tokens": "min_tokens",
    "stop": "stop",
    "stop_token_ids": "stop_token_ids",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "repetition_penalty": "repetition_penalty",
    "logit_bias": "logit_bias",
    "ignore_eos": "ignore_eos",
}

_default: list[Backend] = []


def set_default_backend(backend: Any) -> None:
    """What runs programs that are not given a backend: a backend of the language or an Engine."""
    _default[:] = [as_backend(backend)]


def as_backend(backend: Any) -> Backend:
    """`backend` as the language needs it.

    Raises:
        InvalidRequest: there is none, neither given nor set.
    """
    if backend is None:
        if not _default:
            raise InvalidRequest(
                "no backend: pass one (run(backend=...)) or call set_default_backend(Runtime(...))."
            )
        return _default[0]
    if wrap := getattr(backend, "as_language_backend", None):  # an Engine
        wrapped: Backend = wrap()
        return wrapped
    known: Backend = backend
    return known


class Program:
    """A function of a `ProgramState`, with some of its arguments bound.

    Args:
        num_api_spec_tokens: of SGLang's interface; for completion APIs, and carried along only.
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
        names = list(inspect.signature(body).parameters)
        if not names:
            raise TypeError(f"{body.__name__}() needs a first argument for the program's state")
        self.arguments = names[1:]
        functools.update_wrapper(self, body)

    def bind(self, **arguments: Any) -> Program:
        """This program with `arguments` given."""
        return Program(
            self.body,
            num_api_spec_tokens=self.num_api_spec_tokens,
            bound={**self.bound, **arguments},
        )

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run; given another program's state first, continue that one instead."""
        if arguments and isinstance(arguments[0], ProgramState):
            return self.body(*arguments, **{**self.bound, **named})
        return self.run(*arguments, **named)

    def run(
        self,
        *arguments: Any,
        backend: Any = None,
        stream: bool = False,
        seed: int | None = None,
        **named: Any,
    ) -> ProgramState:
        """Start the program. Reading the state waits; this returns when the body has.

        `named` holds the program's own arguments, and sampling parameters for gens that give
        none: `temperature=0, max_new_tokens=64`, ...

        Args:
            stream: return at once, with the body running in a thread of its own.
            seed: makes the run reproducible: each gen gets a seed derived from it and from its
                place in the program.
        """
        own, options = self.split(named)
        state = self.start(as_backend(backend), options, seed)
        if stream:
            self._in_thread(state, arguments, own)
            return state
        try:
            state.ret_value = self.body(state, *arguments, **own)
        finally:
            finish(state)
        return state

    def run_batch(self, batch: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        """Run once for each dict of arguments; see `lang.batch.run_batch`."""
        from sglang_lite.lang.batch import run_batch

        return run_batch(self, batch, **options)

    # -------------------------------------------------------------- parts of a run

    def split(self, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The program's own arguments, bound ones included, and sampling parameters.

        A name that the program has as an argument is the program's.
        """
        own = {**self.bound, **{k: v for k, v in named.items() if self._is_own(k)}}
        given = {k: v for k, v in named.items() if not self._is_own(k) and v is not None}
        options = {SAMPLING[k]: v for k, v in given.items()}
        for name in ("stop", "stop_token_ids"):
            if name in options:
                value = options[name]
                options[name] = (value,) if isinstance(value, (str, int)) else tuple(value)
        return own, options

    def start(self, backend: Backend, options: dict[str, Any], seed: int | None) -> ProgramState:
        return ProgramState(Branch(Run(backend, shared_loop(), options, seed)))

    def _is_own(self, name: str) -> bool:
        return name in self.arguments or name not in SAMPLING

    def _in_thread(
        self, state: ProgramState, arguments: Sequence[Any], own: dict[str, Any]
    ) -> None:
        def live() -> None:
            try:
                state.ret_value = self.body(state, *arguments, **own)
            except Exception as error:  # noqa: BLE001 - the readers of the stream get it
                state._branch.fail(error)
            finally:
                finish(state)

        threading.Thread(target=live, name=self.body.__name__, daemon=True).start()


def finish(state: ProgramState) -> None:
    """The body is done: readers of the stream get to its end once all of it has run."""
    branch = state._branch
    branch.moment().add_done_callback(lambda _: branch.journal.close(branch.error))


def function(
    body: Callable[..., Any] | None = None, *, num_api_spec_tokens: int | None = None
) -> Any:
    """Make a program of a function whose first argument is the state; `@function` or with ()."""
    if body is not None:
        return Program(body, num_api_spec_tokens=num_api_spec_tokens)
    return lambda body: Program(body, num_api_spec_tokens=num_api_spec_tokens)
