"""The command line, as a shell sees it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import sglang_lite
from sglang_lite.__main__ import main
from sglang_lite.cli import check
from sglang_lite.runtime.model import hub

COMMANDS = ["serve", "run", "check", "model"]


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sglang_lite", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
    )


InThisProcess = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InThisProcess:
    """`command` without a new process: its status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sglang-lite", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def test_the_version() -> None:
    done = command("--version")

    assert done.returncode == 0
    assert done.stdout == f"sglang_lite {sglang_lite.__version__}\n"


def test_help_names_every_command_without_loading_what_they_need() -> None:
    began = time.monotonic()
    done = command("--help")

    assert time.monotonic() - began < 3.0
    assert all(name in done.stdout for name in COMMANDS)
    program = (
        "import sys, sglang_lite.cli.main\n"
        "print(*{'torch', 'fastapi', 'zmq', 'uvicorn', 'numpy'} & sys.modules.keys())"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert loaded.stdout.strip() == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(here: InThisProcess, name: str) -> None:
    status, out, _ = here(name, "--help")

    assert status == 0
    assert f"sglang-lite {name}" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "hot"], "--dtype is one of auto, bfloat16, float32, got 'hot'."),
        (["--schedule-policy", "x"], "--schedule-policy is one of lpm, fcfs, dfs, priority, rand"),
        (["--prefix-cache", "x"], "--prefix-cache is one of tree, table, got 'x'."),
        (["--retention-share", "2"], "--retention-share is between 0 and 1, got 2.0."),
        (["--retention-seconds", "-1"], "--retention-seconds is between 0 and 3600, got -1.0."),
        (["--grammar-engine", "x"], "--grammar-engine is one of auto, outlines, llguidance"),
        (["--grammar-whitespace", "x"], "--grammar-whitespace is one of compact, single, bounded"),
        (["--page-size", "0"], "--page-size is between 1 and 256, got 0."),
        (["--mem-fraction-static", "2"], "--mem-fraction-static is between 0 and 1, got 2.0."),
        (["--port", "99999999"], "--port is between 0 and 65535, got 99999999."),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid cannot be listened on"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_option_is_one_line_and_status_2(
    here: InThisProcess, options: list[str], message: str
) -> None:
    status, out, err = here("serve", *options)

    assert status == 2, err
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "xgrammar"], "--engine is one of auto, outlines, llguidance"),
        (["--whitespace", "tight"], "--whitespace is one of compact, single, bounded"),
    ],
)
def test_grammar_check_knows_its_options(
    here: InThisProcess, tmp_path: Path, options: list[str], message: str
) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"regex": "a"}\n')

    status, _, err = here("grammar", "check", str(file), *options)

    assert status == 2
    assert message in err


def test_a_model_that_is_not_there() -> None:
    done = command("serve", "--model", "/no/such/folder", "--port", "0")

    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: no model '/no/such/folder'")
    assert done.stderr.count("\n") == 1


def test_an_unknown_option_is_refused(here: InThisProcess) -> None:
    status, _, err = here("serve", "--modle", "x")

    assert status == 2
    assert "--modle" in err


def test_run_is_python_with_the_programs_own_arguments(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("VALUE = 7\n")
    file = tmp_path / "program.py"
    file.write_text(
        "import sys, neighbour\n"
        "print(__name__, sys.argv[1:], neighbour.VALUE)\n"
        "raise SystemExit(3)\n"
    )
    done = command("run", str(file), "--model", "mine", "-x")

    assert done.returncode == 3, done.stderr
    assert done.stdout == "__main__ ['--model', 'mine', '-x'] 7\n"


def test_a_model_is_the_programs_backend_until_it_ends(
    here: InThisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Runtime:
        def __init__(self, model: str) -> None:
            seen.append(model)

        def shutdown(self) -> None:
            seen.append("shutdown")

    def set_default_backend(backend: Runtime) -> None:
        seen.append(type(backend).__name__)

    monkeypatch.setattr(sglang_lite, "Runtime", Runtime, raising=False)
    monkeypatch.setattr(sglang_lite, "set_default_backend", set_default_backend, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "program.py"
    file.write_text("import sys\nsys.exit(5)\n")

    assert here("run", "--model", "mine", str(file))[0] == 5
    assert seen == ["mine", "Runtime", "shutdown"]


def test_run_without_a_file_to_run(tmp_path: Path) -> None:
    done = command("run", "nothing.py", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr == "error: no file 'nothing.py' to run.\n"


def test_a_programs_own_error_keeps_its_traceback(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("1 / 0\n")
    done = command("run", str(file))

    assert done.returncode == 1
    assert f'File "{file}", line 1' in done.stderr


def test_models_are_listed(
    here: InThisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_LITE_CACHE", str(tmp_path))
    mine = tmp_path / "models" / "mine-0123456789ab"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text("{}")
    status, out, _ = here("model", "list")

    assert status == 0
    assert f"mine{' ' * 21}{mine}\n" in out
    assert "smollm2" in out
    assert "not fetched yet" in out


def test_the_path_of_a_model_is_all_of_stdout(here: InThisProcess, tmp_path: Path) -> None:
    assert here("model", "path", str(tmp_path))[:2] == (0, f"{tmp_path}\n")


def test_fetching_what_does_not_exist(here: InThisProcess) -> None:
    status, _, err = here("model", "fetch", "no such model")

    assert status == 2
    assert "error: no model 'no such model'" in err


def test_check_says_what_the_machine_can_do() -> None:
    done = command("check")

    assert done.returncode == 0, done.stdout
    assert all(name in done.stdout for name in check.FACTS)
    assert done.stdout.endswith("Ready.\n")


def test_check_names_what_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SGLANG_LITE_CACHE", str(tmp_path / "file"))
    assert hub.cached_models() == []

    assert check.check_machine() == 1
    said = capsys.readouterr().out
    assert "cache        BROKEN" in said
    assert f"broken: cache: {tmp_path}/file/models cannot be written: " in said
    assert "set SGLANG_LITE_CACHE" in said
