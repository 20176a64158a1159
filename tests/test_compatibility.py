"""Modules and names that programs written for SGLang import."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer
from scripted_api import Reply, ScriptedApi

import sglang_lite as sgl
from sglang_lite import utils
from sglang_lite.api import flush_cache, get_server_info
from sglang_lite.errors import InvalidConfig, InvalidRequest, RuntimeUnavailable, Unsupported
from sglang_lite.global_config import global_config
from sglang_lite.lang.backends.default import _default
from sglang_lite.lang.backends.openai import OpenAI
from sglang_lite.test.test_utils import add_common_sglang_args_and_parse, select_sglang_backend
from sglang_lite.testing import ScriptedBackend


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer("fake?eos=0.2") as live:
        yield live


@pytest.fixture
def no_default() -> Iterator[None]:
    before = list(_default)
    _default.clear()
    yield
    _default[:] = before


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("api", "function gen select system user assistant Runtime Engine set_default_backend"),
        ("lang.ir", "REGEX_INT REGEX_FLOAT REGEX_BOOL REGEX_STR REGEX_STRING SglGen SglSelect"),
        ("lang.ir", "SglRoleBegin SglRoleEnd SglExpr SglExprList SglConstantText SglFunction"),
        ("lang.interpreter", "ProgramState ProgramStateGroup"),
        ("lang.choices", "greedy_token_selection token_length_normalized"),
        ("lang.chat_template", "ChatTemplate ChatTemplateStyle get_chat_template"),
        ("lang.chat_template", "register_chat_template get_chat_template_by_model_path"),
        ("global_config", "global_config"),
        ("utils", "read_jsonl dump_state_text download_and_cache_file print_highlight"),
        ("utils", "launch_server_cmd wait_for_server terminate_process"),
        ("test.test_utils", "add_common_sglang_args_and_parse select_sglang_backend"),
    ],
)
def test_names_are_where_programs_look_for_them(module: str, names: str) -> None:
    found = importlib.import_module(f"sglang_lite.{module}")
    for name in names.split():
        assert getattr(found, name) is not None


def test_patterns_match_what_they_say() -> None:
    from sglang_lite.lang.ir import REGEX_BOOL, REGEX_FLOAT, REGEX_INT, REGEX_STR

    assert re.fullmatch(REGEX_INT, "-12 ")
    assert re.fullmatch(REGEX_FLOAT, "1.5")
    assert re.fullmatch(REGEX_BOOL, "True")
    assert re.fullmatch(REGEX_STR, '"a word"')


# -------------------------------------------------------------- files


def test_lines_of_json(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('# a comment\n{"x": 1}\n\n[2]\n')
    assert list(utils.read_jsonl(file)) == [{"x": 1}, [2]]
    file.write_text("{}\noops\n")
    with pytest.raises(InvalidRequest, match=":2 is not JSON"):
        list(utils.read_jsonl(str(file)))


def test_states_are_dumped_as_text(tmp_path: Path) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Q: " + sgl.gen("a")

    file = tmp_path / "dump.txt"
    utils.dump_state_text(file, [program.run(backend=ScriptedBackend(["A"])), "plain"])
    text = file.read_text()
    assert "Q: A\n" in text
    assert text.index(" 0 ") < text.index("Q: A") < text.index(" 1 ") < text.index("plain")


def test_a_file_is_fetched_once_and_whole(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SGLANG_LITE_CACHE", str(tmp_path))
    with ScriptedApi(Reply(b"no", 500), Reply(b"abc", cut=True), Reply(b"data")) as api:
        url = f"{api.url}/some/file.txt?x=1"
        for _ in range(2):
            with pytest.raises(RuntimeUnavailable, match=r"file\.txt"):
                utils.download_and_cache_file(url)
        assert not [each for each in tmp_path.rglob("*") if each.is_file()]
        path = utils.download_and_cache_file(url)
        assert utils.download_and_cache_file(url) == path
    assert Path(path).read_bytes() == b"data"
    assert Path(path).name.endswith("-file.txt")
    assert utils.download_and_cache_file("http://nowhere.invalid/", path) == path


def test_highlights_are_printed(capsys: Any, monkeypatch: Any) -> None:
    utils.print_highlight("look <here>")
    assert capsys.readouterr().out == "look <here>\n"
    shown: list[str] = []
    notebook = types.ModuleType("IPython")
    display = types.ModuleType("IPython.display")
    notebook.get_ipython = object  # type: ignore[attr-defined]
    display.HTML, display.display = str, shown.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    utils.print_highlight("look <here>")
    assert "look &lt;here&gt;" in shown[0]


# -------------------------------------------------------------- processes


def test_a_server_is_launched_used_and_ended() -> None:
    command = (
        "python -m sglang_lite serve \\\n --model fake --core sglang_lite.testing:fake_core "
        "--drain-seconds 0"
    )
    process, port = utils.launch_server_cmd(command)
    try:
        utils.wait_for_server(f"http://127.0.0.1:{port}", timeout=60, process=process)
        backend = sgl.RuntimeEndpoint(f"http://127.0.0.1:{port}")
        assert get_server_info(backend)["served_model_name"] == "fake"
        backend.shutdown()
    finally:
        utils.terminate_process(process)
    assert process.poll() is not None
    utils.terminate_process(process)
    with pytest.raises(TimeoutError, match="did not answer"):
        utils.wait_for_server(f"http://127.0.0.1:{port}", timeout=0.2)


def test_a_server_that_ends_at_once_is_not_waited_for() -> None:
    process, port = utils.launch_server_cmd([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(RuntimeUnavailable, match="status 3"):
        utils.wait_for_server(f"http://127.0.0.1:{port}", process=process)
    utils.terminate_process(process)


# -------------------------------------------------------------- settings and backends


@pytest.mark.usefixtures("no_default")
def test_the_default_backend_is_one_thing_under_two_names() -> None:
    assert global_config.default_backend is None
    backend = ScriptedBackend(["x"])
    global_config.default_backend = backend
    assert global_config.default_backend is backend
    assert sgl.function(lambda s: s.__iadd__(sgl.gen("a"))).run()["a"] == "x"
    with pytest.raises(Unsupported, match="no flush_cache"):
        flush_cache()


def test_special_tokens_are_shown_on_request(live: LiveServer, monkeypatch: Any) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Once" + sgl.gen("a", max_tokens=60, temperature=0, ignore_eos=True)

    backend = sgl.RuntimeEndpoint(live.url)
    hidden = program.run(backend=backend)
    assert "</s>" not in hidden["a"]
    monkeypatch.setattr(global_config, "skip_special_tokens_in_output", False)
    shown = program.run(backend=backend)
    assert "</s>" in shown["a"]
    assert shown["a"].replace("</s>", "") == hidden["a"]
    backend.shutdown()


def test_a_runtime_is_asked_through_the_module(live: LiveServer) -> None:
    backend = sgl.RuntimeEndpoint(live.url)
    assert flush_cache(backend) is True
    assert get_server_info(backend)["running"] == 0
    backend.shutdown()


def test_the_command_line_of_a_benchmark(live: LiveServer, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    parser = argparse.ArgumentParser()
    host, _, port = live.url.rpartition(":")
    args = add_common_sglang_args_and_parse(parser, ["--host", host, "--port", port])
    assert (args.parallel, args.result_file) == (64, "result.jsonl")
    backend = select_sglang_backend(args)
    assert json.dumps(backend.get_server_info())
    backend.shutdown()
    args.backend = "gpt-3.5-turbo-instruct"
    assert isinstance(select_sglang_backend(args), OpenAI)
    args.backend = "else"
    with pytest.raises(InvalidConfig, match="else"):
        select_sglang_backend(args)


def test_a_failed_program_does_not_cost_the_texts_of_others(tmp_path: Path) -> None:
    @sgl.function
    def program(s: Any, q: str) -> None:
        s += q + sgl.gen("a")

    backend = ScriptedBackend.by_prompt(lambda prompt: {"good": "fine"}[prompt])
    states = program.run_batch([("bad",), ("good",)], backend=backend)
    utils.dump_state_text(tmp_path / "out.txt", states)
    shown = (tmp_path / "out.txt").read_text()
    assert "goodfine" in shown
    assert "KeyError" in shown
