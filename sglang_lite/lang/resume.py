"""Results of a batch in a file, a line of JSON each, so that a run that broke off can go on."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from sglang_lite.lang.cells import Cell
from sglang_lite.lang.state import ProgramState

_encode = msgspec.json.Encoder().encode


class Known(msgspec.Struct):
    """What is kept of a program that ended well."""

    row: str  # which arguments it had
    text: str
    variables: dict[str, Any]
    meta: dict[str, Any]
    ret_value: Any = None

    def restore(self, state: ProgramState) -> None:
        """Make `state` one that has ended like this."""
        branch = state._branch
        branch.write(self.text)
        branch.variables, branch.meta = dict(self.variables), dict(self.meta)
        branch.cells = {name: Cell.of(value) for name, value in self.variables.items()}
        state.ret_value, state.restored = self.ret_value, True


class Kept:
    """The results in `path`; a last line that was not written whole is passed over.

    Raises:
        ValueError: a line in the middle is none of ours.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._known: dict[str, Known] = {}
        lines = self._path.read_bytes().split(b"\n") if self._path.exists() else []
        for number, line in enumerate(lines, 1):
            if line:
                try:
                    known = msgspec.json.decode(line, type=Known)
                except msgspec.MsgspecError as error:
                    if number == len(lines):  # no line end: it was being written
                        self._path.write_bytes(b"".join(each + b"\n" for each in lines[:-1]))
                        break
                    message = f"{self._path}, line {number}, is no result of a batch: {error}"
                    raise ValueError(message) from error
                self._known[known.row] = known

    def of(self, index: int, arguments: dict[str, Any]) -> Known | None:
        return self._known.get(_name(index, arguments))

    def add(self, index: int, arguments: dict[str, Any], state: ProgramState) -> None:
        """Keep a result, unless it is there.

        Raises:
            TypeError: a variable is nothing that JSON can hold.
        """
        name, branch = _name(index, arguments), state._branch
        if name in self._known:
            return
        known = Known(name, branch.prompt.text, branch.variables, branch.meta, state.ret_value)
        try:
            line = _encode(known)
        except TypeError as error:
            raise TypeError(
                f"a result cannot be kept in {self._path}: {error}; let the program set and "
                "return only texts, numbers, lists and dicts"
            ) from error
        with self._path.open("ab") as file:
            file.write(line + b"\n")
        self._known[name] = known


def _name(index: int, arguments: dict[str, Any]) -> str:
    """A row by its place and its arguments: a file of other rows is of no use."""
    text = repr((index, sorted(arguments.items(), key=lambda each: each[0])))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
