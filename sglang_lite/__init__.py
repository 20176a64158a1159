"""sglang_lite: prompt programs on a runtime that shares prefixes.

    import sglang_lite as sgl

    @sgl.function
    def capital(s, country):
        s += "The capital of " + country + " is" + sgl.gen("city", max_tokens=4)

    sgl.set_default_backend(sgl.Runtime(model="smollm2"))
    print(capital.run(country="France")["city"])

Names are loaded when they are first used: importing the package imports nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sglang_lite.global_config import global_config as global_config

__version__ = "0.1.0"

_HOME = {
    "sglang_lite.lang.expressions": (
        "assistant",
        "assistant_begin",
        "assistant_end",
        "gen",
        "gen_int",
        "gen_string",
        "image",
        "select",
        "separate_reasoning",
        "system",
        "system_begin",
        "system_end",
        "user",
        "user_begin",
        "user_end",
        "video",
    ),
    "sglang_lite.lang.choices": (
        "greedy_token_selection",
        "token_length_normalized",
        "unconditional_likelihood_normalized",
    ),
    "sglang_lite.lang.program": ("Program", "ProgramError", "function", "set_default_backend"),
    "sglang_lite.lang.errors": ("InvalidOutput",),
    "sglang_lite.lang.state": ("ProgramState",),
    "sglang_lite.lang.async_state": ("AsyncState",),
    "sglang_lite.lang.graph": ("Graph",),
    "sglang_lite.lang.tools": ("Tool", "ToolCall", "describe"),
    "sglang_lite.lang.backends.runtime": ("Runtime", "RuntimeEndpoint"),
    "sglang_lite.lang.backends.openai": ("OpenAI",),
    "sglang_lite.lang.backends.providers": ("Anthropic", "Crusoe", "LiteLLM", "VertexAI"),
    "sglang_lite.api": ("flush_cache", "get_server_info"),
    "sglang_lite.runtime.engine": ("Engine",),
    "sglang_lite.params": ("SamplingParams",),
    "sglang_lite.errors": (
        "EngineFailed",
        "GrammarTooLarge",
        "InvalidConfig",
        "InvalidGrammar",
        "InvalidRequest",
        "ModelFileError",
        "ModelNotFound",
        "Overloaded",
        "RequestFailed",
        "RuntimeUnavailable",
        "SglangLiteError",
        "Unsupported",
        "UnsupportedGrammar",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted((*_MODULE_OF, "global_config"))


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sglang_lite' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]


if TYPE_CHECKING:
    from sglang_lite.api import flush_cache as flush_cache
    from sglang_lite.api import get_server_info as get_server_info
    from sglang_lite.errors import EngineFailed as EngineFailed
    from sglang_lite.errors import GrammarTooLarge as GrammarTooLarge
    from sglang_lite.errors import InvalidConfig as InvalidConfig
    from sglang_lite.errors import InvalidGrammar as InvalidGrammar
    from sglang_lite.errors import InvalidRequest as InvalidRequest
    from sglang_lite.errors import ModelFileError as ModelFileError
    from sglang_lite.errors import ModelNotFound as ModelNotFound
    from sglang_lite.errors import Overloaded as Overloaded
    from sglang_lite.errors import RequestFailed as RequestFailed
    from sglang_lite.errors import RuntimeUnavailable as RuntimeUnavailable
    from sglang_lite.errors import SglangLiteError as SglangLiteError
    from sglang_lite.errors import Unsupported as Unsupported
    from sglang_lite.errors import UnsupportedGrammar as UnsupportedGrammar
    from sglang_lite.lang.async_state import AsyncState as AsyncState
    from sglang_lite.lang.backends.openai import OpenAI as OpenAI
    from sglang_lite.lang.backends.providers import Anthropic as Anthropic
    from sglang_lite.lang.backends.providers import Crusoe as Crusoe
    from sglang_lite.lang.backends.providers import LiteLLM as LiteLLM
    from sglang_lite.lang.backends.providers import VertexAI as VertexAI
    from sglang_lite.lang.backends.runtime import Runtime as Runtime
    from sglang_lite.lang.backends.runtime import RuntimeEndpoint as RuntimeEndpoint
    from sglang_lite.lang.choices import greedy_token_selection as greedy_token_selection
    from sglang_lite.lang.choices import token_length_normalized as token_length_normalized
    from sglang_lite.lang.choices import (
        unconditional_likelihood_normalized as unconditional_likelihood_normalized,
    )
    from sglang_lite.lang.errors import InvalidOutput as InvalidOutput
    from sglang_lite.lang.expressions import assistant as assistant
    from sglang_lite.lang.expressions import assistant_begin as assistant_begin
    from sglang_lite.lang.expressions import assistant_end as assistant_end
    from sglang_lite.lang.expressions import gen as gen
    from sglang_lite.lang.expressions import gen_int as gen_int
    from sglang_lite.lang.expressions import gen_string as gen_string
    from sglang_lite.lang.expressions import image as image
    from sglang_lite.lang.expressions import select as select
    from sglang_lite.lang.expressions import separate_reasoning as separate_reasoning
    from sglang_lite.lang.expressions import system as system
    from sglang_lite.lang.expressions import system_begin as system_begin
    from sglang_lite.lang.expressions import system_end as system_end
    from sglang_lite.lang.expressions import user as user
    from sglang_lite.lang.expressions import user_begin as user_begin
    from sglang_lite.lang.expressions import user_end as user_end
    from sglang_lite.lang.expressions import video as video
    from sglang_lite.lang.graph import Graph as Graph
    from sglang_lite.lang.program import Program as Program
    from sglang_lite.lang.program import ProgramError as ProgramError
    from sglang_lite.lang.program import function as function
    from sglang_lite.lang.program import set_default_backend as set_default_backend
    from sglang_lite.lang.state import ProgramState as ProgramState
    from sglang_lite.lang.tools import Tool as Tool
    from sglang_lite.lang.tools import ToolCall as ToolCall
    from sglang_lite.lang.tools import describe as describe
    from sglang_lite.params import SamplingParams as SamplingParams
    from sglang_lite.runtime.engine import Engine as Engine
