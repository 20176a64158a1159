"""Results of a batch in a file, a line of JSON each, so that a run that broke off can go on."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from sglang_lite.lang.cells import Cell
from sglang_lite.lang.outputs import Form
from sglang_lite.lang.state import ProgramState
from sglang_lite.params import Constraint

_START = b'{"row":'


def _hook(value: Any) -> Any:
    if dump := getattr(value, "model_dump", None):  # of pydantic
        return dump(mode="json")
    raise NotImplementedError(f"{type(value).__name__} is nothing that JSON can hold")


_encode = msgspec.json.Encoder(enc_hook=_hook, order="deterministic").encode


class Known(msgspec.Struct):
    """What is kept of a program that ended well."""

    row: str  # which program, at which place of the batch, with which arguments
    text: str
    variables: dict[str, Any]
    meta: dict[str, Any]
    ret_value: Any = None
    messages: list[dict[str, Any]] = []
    typed: list[str] = []  # variables whose text had a value of a type

    def restore(self, state: ProgramState) -> None:
        """Make `state` one that has ended like this."""
        branch = state._branch
        branch.write(self.text)
        branch.variables, branch.meta = dict(self.variables), dict(self.meta)
        branch.messages = tuple(self.messages)
        branch.cells = {name: Cell.of(value) for name, value in self.variables.items()}
        branch.forms = dict.fromkeys(self.typed, _LOST)
        state.ret_value, state.restored = self.ret_value, True


def _lost(text: str) -> Any:
    raise RuntimeError(
        "this result comes from a file, which has the text but not the type of the gen; read the "
        "text (s['name']), or have the program return what you need of the value"
    )


_LOST = Form(Constraint("regex", ".*"), _lost)


class Kept:
    """The results in `path`, which others are added to.

    Raises:
        ValueError: the file is none of ours, or a line in the middle is not.
        OSError: it cannot be written.
    """

    def __init__(self, path: str | Path, program: str) -> None:
        self._path, self._program = Path(path), program
        self._known: dict[str, Known] = {}
        with self._path.open("ab"):  # now, and not when the first result is there
            pass
        data = self._path.read_bytes()
        *lines, rest = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            if line:
                self._take(line, number)
        if not rest:
            return
        try:
            self._take(rest, len(lines) + 1)
            lines.append(rest)  # whole, but for its line end
        except ValueError:
            if not (rest.startswith(_START) or _START.startswith(rest)):
                raise  # no line that was being written when we broke off: somebody else's file
        self._path.write_bytes(b"".join(line + b"\n" for line in lines))

    def _take(self, line: bytes, number: int) -> None:
        try:
            known = msgspec.json.decode(line, type=Known)
        except (msgspec.MsgspecError, RecursionError) as error:
            message = f"{self._path}, line {number}, is no result of a batch: {error}"
            raise ValueError(message) from error
        self._known[known.row] = known

    def of(self, index: int, arguments: dict[str, Any]) -> Known | None:
        """The result of a row.

        Raises:
            TypeError: an argument is nothing that JSON can hold.
        """
        return self._known.get(self._name(index, arguments))

    def add(self, index: int, arguments: dict[str, Any], state: ProgramState) -> None:
        """Keep a result, unless it is there.

        Raises:
            TypeError: a variable or what the program returned would not come back as it is.
        """
        name, branch = self._name(index, arguments), state._branch
        if name in self._known:
            return
        for what, value in {**branch.variables, "what it returned": state.ret_value}.items():
            self._check(what, value)
        known = Known(
            name, branch.prompt.text, branch.variables, branch.meta, state.ret_value,
            list(branch.messages), [each for each in branch.forms if each in branch.variables],
        )  # fmt: skip
        with self._path.open("ab") as file:
            file.write(_encode(known) + b"\n")
        self._known[name] = known

    def _check(self, what: str, value: Any) -> None:
        try:
            line = _encode(value)
            if _same(msgspec.json.decode(line), value):
                return
            why = f"it would come back as {line[:80].decode()}"
        except (TypeError, NotImplementedError, ValueError, OverflowError) as error:
            why = str(error)
        raise TypeError(
            f"a result cannot be kept in {self._path}: {what!r} is {value!r:.80}, and {why}; let "
            "the program set and return only texts, numbers, lists and dicts with texts as keys"
        )

    def _name(self, index: int, arguments: dict[str, Any]) -> str:
        """A row by its program, place and arguments: a file of other rows is of no use."""
        try:
            text = _encode([self._program, index, arguments])
        except (TypeError, NotImplementedError, ValueError, OverflowError) as error:
            raise TypeError(
                f"row {index} cannot be told from others in {self._path}: {error}; with `resume` "
                "arguments are texts, numbers, lists and dicts, dataclasses or pydantic models"
            ) from error
        return hashlib.blake2b(text, digest_size=16).hexdigest()


def _same(back: Any, value: Any) -> bool:
    """Whether what is read is what was written: no tuple as a list, no NaN as null."""
    if type(back) is not type(value):
        return False
    if isinstance(value, dict):
        return back.keys() == value.keys() and all(_same(back[key], value[key]) for key in value)
    if isinstance(value, list):
        return len(back) == len(value) and all(map(_same, back, value))
    return bool(back == value)
