"""Names of SGLang's backends that are not here, each with what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

from sglang_lite.errors import Unsupported


def Anthropic(*arguments: Any, **named: Any) -> NoReturn:  # noqa: N802 - SGLang's name
    _refuse("Anthropic", "https://api.anthropic.com/v1")


def Crusoe(*arguments: Any, **named: Any) -> NoReturn:  # noqa: N802 - SGLang's name
    _refuse("Crusoe", "the URL that Crusoe gives for its OpenAI-compatible API")


def LiteLLM(*arguments: Any, **named: Any) -> NoReturn:  # noqa: N802 - SGLang's name
    _refuse("LiteLLM", "the URL of the provider, or of a LiteLLM proxy")


def VertexAI(*arguments: Any, **named: Any) -> NoReturn:  # noqa: N802 - SGLang's name
    _refuse("VertexAI", "the .../endpoints/openapi URL of your project")


def _refuse(name: str, address: str) -> NoReturn:
    raise Unsupported(
        f"{name} has no backend here; its OpenAI-compatible API does: "
        f"OpenAI(model, is_chat_model=True, base_url=..., api_key=...) with {address}."
    )
