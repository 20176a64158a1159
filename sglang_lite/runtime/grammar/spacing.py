"""What may stand between the tokens of JSON, as a regex that both engines read. Never unbounded."""

from __future__ import annotations

WHITESPACE = {"compact": "", "single": "[ ]?", "bounded": r"(?: |\n[ \t]{0,20})?"}
