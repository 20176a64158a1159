"""How far a batch is, and what it costs: one line on stderr."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from tqdm import tqdm

from sglang_lite.lang.state import ProgramState


class Progress:
    def __init__(self, total: int, name: str, *, shown: bool) -> None:
        self._bar: Any = None
        if shown:
            self._bar = tqdm(total=total, desc=name, unit="program", file=sys.stderr)
        self._began = monotonic()
        self._prompt = self._cached = self._generated = 0

    def add(self, state: ProgramState) -> None:
        """One more program has ended."""
        if self._bar is None:
            return
        usage = state.usage
        self._prompt += usage["prompt_tokens"]
        self._cached += usage["cached_tokens"]
        self._generated += usage["completion_tokens"]
        seconds = max(monotonic() - self._began, 1e-9)
        hits = self._cached / self._prompt if self._prompt else 0.0
        self._bar.set_postfix_str(f"{self._generated / seconds:.0f} tok/s, hit rate {hits:.0%}")
        self._bar.update()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
