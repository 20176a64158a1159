"""The commands and their options. What a command needs is imported when it runs, so that
`--help` answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sglang_lite import __version__

app = typer.Typer(
    name="sglang-lite",
    help="A prefix-sharing runtime for prompt programs, and an OpenAI-compatible server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
model_app = typer.Typer(help="Models on this machine.", no_args_is_help=True)
app.add_typer(model_app, name="model")
grammar_app = typer.Typer(help="Constraints on output.", no_args_is_help=True)
app.add_typer(grammar_app, name="grammar")

ModelName = Annotated[str, typer.Argument(help="A known name, a hub id, a folder or a .gguf file.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sglang_lite {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Options before any command."""


@app.command()
def serve(
    model: Annotated[
        str, typer.Option(help="A known name, a hub id, a folder or a .gguf file.")
    ] = "smollm2",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any that is free.")] = 30000,
    served_model_name: Annotated[
        str | None, typer.Option(help="The name that requests give as `model`.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16 or float32.")] = "auto",
    context_length: Annotated[
        int | None, typer.Option(help="Most tokens of a prompt and its answer together.")
    ] = None,
    page_size: Annotated[int | None, typer.Option(help="Tokens in a page of the KV pool.")] = None,
    max_total_tokens: Annotated[
        int | None, typer.Option(help="Size of the KV pool, in tokens.")
    ] = None,
    mem_fraction_static: Annotated[
        float, typer.Option(help="Share of free memory for weights and KV pool.")
    ] = 0.6,
    max_running_requests: Annotated[
        int | None, typer.Option(help="Most requests computed at once.")
    ] = None,
    max_queued_requests: Annotated[
        int, typer.Option(help="Most requests that wait; more are refused with 429.")
    ] = 4096,
    chunked_prefill_size: Annotated[
        int | None, typer.Option(help="Most tokens that one step computes.")
    ] = None,
    schedule_policy: Annotated[
        str,
        typer.Option(
            help="lpm (longest cached prefix first), fcfs, dfs (a subtree of waiting prompts at a "
            "time), priority (of requests' hints) or random."
        ),
    ] = "lpm",
    no_radix_cache: Annotated[
        bool,
        typer.Option("--no-radix-cache", "--disable-radix-cache", help="Share no prefixes."),
    ] = False,
    prefix_cache: Annotated[
        str, typer.Option(help="tree, or table: prefixes are found as whole texts only.")
    ] = "tree",
    retention_share: Annotated[
        float, typer.Option(help="Share of the KV pool that hints may have evicted last; 0: none.")
    ] = 0.5,
    retention_seconds: Annotated[
        float, typer.Option(help="The longest that such a hint is heeded.")
    ] = 30.0,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Same logprobs whatever else runs.")
    ] = False,
    grammar_engine: Annotated[
        str, typer.Option(help="What holds constraints: auto, outlines or llguidance.")
    ] = "auto",
    grammar_whitespace: Annotated[
        str, typer.Option(help="Between tokens of constrained JSON: compact, single or bounded.")
    ] = "single",
    no_jump_forward: Annotated[
        bool, typer.Option("--no-jump-forward", help="Decode forced tokens one by one.")
    ] = False,
    grammar_cache_mb: Annotated[
        int, typer.Option(help="Memory for compiled grammars and their masks.")
    ] = 256,
    grammar_queue: Annotated[
        int, typer.Option(help="Most grammars that wait to be compiled; more are refused with 429.")
    ] = 64,
    grammar_compile_seconds: Annotated[
        int, typer.Option(help="CPU time for compiling one grammar; by the clock four times that.")
    ] = 5,
    grammar_compile_mb: Annotated[
        int, typer.Option(help="Address space of the process that compiles grammars.")
    ] = 1024,
    grammar_limit: Annotated[
        list[str] | None,
        typer.Option(help="NAME=NUMBER, of docs/structured_output.md; may be repeated."),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: all cores.")] = None,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="Time for open requests after a signal to stop.")
    ] = 5.0,
    core: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve a model over HTTP, with OpenAI's API and SGLang's."""
    from sglang_lite.config import EngineConfig
    from sglang_lite.runtime.server.serve import serve as serve_model
    from sglang_lite.runtime.server.service import ServerOptions

    config = EngineConfig.of(
        {
            "model": model,
            "served_model_name": served_model_name,
            "device": device,
            "dtype": dtype,
            "context_length": context_length,
            "page_size": page_size,
            "max_total_tokens": max_total_tokens,
            "mem_fraction_static": mem_fraction_static,
            "max_running_requests": max_running_requests,
            "max_queued_requests": max_queued_requests,
            "chunked_prefill_size": chunked_prefill_size,
            "schedule_policy": schedule_policy,
            "disable_radix_cache": no_radix_cache,
            "prefix_cache": prefix_cache,
            "retention_share": retention_share,
            "retention_seconds": retention_seconds,
            "deterministic": deterministic,
            "grammar_engine": grammar_engine,
            "grammar_whitespace": grammar_whitespace,
            "jump_forward": not no_jump_forward,
            "grammar_cache_mb": grammar_cache_mb,
            "grammar_queue": grammar_queue,
            "grammar_compile_seconds": grammar_compile_seconds,
            "grammar_compile_mb": grammar_compile_mb,
            "grammar_limits": _limits(grammar_limit or []),
            "threads": threads,
        }
    )
    options = ServerOptions(drain_seconds=drain_seconds)
    raise typer.Exit(serve_model(config, host=host, port=port, options=options, core=core))


def _limits(given: list[str]) -> dict[str, int]:
    """NAME=NUMBER, ... as a dict."""
    limits = {}
    for each in given:
        name, _, number = each.partition("=")
        if not number.isdigit():
            raise typer.BadParameter(f"{each!r} is not NAME=NUMBER.", param_hint="--grammar-limit")
        limits[name] = int(number)
    return limits


@app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def run(
    file: Annotated[str, typer.Argument(help="A Python file with a program.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What the program finds in sys.argv.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Start a runtime with this model for the program.")
    ] = None,
) -> None:
    """Run a program as `python FILE` would, with a runtime behind it if a model is given."""
    from sglang_lite.cli.run import run_program

    run_program(file, arguments or [], model)


@app.command()
def check() -> None:
    """Say what this machine can do; status 1 if something essential is broken."""
    from sglang_lite.cli.check import check_machine

    raise typer.Exit(check_machine())


@model_app.command("fetch")
def model_fetch(name: ModelName = "smollm2") -> None:
    """Fetch a model, and convert it if it needs that, unless it is here already."""
    from sglang_lite.cli.model import fetch_model

    fetch_model(name)


@model_app.command("list")
def model_list() -> None:
    """List the models that are here, and those that a bare name stands for."""
    from sglang_lite.cli.model import list_models

    list_models()


@model_app.command("path")
def model_path(name: ModelName = "smollm2") -> None:
    """Print the folder of a model, fetching it first if need be."""
    from sglang_lite.cli.model import print_path

    print_path(name)


@grammar_app.command("check")
def grammar_check(
    file: Annotated[
        Path,
        typer.Argument(help="Lines of {name, schema | regex | choice, tests: [{valid, data}]}."),
    ],
    model: Annotated[str, typer.Option(help="Whose tokenizer to use.")] = "smollm2",
    engine: Annotated[str, typer.Option(help="auto, outlines or llguidance.")] = "auto",
    whitespace: Annotated[str, typer.Option(help="compact, single or bounded.")] = "single",
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each.")] = False,
) -> None:
    """Say whether each constraint is held exactly; status 1 if an invalid example is accepted."""
    from sglang_lite.cli.grammar import check_file

    raise typer.Exit(check_file(file, model, engine, whitespace, as_json))
