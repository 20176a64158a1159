"""The command line of SGLang's benchmark scripts, and the backend that it asks for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from sglang_lite.errors import InvalidConfig
from sglang_lite.global_config import global_config
from sglang_lite.lang.backends.openai import OpenAI
from sglang_lite.lang.backends.runtime import RuntimeEndpoint


def add_common_sglang_args_and_parse(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """Add what every such script takes, and read the command line."""
    parser.add_argument("--parallel", type=int, default=64, help="Programs at a time.")
    parser.add_argument("--host", default="http://127.0.0.1", help="Of the server.")
    parser.add_argument("--port", type=int, default=30000, help="Of the server.")
    parser.add_argument(
        "--backend", default="srt", help="srt, srt-no-parallel, or a model of OpenAI's (gpt-...)."
    )
    parser.add_argument("--result-file", default="result.jsonl", help="Where results are added.")
    parser.add_argument("--raw-result-file", help="Where answers are kept.")
    return parser.parse_args(arguments)


def select_sglang_backend(args: argparse.Namespace) -> Any:
    """The backend that the command line names.

    Raises:
        InvalidConfig: there is none of that name.
    """
    name: str = args.backend
    if name in ("srt", "srt-no-parallel"):
        global_config.enable_parallel_encoding = name == "srt"
        host = args.host if "://" in args.host else f"http://{args.host}"
        return RuntimeEndpoint(f"{host}:{args.port}")
    if name.startswith("gpt-"):
        return OpenAI(name)
    raise InvalidConfig(f"--backend is srt, srt-no-parallel or gpt-..., not {name!r}.")
