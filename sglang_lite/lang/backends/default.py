"""The backend of programs that are given none."""

from __future__ import annotations

from typing import Any

from sglang_lite.errors import InvalidRequest
from sglang_lite.lang.backends.protocol import Backend

_default: list[Backend] = []


def set_default_backend(backend: Any) -> None:
    """What runs programs that are not given a backend: a backend of the language or an Engine.

    None: nothing does any more.
    """
    _default[:] = [] if backend is None else [as_backend(backend)]


def as_backend(backend: Any) -> Backend:
    """`backend` as the language needs it.

    Raises:
        InvalidRequest: there is none, neither given nor set; or it is nothing that generates.
    """
    if backend is None:
        if not _default:
            raise InvalidRequest(
                "no backend: pass one (run(backend=...)) or call set_default_backend(Runtime(...))."
            )
        return _default[0]
    if wrap := getattr(backend, "as_language_backend", None):  # an Engine
        wrapped: Backend = wrap()
        return wrapped
    if isinstance(backend, type) or not hasattr(backend, "template"):
        raise InvalidRequest(
            f"backend={backend!r} is none; pass a Runtime, Engine, RuntimeEndpoint(url) or "
            "OpenAI(model)."
        )
    known: Backend = backend
    return known
