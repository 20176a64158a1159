"""What goes wrong in a program, with its file and line."""

from __future__ import annotations

from typing import Any

from sglang_lite.errors import SglangLiteError
from sglang_lite.lang.places import Place


class ProgramError(SglangLiteError, RuntimeError):
    """An expression failed; `__cause__` is why. Variables after it are not set."""

    def __init__(self, place: Place, what: str, cause: BaseException, program: str = "") -> None:
        where = f"{place}, in {program}()" if program else f"{place}"
        super().__init__(f"{where}: {what} failed: {type(cause).__name__}: {_words(cause)}")
        self.place, self.program = place, program
        self.__cause__ = cause


class InvalidOutput(SglangLiteError, ValueError):
    """A generated text is no value of the type it was asked for; `text` is what it is."""

    def __init__(self, kind: Any, text: str, why: BaseException) -> None:
        name = getattr(kind, "__name__", None) or repr(kind)
        end = "" if len(text) <= 80 else "..."
        super().__init__(
            f"the output is no {name}: {_reason(why)}; it is {text[:80]!r}{end}. It may have been "
            "cut off: give it more max_tokens; or let it be tried again with retries=n."
        )
        self.text = text


def _words(cause: BaseException) -> str:
    try:
        return str(cause)
    except Exception as error:  # noqa: BLE001 - any exception may have a __str__ of its own
        return f"(it has no words: {type(error).__name__})"


def _reason(why: BaseException) -> str:
    """In a line; pydantic says where and what, in several."""
    if errors := getattr(why, "errors", None):
        said = ((".".join(map(str, each["loc"])), each["msg"]) for each in errors())
        return "; ".join(f"{at}: {what}" if at else what for at, what in said)
    return str(why) or type(why).__name__
