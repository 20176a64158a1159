"""The rules of the house that a machine can check: who imports whom, and how long a file is."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sglang_lite

PACKAGE = Path(sglang_lite.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 300

# part of the package -> what it must not import: packages from outside, or parts of our own
FORBIDDEN = {
    "lang": {"torch", "zmq", "transformers", "fastapi"},
    "runtime.scheduling": {
        "torch",
        "zmq",
        "asyncio",
        "time",
        "transformers",
        "sglang_lite.lang",
        "sglang_lite.runtime.server",
        "sglang_lite.runtime.execution",
        "sglang_lite.runtime.client",
        "sglang_lite.kernels",
    },
    "runtime.server": {"torch", "zmq", "transformers", "sglang_lite.lang", "sglang_lite.kernels"},
    "runtime.client": {"torch", "transformers", "fastapi", "sglang_lite.lang"},
    "runtime.core": {"torch", "zmq", "sglang_lite.runtime.execution"},
    "kernels": {"zmq", "sglang_lite.runtime", "sglang_lite.lang"},
    "runtime.model": {"zmq", "sglang_lite.runtime.execution", "sglang_lite.lang"},
    "runtime.execution": {"zmq", "sglang_lite.lang", "sglang_lite.runtime.server"},
    "wire": {"torch", "zmq", "sglang_lite.runtime", "sglang_lite.lang"},
    "params": {"torch", "zmq", "sglang_lite.runtime", "sglang_lite.lang"},
    "errors": {"sglang_lite"},
}
# kernels see the arrays of a batch, and nothing else of the runtime
ALLOWED = {("kernels", "sglang_lite.runtime.scheduling.batch")}


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE).with_suffix("").parts)


def imports_of(file: Path) -> Iterator[str]:
    """Everything the file imports when it is run, wherever it stands; not for type checking."""
    tree = ast.parse(file.read_text())
    checking = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in checking:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_point_one_way(file: Path) -> None:
    module = module_of(file)
    for part, forbidden in FORBIDDEN.items():
        if not within(module, part):
            continue
        for name in imports_of(file):
            if any(within(name, allowed) for p, allowed in ALLOWED if p == part):
                continue
            assert not any(within(name, bad) for bad in forbidden), f"{module} imports {name}"


def test_only_the_runtime_backends_of_the_language_know_the_runtime() -> None:
    for file in FILES:
        module = module_of(file)
        if within(module, "lang") and module not in ("lang.backends.runtime", "lang.backends.http"):
            reached = [name for name in imports_of(file) if within(name, "sglang_lite.runtime")]
            assert not reached, f"{module} imports {reached[0]}"


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_a_file_is_about_one_idea(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= LONGEST


def test_no_pickle_and_no_eval() -> None:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), f"{file} calls {node.func.id}"
        assert not {"pickle", "marshal", "shelve"} & set(imports_of(file))


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("sglang_lite", {"torch", "zmq", "transformers", "numpy"}),
        ("sglang_lite.lang", {"torch", "zmq", "transformers"}),
        ("sglang_lite.runtime.scheduling.scheduler", {"torch", "zmq", "transformers"}),
        ("sglang_lite.runtime.client", {"torch", "transformers"}),
        ("sglang_lite.runtime.worker", {"torch", "transformers"}),
    ],
)
def test_importing_a_part_stays_light(module: str, absent: set[str]) -> None:
    program = f"import sys, {module}; print(*sorted({absent!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
