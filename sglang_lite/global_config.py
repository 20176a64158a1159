"""Settings of the whole process, under SGLang's names.

`verbosity`, `spaces_between_special_tokens_in_out` and `enable_parallel_encoding` can be set and
change nothing: nothing is printed, tokens are joined as their bytes are, and branches that are
appended to their parent are always computed as one text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class GlobalConfig:
    """Set the attributes of `global_config`; they are read when a program runs."""

    verbosity: int = 0
    skip_special_tokens_in_output: bool = True  # of gens on a runtime of ours
    spaces_between_special_tokens_in_out: bool = True
    enable_precache_with_tracing: bool = True  # send a batch's common beginning ahead
    enable_parallel_encoding: bool = True

    @property
    def default_backend(self) -> Any:
        """What runs programs that are not given a backend; None: nothing does."""
        from sglang_lite.lang.backends import default  # which backends read this module

        return default._default[0] if default._default else None

    @default_backend.setter
    def default_backend(self, backend: Any) -> None:
        from sglang_lite.lang.backends.default import set_default_backend

        set_default_backend(backend)


global_config = GlobalConfig()
