"""The text with which every run of a program begins, whatever its arguments.

The body is run on a state that records literals and stops at the first thing that is not known
without a model or an argument. Nothing global is touched, so other threads run on undisturbed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NoReturn

from sglang_lite.lang.nodes import Argument, Text, parts_of
from sglang_lite.lang.program import Program


def static_prefix(program: Program, row: Mapping[str, Any]) -> str:
    """Literal text up to the first argument, gen or branch; bound arguments count as literals."""
    recorder = _Recorder()
    unknown = {name: _Unknown(name=name) for name in row if name not in program.bound}
    with contextlib.suppress(Exception):  # a body may trip over a placeholder in any way
        program.body(recorder, **{**unknown, **program.bound})
    return recorder.text


class _Stop(Exception):
    pass


class _Recorder:
    def __init__(self) -> None:
        self.text = ""

    def __iadd__(self, value: object) -> _Recorder:
        for part in parts_of(value):
            if not isinstance(part, Text):
                raise _Stop
            self.text += part.text
        return self

    def __getattr__(self, name: str) -> NoReturn:
        raise _Stop

    def __getitem__(self, name: str) -> NoReturn:
        raise _Stop


class _Unknown(Argument):
    """An argument that can be appended, and nothing else."""

    def __str__(self) -> NoReturn:
        raise _Stop

    def __format__(self, form: str) -> NoReturn:
        raise _Stop

    def __bool__(self) -> NoReturn:
        raise _Stop

    def __iter__(self) -> NoReturn:
        raise _Stop
