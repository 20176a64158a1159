"""SGLang's module of the backends that are runtimes; see `backends.runtime`."""

from __future__ import annotations

from sglang_lite.lang.backends.runtime import Runtime, RuntimeEndpoint

__all__ = ["Runtime", "RuntimeEndpoint"]
