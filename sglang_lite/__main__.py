"""The command line's entry: `sglang-lite` and `python -m sglang_lite`."""

from __future__ import annotations

import sys

from sglang_lite.cli.main import app
from sglang_lite.errors import InvalidConfig, RuntimeUnavailable


def main() -> None:
    """Run a command; what the operator can fix is one line on stderr and status 2."""
    try:
        app(prog_name="sglang-lite")
    except InvalidConfig as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except RuntimeUnavailable as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
