"""Forced text in the tokens that the tokenizer itself would choose.

Tokens that have been computed are never touched. The one just drawn has not been: it is spelled
anew together with what it forces. All of it is encoded after the last tokens there are, and counts
only if those come out unchanged. The last new token may grow by what follows the forced text: it
is left for the model to draw, unless it stays the same whatever character is next. An output that
a later prompt quotes is then encoded into the same ids, and is found in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglang_lite.runtime.grammar.table import TokenTable

TAIL = 6  # tokens that are encoded again, at most
MAX_KNOWN = 16_384  # answers kept about what may follow a token
# For a byte that begins a character of several bytes: some such characters, of various classes.
WIDE = {range(0xC2, 0xE0): "é\xa0й", range(0xE0, 0xF0): "日…\u2028", range(0xF0, 0xF5): "😀"}


def continuation(
    table: TokenTable,
    tail: Sequence[int],
    forced: bytes,
    *,
    drawn: int | None = None,
    following: bytes | None = None,
) -> list[int]:
    """Tokens for `drawn` and for (a beginning of) the `forced` bytes after it.

    Args:
        tail: the tokens before; they stay as they are.
        drawn: a token that was drawn and is not computed yet; the result has at least its bytes.
        following: the bytes of which one comes after `forced`, if anything does; None: unknown.
    """
    alone = [] if drawn is None else [drawn]
    if not forced:
        return alone
    head = b"".join(table.tokens[id] for id in alone)
    tail = _ordinary(table, tail)
    # A tail that is not in the tokenizer's own spelling never comes out unchanged; a shorter may.
    for size in dict.fromkeys((len(tail), len(tail) // 2, min(1, len(tail)))):
        new, whole = _after(table, tail[len(tail) - size :], head + forced)
        if new:
            break
    else:
        return alone
    sure = new if whole and _stays(table, [*tail, *new][-TAIL:], following) else new[:-1]
    if sum(len(table.tokens[id]) for id in sure) >= len(head):
        return sure
    # The drawn token and the first forced ones may be one token: better that than surely apart.
    return alone if new[:1] == alone else new


def _stays(table: TokenTable, ids: Sequence[int], following: bytes | None) -> bool:
    """Whether `ids` are the beginning of what the tokenizer makes of any text that goes on."""
    if following is None:
        return False
    begin = tuple(_ordinary(table, ids))
    key = begin, following
    known = table.stays.get(key)
    if known is None:
        text = b"".join(table.tokens[id] for id in begin).decode(errors="replace")
        known = all(
            tuple(table.encode(text + char)[: len(begin)]) == begin for char in _begun_by(following)
        )
        if len(table.stays) >= MAX_KNOWN:
            table.stays.clear()
        table.stays[key] = known
    return known


def _begun_by(following: bytes) -> str:
    """Characters that begin with the bytes `following`; of those beyond ASCII a few."""
    narrow = "".join(chr(byte) for byte in following if byte < 0x80)
    wide = (chars for leads, chars in WIDE.items() if any(byte in leads for byte in following))
    return narrow + "".join(wide)


def _after(table: TokenTable, tail: Sequence[int], data: bytes) -> tuple[list[int], bool]:
    """Tokens for the whole characters of `data` after `tail`, and whether these are all of it.

    No tokens, if `tail` does not come out unchanged, or the tokenizer changes the text.
    """
    before = b"".join(table.tokens[id] for id in tail)
    text, whole = _decoded(before + data)
    ids = table.encode(text)
    new = ids[len(tail) :]
    spelled = b"".join(table.tokens[id] for id in new)
    exact = ids[: len(tail)] == list(tail) and before + spelled == text.encode()
    return new if exact and all(table.tokens[id] for id in new) else [], whole


def _ordinary(table: TokenTable, tail: Sequence[int]) -> Sequence[int]:
    """The last tokens that are text, and begin with a character."""
    tail = tail[-TAIL:]
    for index in range(len(tail) - 1, -1, -1):
        if not table.tokens[tail[index]]:
            tail = tail[index + 1 :]
            break
    while tail and table.tokens[tail[0]][0] & 0xC0 == 0x80:
        tail = tail[1:]
    return tail


def _decoded(data: bytes) -> tuple[str, bool]:
    """The whole characters at the beginning of `data`, and whether that is all."""
    try:
        return data.decode(), True
    except UnicodeDecodeError as error:
        return data[: error.start].decode(), False
