"""What a user's grammar may not contain: ways past what every constraint is held to.

llguidance's Lark can name special tokens, embed JSON schemas with options of their own, and set
options for the whole grammar. Text in quotes, between slashes and after `//` or `#` is only text.
"""

from __future__ import annotations

import re

from sglang_lite.runtime.grammar.refusal import Refusal

_TEXT = r'"(?:\\.|[^"\\\n])*"|/(?![/*])(?:\\.|[^/\\\n])+/|//[^\n]*|\#[^\n]*'
_WAY = re.compile(
    rf"{_TEXT}|(?P<directive>%(?:json|llguidance(?!\s*\{{\s*\}}))\b)|(?P<special><[^\s>]*>?)"
)


def refuse_ways_out(grammar: str) -> None:
    """Look through a grammar in llguidance's Lark.

    Raises:
        Refusal: it has a special token, or a directive with options.
    """
    for found in _WAY.finditer(grammar):
        if found["special"]:
            raise Refusal(f"special tokens such as {found['special']} are not for constrained text")
        if found["directive"]:
            raise Refusal(
                f"`{found['directive']}` is not available in a grammar: a schema goes into "
                "`json_schema`, or into a tag of `structural_tag`"
            )
