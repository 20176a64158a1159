"""SGLang's module of what backends share; see `backends.protocol` for what one has to do here."""

from __future__ import annotations

from sglang_lite.lang.backends.protocol import Backend
from sglang_lite.lang.templates import Templated, get_chat_template

__all__ = ["Backend", "BaseBackend"]


class BaseBackend(Templated):
    """A backend that only has a chat template: to trace a program, which asks for no more."""

    wants_prefix = False

    def __init__(self) -> None:
        self.template = get_chat_template("default")
