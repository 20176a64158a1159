"""SGLang's module of public functions: all that the package exports, and two about backends."""

from __future__ import annotations

from typing import Any

import sglang_lite
from sglang_lite.errors import Unsupported
from sglang_lite.lang.backends.default import as_backend


def flush_cache(backend: Any = None) -> bool:
    """Have the runtime forget its cached prefixes; False while requests are running.

    Raises:
        Unsupported: the backend has no cache that it could be asked to forget.
    """
    return bool(_of(backend, "flush_cache")())


def get_server_info(backend: Any = None) -> dict[str, Any]:
    """What the runtime says about itself.

    Raises:
        Unsupported: the backend says nothing.
    """
    info: dict[str, Any] = _of(backend, "get_server_info")()
    return info


def _of(backend: Any, name: str) -> Any:
    chosen = as_backend(backend)
    if not hasattr(chosen, name):
        raise Unsupported(
            f"{type(chosen).__name__} has no {name}; Runtime, RuntimeEndpoint and Engine do."
        )
    return getattr(chosen, name)


def __getattr__(name: str) -> Any:
    return getattr(sglang_lite, name)
