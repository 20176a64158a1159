"""What a program would do: its body run on a state that records, with stand-ins for the unknown.

A program that is called is traced as well, as a branch that begins with nothing. Other threads run
on undisturbed. What depends on an argument or an output (a branch of the body, the length of a
text) ends the trace there, and never raises.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from sglang_lite.lang.backends.default import as_backend
from sglang_lite.lang.cells import Cell
from sglang_lite.lang.execute import Executor
from sglang_lite.lang.graph import Graph
from sglang_lite.lang.group import ProgramStateGroup
from sglang_lite.lang.nodes import Argument, Expr, Opaque, Untold, Variable
from sglang_lite.lang.program import Program
from sglang_lite.lang.run import TRACING, Path, Run
from sglang_lite.lang.state import State
from sglang_lite.lang.templates import TEMPLATES, Template
from sglang_lite.loop import shared_loop

MOST_EVENTS = 10_000  # a loop that only an output ends would be traced forever


class _Mute:
    """A backend that is never asked: it has a template."""

    wants_prefix = False

    def __init__(self, template: Template) -> None:
        self.template = template


class Join(Expr):
    """Branches come together, in a trace."""

    what = "join"

    def __init__(self, sources: Sequence[Path]) -> None:
        super().__init__()
        object.__setattr__(self, "sources", tuple(sources))


class _Recorder(Executor):
    def __init__(self, run: Run, path: Path = ()) -> None:
        super().__init__(run, path)
        self.cells: dict[str, Cell[Any]] = {}
        self.forks = 0

    def append(self, parts: Sequence[Expr]) -> None:
        if len(self.run.events) >= MOST_EVENTS:
            raise Untold(f"it goes on after {MOST_EVENTS:,} expressions")
        for part in parts:
            for name in part.sets:
                self.cells[name] = Cell.of(None)
            if part.waits:
                self.note(part, 0.0, 0.0, self.prompt, {})
            else:
                self.do(part)


class _TracedState(State):
    """A state whose variables are stand-ins, awaited or not."""

    _branch: _Recorder  # type: ignore[assignment]

    def __getitem__(self, name: str) -> Variable:
        self._cell(name)
        return Variable(name, self._branch.path)

    def get_var(self, name: str, timeout: float | None = None) -> Variable:
        return self[name]

    def error(self) -> None:
        return None

    def sync(self, timeout: float | None = None) -> _Done:
        return _Done()

    def __getattr__(self, name: str) -> NoReturn:
        raise Untold(f"what {name} says is not known before the program runs")

    def fork(self, size: int = 1, position_ids_offset: object = None) -> _TracedGroup:
        parent = self._branch
        parent.forks += 1
        children = []
        for index in range(size):
            child = _Recorder(parent.run, (*parent.path, parent.forks, index))
            child.restore(parent.snapshot())
            child.cells = dict(parent.cells)
            children.append(_TracedState(child))  # type: ignore[arg-type]
        return _TracedGroup(children, self)


class _TracedGroup(ProgramStateGroup[Any]):
    def join(self, mode: str = "gather_variable") -> None:
        parent = self._parent._branch
        for state in self.states:
            for name in state._branch.cells:
                if mode == "gather_variable":
                    parent.cells.setdefault(name, Cell.of(None))
        paths = [state._branch.path for state in self.states]
        parent.note(Join(paths), 0.0, 0.0, parent.prompt, {})


class _Done:
    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def trace(program: Program, named: Mapping[str, Any], backend: Any = None) -> Graph:
    """The graph of `program` with the arguments `named`; the others are unknown.

    Defaults and bound values count as known. The body runs once more than it would, so whatever
    it does to the world is done.
    """
    own, _ = program.split(named)
    return _traced(program, own, _template(backend))


def static_prefix(program: Program, backend: Any, unknown: Sequence[str]) -> str:
    """Literal text, of turns as well, up to the first that depends on an argument of `unknown`, on
    an output or on a branch."""
    own = {name: Argument(name) for name in unknown if name not in program.bound}
    return _traced(program, {**own, **program.bound}, backend.template).static_prefix


def _traced(program: Program, own: Mapping[str, Any], template: Template) -> Graph:
    run = Run(_Mute(template), shared_loop(), name=program.body.__name__, hints=False)  # type: ignore[arg-type]
    recorder = _Recorder(run)
    given = {name: Argument(name) for name in _needed(program) if name not in own}
    opaque = ""

    def call(inner: Program, arguments: Sequence[Any], named: Mapping[str, Any]) -> _TracedState:
        recorder.forks += 1
        state = _TracedState(_Recorder(run, (recorder.forks, 0)))  # type: ignore[arg-type]
        made = inner.body(state, *arguments, **inner.split(named)[0])
        state.ret_value = _finish(made) if inner.is_async else made
        return state

    token = TRACING.set(call)
    try:
        made = program.body(_TracedState(recorder), **{**given, **own})  # type: ignore[arg-type]
        if program.is_async:
            _finish(made)
    except Untold as end:
        opaque = str(end)
    except Exception as error:  # noqa: BLE001 - a body may trip over a stand-in in any way
        opaque = f"{type(error).__name__}: {error}"
    finally:
        TRACING.reset(token)
    return Graph(run.events, name=run.name, opaque=opaque)


def _finish(body: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing but what is known; what it returns."""
    try:
        body.send(None)
    except StopIteration as end:
        return end.value
    body.close()
    raise Untold("the program waits for something outside of it")


def _needed(program: Program) -> list[str]:
    import inspect

    parameters = list(inspect.signature(program.body).parameters.values())[1:]
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    empty = inspect.Parameter.empty
    return [p.name for p in parameters if p.default is empty and p.kind not in variable]


def _template(backend: Any) -> Template:
    with suppress(Exception):  # none given, none set
        return as_backend(backend).template
    return TEMPLATES["default"]


class Compiled:
    """A program whose graph is known. It runs as the program does: bodies cost next to nothing.

    Raises:
        Opaque: the graph depends on arguments that were not given, or on outputs.
    """

    def __init__(self, program: Program, graph: Graph, backend: Any = None) -> None:
        if graph.opaque:
            raise Opaque(
                f"{program.body.__name__}() cannot be compiled, for what it does depends on more "
                f"than its text: {graph.opaque}"
            )
        self.program, self.graph, self._backend = program, graph, backend

    def run(self, *arguments: Any, **named: Any) -> Any:
        return self.program.run(*arguments, **{"backend": self._backend, **named})

    def run_batch(self, batch: Sequence[Any], **options: Any) -> Any:
        return self.program.run_batch(batch, **{"backend": self._backend, **options})

    def print_graph(self) -> None:
        print(self.graph)  # noqa: T201 - that is what it is for
