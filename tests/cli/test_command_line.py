"""The command line, as a shell sees it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import sglang_lite
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
def test_every_command_has_help(name: str) -> None:
    assert command(name, "--help").returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "hot"], "--dtype is one of auto, bfloat16, float32, got 'hot'."),
        (["--page-size", "0"], "--page-size is between 1 and 256, got 0."),
        (["--mem-fraction-static", "2"], "--mem-fraction-static is between 0 and 1, got 2.0."),
        (["--port", "99999999"], "--port 99999999"),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid cannot be listened on"),
        (["--model", "/no/such/folder", "--port", "0"], "'/no/such/folder'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_option_is_one_line_and_status_2(options: list[str], message: str) -> None:
    done = command("serve", *options)

    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_unknown_option_is_refused() -> None:
    done = command("serve", "--modle", "x")

    assert done.returncode == 2
    assert "--modle" in done.stderr


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


def test_models_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_LITE_CACHE", str(tmp_path))
    here = tmp_path / "models" / "mine-0123456789ab"
    here.mkdir(parents=True)
    (here / "config.json").write_text("{}")
    done = command("model", "list")

    assert done.returncode == 0
    assert f"mine{' ' * 21}{here}\n" in done.stdout
    assert "smollm2" in done.stdout
    assert "not fetched yet" in done.stdout


def test_the_path_of_a_model_is_all_of_stdout(tmp_path: Path) -> None:
    done = command("model", "path", str(tmp_path))

    assert done.stdout == f"{tmp_path}\n"


def test_fetching_what_does_not_exist() -> None:
    done = command("model", "fetch", "no such model")

    assert done.returncode == 2
    assert "error: no model 'no such model'" in done.stderr
    assert "Traceback" not in done.stderr


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
