"""Lines of a program."""

from __future__ import annotations

import sys

import msgspec

_LANGUAGE = __name__.rpartition(".")[0] + "."


class Place(msgspec.Struct, frozen=True, gc=False):
    """A line of a program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def here() -> Place:
    """The nearest line outside the language: the program's."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith(_LANGUAGE) and frame.f_back is not None:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
