"""What goes wrong in a program, with its file and line."""

from __future__ import annotations

from sglang_lite.errors import SglangLiteError
from sglang_lite.lang.nodes import Place


class ProgramError(SglangLiteError, RuntimeError):
    """An expression failed; `__cause__` is why. Variables after it are not set."""

    def __init__(self, place: Place, what: str, cause: BaseException, program: str = "") -> None:
        where = f"{place}, in {program}()" if program else f"{place}"
        super().__init__(f"{where}: {what} failed: {type(cause).__name__}: {cause}")
        self.place, self.program = place, program
        self.__cause__ = cause
