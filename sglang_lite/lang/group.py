"""The branches of a fork."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from sglang_lite.lang.branch import Branch, Job
from sglang_lite.lang.nodes import Expr

if TYPE_CHECKING:
    from sglang_lite.lang.state import ProgramState

MODES = ("gather_variable", "concate_and_append")

S = TypeVar("S", bound="ProgramState")


def fork(parent: Branch, size: int) -> list[Branch]:
    """`size` branches that start from where `parent` is.

    Raises:
        ValueError: `size` is not at least 1.
    """
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"a fork has at least 1 branch, got size={size!r}")
    run, moment = parent.run, parent.moment()
    run.forks += 1
    parent.forks += 1
    children = []
    for index in range(size):
        child = Branch(run, (*parent.path, parent.forks, index))
        child.group, child.size = run.forks, size
        child.inherit(parent, moment)
        children.append(child)
    return children


def join(parent: Branch, branches: Sequence[Branch], mode: str) -> None:
    """Bring the branches back, in their order, once all that was appended to them has run."""
    if mode not in MODES:
        raise ValueError(f"join takes {' or '.join(map(repr, MODES))}, not {mode!r}")
    moments = [branch.moment() for branch in branches]
    gathers = mode == "gather_variable"
    names = [
        name for branch in branches for name, cell in branch.cells.items()
        if gathers and cell is not parent.cells.get(name)
    ]  # fmt: skip
    names = list(dict.fromkeys(names))

    async def gather() -> None:
        ends = [await moment for moment in moments]
        for name in names:
            values = [end.variables[name] for end in ends if name in end.variables]
            metas = [end.meta[name] for end in ends if name in end.meta]
            parent.set(name, values, {"branches": metas})
        if not gathers:
            for branch, end in zip(branches, ends, strict=True):
                parent.extend(branch.origin, end)

    for branch in branches:
        parent.forms |= {name: branch.forms[name] for name in names if name in branch.forms}
    parent.enqueue(Job(gather, "join", tuple(names), tuple(branch.path for branch in branches)))
    for branch in branches:
        branch.when_idle(branch.close)


class ProgramStateGroup(Generic[S]):
    """States of branches that started from one; `+=` appends to all of them."""

    def __init__(self, states: Sequence[S], parent: S) -> None:
        self.states, self._parent = list(states), parent

    def __iadd__(self, value: object) -> ProgramStateGroup[S]:
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
        join(self._parent._branch, [state._branch for state in self.states], mode)

    def __getitem__(self, index: int) -> S:
        return self.states[index]

    def __setitem__(self, index: int, state: S) -> None:
        """`group[i] += x` ends here; the branch itself has been extended already."""
        if state is not self.states[index]:
            raise ValueError("a branch of a group cannot be replaced")

    def __iter__(self) -> Iterator[S]:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)
