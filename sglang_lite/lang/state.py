"""What an author holds: a text that grows, variables, forks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sglang_lite.lang.branch import Branch, Snapshot
from sglang_lite.lang.expressions import role
from sglang_lite.lang.nodes import (
    Expr,
    Nothing,
    RoleBegin,
    RoleEnd,
    ScopeBegin,
    ScopeEnd,
    here,
    parts_of,
)


class ProgramState:
    """A program's text. `+=` returns at once; `text()` and `[name]` wait."""

    def __init__(self, branch: Branch) -> None:
        self._branch = branch
        self.ret_value: Any = None

    def __iadd__(self, value: object) -> ProgramState:
        self._branch.append(parts_of(value))
        return self

    # -------------------------------------------------------------- reading

    def text(self) -> str:
        """The whole text so far. Raises ProgramError if something on the way failed."""
        return self._now().prompt.text

    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far."""
        return self._now().conversation()

    def __getitem__(self, name: str) -> Any:
        """The value of a variable, waiting for it.

        Raises:
            KeyError: no expression so far sets it.
            ProgramError: it could not be set; the cause is the backend's error.
        """
        futures = self._branch.futures
        if name not in futures:
            known = ", ".join(map(repr, futures)) or "none so far"
            raise KeyError(f"no expression sets {name!r}; the variables are: {known}")
        return futures[name].result()

    get_var = __getitem__

    def __contains__(self, name: object) -> bool:
        return name in self._branch.futures

    def get_meta_info(self, name: str) -> dict[str, Any]:
        """What is known of how a variable came about: tokens, logprobs, why it ended."""
        self[name]
        return self._branch.now.meta[name]

    def error(self) -> BaseException | None:
        """Wait for the end of what was appended; return what went wrong, if anything did."""
        self.sync()
        return self._branch.error

    def sync(self) -> None:
        """Wait until all that was appended so far has run, well or not."""
        self._branch.moment().exception()

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all gens of this run, its forks included, that have ended so far."""
        total = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}
        for each in list(self._branch.run.usage):
            for kind, count in each.items():
                total[kind] += count
        return total

    def _now(self) -> Snapshot:
        return self._branch.moment().result()

    # -------------------------------------------------------------- streams

    def text_iter(self, var_name: str | None = None) -> Iterator[str]:
        """Pieces of the text, or of one variable's, as they come; from the start for each reader.

        Raises at its end what went wrong on the way.
        """
        for entry in self._branch.journal:
            if var_name is None or entry.variable == var_name:
                yield entry.text

    async def text_async_iter(
        self, var_name: str | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """The same in an event loop; with `return_meta_data`, pairs (text, meta)."""
        async for entry in self._branch.journal.__aiter__():
            if var_name is None or entry.variable == var_name:
                yield (entry.text, entry.meta) if return_meta_data else entry.text

    # -------------------------------------------------------------- turns and scopes

    def system(self, content: object = None) -> Any:
        return self._role("system", content)

    def user(self, content: object = None) -> Any:
        return self._role("user", content)

    def assistant(self, content: object = None) -> Any:
        return self._role("assistant", content)

    def _role(self, name: str, content: object) -> Any:
        """Append a whole turn; without content, a context manager for its inside.

        What is returned for a whole turn adds nothing when appended once more, so that
        `s += s.user(text)` says it once.
        """
        if content is None:
            return self._turn(name)
        self._branch.append(parts_of(role(name, content)))
        return Nothing()

    @contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        self._branch.append([RoleBegin(name)])
        yield
        self._branch.append([RoleEnd(name)])

    @contextmanager
    def var_scope(self, name: str) -> Iterator[None]:
        """All text written inside, generated or not, becomes the variable `name`."""
        self._branch.append([ScopeBegin(name)])
        yield
        self._branch.append([ScopeEnd(name)])

    # -------------------------------------------------------------- forks

    def fork(self, size: int = 1) -> ProgramStateGroup:
        """`size` branches that start from here; this one does not see what they write."""
        branch = self._branch
        moment, branch.forks = branch.moment(), branch.forks + 1
        children = []
        for index in range(size):
            child = Branch(branch.run, (*branch.path, branch.forks, index))
            child.inherit(branch, moment)
            children.append(ProgramState(child))
        return ProgramStateGroup(children, self)

    @contextmanager
    def copy(self) -> Iterator[ProgramState]:
        """One branch that starts from here, joined at the end of the block."""
        group = self.fork(1)
        yield group[0]
        group.join()


class ProgramStateGroup:
    """The branches of a fork."""

    def __init__(self, states: Sequence[ProgramState], parent: ProgramState) -> None:
        self.states, self._parent = list(states), parent

    def __iadd__(self, value: object) -> ProgramStateGroup:
        """Append one expression to all, a list's items one each, or a function of the index."""
        if isinstance(value, (list, tuple)):
            if len(value) != len(self.states):
                raise ValueError(f"{len(value)} items for {len(self.states)} branches")
            values = list(value)
        elif isinstance(value, (str, Expr)):
            values = [value] * len(self.states)
        elif callable(value):
            make: Callable[[int], object] = value
            values = [make(index) for index in range(len(self.states))]
        else:
            raise ValueError(
                f"a group takes an expression, a list of them or a function, not {value!r}"
            )
        for state, each in zip(self.states, values, strict=True):
            state += each
        return self

    def join(self, mode: str = "gather_variable") -> None:
        """Bring the branches back, in their order.

        "gather_variable": variables that they set become lists in the parent.
        "concate_and_append": what they wrote since the fork is appended to the parent.
        """
        if mode not in ("gather_variable", "concate_and_append"):
            raise ValueError(f"join takes 'gather_variable' or 'concate_and_append', not {mode!r}")
        branches = [state._branch for state in self.states]
        moments = [branch.moment() for branch in branches]
        parent = self._parent._branch
        found = [name for b in branches for name in b.futures if b.futures[name] is not
                 parent.futures.get(name)]  # fmt: skip
        names = list(dict.fromkeys(found)) if mode == "gather_variable" else []

        async def gather() -> None:
            ends = [await asyncio.wrap_future(moment) for moment in moments]
            for name in names:
                values = [end.variables[name] for end in ends if name in end.variables]
                metas = [end.meta[name] for end in ends if name in end.meta]
                parent.set(name, values, {"branches": metas})
            if mode == "concate_and_append":
                for branch, end in zip(branches, ends, strict=True):
                    parent.extend(end.prompt.since(branch.origin))

        parent.enqueue(gather, here(), "join", names)

    def __getitem__(self, index: int) -> ProgramState:
        return self.states[index]

    def __setitem__(self, index: int, state: ProgramState) -> None:
        """`group[i] += x` ends here; the branch itself has been extended already."""
        if state is not self.states[index]:
            raise ValueError("a branch of a group cannot be replaced")

    def __iter__(self) -> Iterator[ProgramState]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)
