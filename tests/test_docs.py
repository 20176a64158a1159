"""The examples of the documentation, run as they stand, on a runtime with a made-up model."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.lang.backends import default

PAGE = Path(__file__).parent.parent / "docs" / "language.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_page_of_the_language_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 8
    started: list[sgl.Runtime] = []

    def fake(**options: Any) -> sgl.Runtime:
        runtime = sgl.Runtime("fake", core="sglang_lite.testing:fake_core", context_length=4096)
        started.append(runtime)
        return runtime

    page = tmp_path / "page.py"
    page.write_text("\n\n".join(blocks).replace("sgl.Runtime(", "fake("))
    monkeypatch.setattr(default, "_default", [])
    spec = importlib.util.spec_from_file_location("page", page)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.fake = fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "page", module)
    try:
        spec.loader.exec_module(module)
    finally:
        for runtime in started:
            runtime.shutdown()
    shown = capsys.readouterr().out
    assert "flowchart TD" in shown
    assert "An essay: " in shown
    assert isinstance(module.state, sgl.ProgramState)
