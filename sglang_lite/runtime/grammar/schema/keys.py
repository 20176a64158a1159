"""Property names that are not declared: every string but a few, as a regex."""

from __future__ import annotations

from collections.abc import Iterable

from sglang_lite.runtime.grammar.characters import QUOTE, character_of
from sglang_lite.runtime.grammar.codepoints import CHARACTERS, Ranges, complement, either, of

_Tree = dict[str, "_Tree"]
_END = ""  # a name may end here


def any_but(names: Iterable[str], alphabet: Ranges) -> str:
    """A regex for every JSON string, quoted, except the names; one spelling for each character."""
    tree: _Tree = {}
    for name in names:
        node = tree
        for character in name:
            node = node.setdefault(character, {})
        node[_END] = {}
    anything = character_of(CHARACTERS, alphabet)
    written: dict[int, str] = {}
    pending = [(tree, False)]
    while pending:  # children first, without recursion: a name may be long
        node, ready = pending.pop()
        below = [(character, child) for character, child in node.items() if character != _END]
        if not ready:
            pending.append((node, True))
            pending.extend((child, False) for _, child in below)
            continue
        other = complement(of("".join(character for character, _ in below)))
        options = [f"{character_of(other, alphabet)}{anything}*"]
        options += [
            character_of(of(character), alphabet) + written[id(child)] for character, child in below
        ]
        written[id(node)] = either(options) if _END in node else f"(?:{'|'.join(options)})?"
    return f"{QUOTE}{written[id(tree)]}{QUOTE}"
