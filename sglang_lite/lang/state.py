"""What an author holds: a text that grows, variables, forks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sglang_lite.lang.branch import Branch
from sglang_lite.lang.cells import Cell
from sglang_lite.lang.expressions import role
from sglang_lite.lang.graph import Graph
from sglang_lite.lang.group import ProgramStateGroup, fork
from sglang_lite.lang.nodes import (
    Assign,
    Expr,
    Nothing,
    RoleBegin,
    RoleEnd,
    ScopeBegin,
    ScopeEnd,
    parts_of,
)
from sglang_lite.lang.run import INSIDE, Event
from sglang_lite.lang.tools import MOST_STEPS, Loop, Read, loop, run_here, tools_of
from sglang_lite.loop import shared_loop
from sglang_lite.params import MAX_RETAIN_MS

_TURNS = (RoleBegin, RoleEnd)


class State:
    """What is common to a state of a program and to one of an `async def` program: writing."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch
        self.ret_value: Any = None  # what the body returned
        self.restored = False  # from a file of results, and not run

    def __iadd__(self, value: object) -> Any:
        self._append(parts_of(value))
        return self

    def _append(self, parts: Sequence[Expr]) -> None:
        names = [name for part in parts for name in part.sets]
        if len(names) > len(set(names)):
            again = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"one expression sets {again!r} twice")
        self._branch.append(parts)

    def _cell(self, name: str) -> Cell[Any]:
        cells = self._branch.cells
        if name not in cells:
            known = ", ".join(map(repr, cells)) or "none so far"
            raise KeyError(f"no expression sets {name!r}; the variables are: {known}")
        return cells[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a variable, to anything. It is there at once, and joins and forks carry it."""
        self._branch.append([Assign(name, value)])
        self._branch.cells[name] = Cell.of(value)

    set_var = __setitem__

    def _value(self, name: str, text: Any) -> Any:
        form = self._branch.forms.get(name)
        if form is None:
            return text
        return [form.parse(each) for each in text] if isinstance(text, list) else form.parse(text)

    def _tools(
        self, tools: Sequence[Any], name: str, max_steps: int, sampling: dict[str, Any]
    ) -> Loop:
        pauses = [tool.seconds for tool in tools_of(tools).values()]
        self._branch.pause_ms = min(MAX_RETAIN_MS, int(2000 * max(pauses)))
        return loop(self.__iadd__, tools, name, max_steps, sampling)

    def __contains__(self, name: object) -> bool:
        return name in self._branch.cells

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens, calls and seconds of all gens of this run, its forks included, so far."""
        return self._branch.run.usage()

    def usage_of(self, name: str | None = None) -> dict[str, Any]:
        """The same for the gens of this branch alone, or for those that set `name` in it."""

        def wanted(event: Event) -> bool:
            return event.branch == self._branch.path and (name is None or name in event.part.sets)

        return self._branch.run.usage(wanted)

    def graph(self) -> Graph:
        """What this run has done so far, its forks included."""
        run = self._branch.run
        encode = getattr(run.backend, "encode", None)
        return Graph(run.events, name=run.name, encode=encode)

    def cancel(self) -> None:
        """End the whole run: what is being generated is aborted, and readers get an error."""
        self._branch.run.cancel()

    async def text_async_iter(
        self, var_name: str | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """Pieces of the text, or of one variable's, in an event loop; from the start for each
        reader. With `return_meta_data`, pairs (text, meta)."""
        async for entry in self._branch.journal.read_async(self._over(var_name)):
            if var_name is None or entry.variable == var_name:
                yield (entry.text, entry.meta) if return_meta_data else entry.text

    def _over(self, name: str | None) -> Callable[[], bool]:
        """Whether all that is to be read of the text, or of a variable, is there.

        A body that reads its own text, or whoever appends to a program that has ended, gets what
        is appended up to now: its end would be waited for forever.
        """
        branch, cells = self._branch, self._branch.cells
        if INSIDE.get() is branch.run or not branch.run.running:
            moment = branch.moment()
            return lambda: moment.done or (name in cells and cells[name].done)
        return lambda: branch.journal.closed or (name in cells and cells[name].done)

    # -------------------------------------------------------------- turns and scopes

    def system(self, content: object = None) -> Any:
        return self._role("system", content)

    def user(self, content: object = None) -> Any:
        return self._role("user", content)

    def assistant(self, content: object = None) -> Any:
        return self._role("assistant", content)

    def system_begin(self) -> None:
        self._branch.append([RoleBegin("system")])

    def system_end(self) -> None:
        self._branch.append([RoleEnd("system")])

    def user_begin(self) -> None:
        self._branch.append([RoleBegin("user")])

    def user_end(self) -> None:
        self._branch.append([RoleEnd("user")])

    def assistant_begin(self) -> None:
        self._branch.append([RoleBegin("assistant")])

    def assistant_end(self) -> None:
        self._branch.append([RoleEnd("assistant")])

    def _role(self, name: str, content: object) -> Any:
        """Append a whole turn; without content, a context manager for its inside.

        What is returned for a whole turn adds nothing when appended once more, so that
        `s += s.user(text)` says it once.
        """
        if content is None:
            return self._between(RoleBegin(name), RoleEnd(name))
        self._append(parts_of(role(name, content)))
        return Nothing()

    def var_scope(self, name: str) -> Any:
        """All text written inside the `with` block, generated or not, becomes `name`."""
        return self._between(ScopeBegin(name), ScopeEnd(name))

    @contextmanager
    def _between(self, begin: Expr, end: Expr) -> Iterator[None]:
        self._branch.append([begin])
        try:
            yield
        finally:
            self._branch.append([end])

    # -------------------------------------------------------------- forks

    def fork(self, size: int = 1, position_ids_offset: Sequence[int] | None = None) -> Any:
        """`size` branches that start from here; this one does not see what they write.

        `position_ids_offset` is there for programs written for SGLang, which ignores it as well.
        """
        children = [type(self)(branch) for branch in fork(self._branch, size)]
        return ProgramStateGroup(children, self)

    @contextmanager
    def copy(self) -> Iterator[Any]:
        """One branch that starts from here, joined at the end of the block."""
        group = self.fork(1)
        try:
            yield group[0]
        finally:
            group.join()


class ProgramState(State):
    """A program's text. `+=` returns at once; reading waits, `timeout` seconds at most."""

    def __str__(self) -> str:
        """SGLang's form of the text; waits for it."""
        return f"ProgramState({self.text()})"

    def __repr__(self) -> str:
        """The same of what there is so far: debuggers must not wait."""
        return f"ProgramState({self._branch.prompt.text})"

    def text(self, timeout: float | None = None) -> str:
        """The whole text so far. Raises ProgramError if something on the way failed."""
        return self._branch.moment().get(timeout).prompt.text

    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far; turns that have ended without white space before them."""
        moment = self._branch.moment().get()
        return conversation(moment)

    def __getitem__(self, name: str) -> Any:
        """The value of a variable, waiting for it.

        Raises:
            KeyError: no expression so far sets it.
            ProgramError: it could not be set; the cause is the backend's error.
        """
        return self._cell(name).get()

    def get_var(self, name: str, timeout: float | None = None) -> Any:
        """The same; TimeoutError if it is not there after `timeout` seconds."""
        return self._cell(name).get(timeout)

    def get_meta_info(self, name: str, timeout: float | None = None) -> Any:
        """What is known of how a variable came about: tokens, logprobs, why it ended."""
        self._cell(name).get(timeout)
        return self._branch.meta.get(name)

    def error(self) -> BaseException | None:
        """Wait for the end of what was appended; return what went wrong, if anything did."""
        self.sync()
        return self._branch.error

    def sync(self, timeout: float | None = None) -> None:
        """Wait until all that was appended so far has run, well or not."""
        self._branch.moment().wait(timeout)

    def value(self, name: str) -> Any:
        """What a variable says, of the type that its `gen` was given; a text if it was given none.

        Raises:
            InvalidOutput: the text is no value of that type.
        """
        return self._value(name, self[name])

    def tool_loop(
        self,
        tools: Sequence[Any],
        name: str = "answer",
        *,
        max_steps: int = MOST_STEPS,
        **sampling: Any,
    ) -> str:
        """Let the model call functions, a turn each, until it answers; return the answer.

        A call is JSON that the function's signature holds; what the function returns, or the
        error that it raises, is told in a turn of the role "tool". The answer becomes the
        variable `name`, the calls `name`_call_0 and so on. Say what there is to call before, in a
        system turn for example: `sgl.describe(tools)`.

        Raises:
            RuntimeError: there is no answer after `max_steps` turns.
        """
        steps = self._tools(tools, name, max_steps, sampling)
        reply: Any = None
        while True:
            try:
                wanted = steps.send(reply)
            except StopIteration as end:
                self[name] = end.value
                return str(end.value)
            if isinstance(wanted, Read):
                reply = self.value(wanted.name)
            else:
                reply = run_here(wanted.call, shared_loop().run)

    def text_iter(self, var_name: str | None = None) -> Iterator[str]:
        """Pieces of the text, or of one variable's, as they come; from the start for each reader.

        Raises at its end what went wrong on the way.
        """
        for entry in self._branch.journal.read(self._over(var_name)):
            if var_name is None or entry.variable == var_name:
                yield entry.text


def conversation(moment: Any) -> list[dict[str, Any]]:
    """The messages of a snapshot, as a reader wants them."""
    turns = [dict(message) for message in moment.messages]
    for turn in turns:
        turn["content"] = turn["content"].lstrip()
    if moment.role is not None:
        turns[-1]["content"] = moment.prompt.text[moment.content_from :]
    return turns
