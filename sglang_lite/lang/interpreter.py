"""SGLang's module of program states; see `state` and `group`."""

from __future__ import annotations

from sglang_lite.lang.group import ProgramStateGroup
from sglang_lite.lang.state import ProgramState

__all__ = ["ProgramState", "ProgramStateGroup"]
