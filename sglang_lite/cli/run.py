"""`run`: a program file, as Python itself would run it."""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

from sglang_lite.errors import InvalidConfig


def run_program(file: str, arguments: list[str], model: str | None) -> None:
    """Run `file` as `__main__`; with a `model`, its programs find a runtime as their backend.

    Raises:
        InvalidConfig: there is no such file, or the model cannot be run.
    """
    path = Path(file)
    if not path.is_file():
        raise InvalidConfig(f"no file {file!r} to run.")
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    with _backend(model):
        runpy.run_path(file, run_name="__main__")


@contextlib.contextmanager
def _backend(model: str | None) -> Iterator[None]:
    if model is None:
        yield
        return
    from sglang_lite import Runtime, set_default_backend

    runtime = Runtime(model=model)
    try:
        set_default_backend(runtime)
        yield
    finally:
        runtime.shutdown()
