from __future__ import annotations

import importlib
import sys

from benchmarks.machine import load

NAMES = ("exactness", "sharing", "speed", "memory", "startup", "language", "openai", "processes",
         "input", "walked", "generated", "masks", "compile", "jump", "stall", "retention",
         "hostile", "programs", "concurrency")  # fmt: skip


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in NAMES:
        print(f"usage: make bar-NAME, with NAME one of {', '.join(NAMES)}")
        return 2
    met = importlib.import_module(f"benchmarks.bars.{sys.argv[1]}").measure()
    print(f"{sys.argv[1]}: {'met' if met else 'MISSED'} ({load()})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
