"""SGLang's module of OpenAI's models; see `backends.openai`."""

from __future__ import annotations

from sglang_lite.lang.backends.openai import OpenAI

__all__ = ["OpenAI"]
