"""What a function must be like to become a program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any


def arguments_of(body: Callable[..., Any], taken: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments after the state, and whether any other name is taken as well (`**`).

    Raises:
        TypeError: it is no plain function, has no argument for the state, or has one with a name
            of `taken`, or a generator's `yield`.
    """
    if not hasattr(body, "__name__"):
        raise TypeError(f"a program is made of a function (`def` or `async def`), not of {body!r}")
    name = body.__name__
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise TypeError(
            f"{name}() has a `yield`, so calling it would run nothing; append to the state, and "
            "read it as it grows with text_iter()"
        )
    parameters = list(inspect.signature(body).parameters.values())
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise TypeError(f"{name}() needs a first argument for the program's state")
    names = [each.name for each in parameters[1:]]
    if clash := next((each for each in names if each in taken), None):
        raise TypeError(
            f"{name}() has an argument {clash!r}, which is an option of run(); give it another name"
        )
    return names, any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
