"""The bytes of every token of one vocabulary: what all grammar engines see of the tokenizer.

Special tokens have no bytes here. Their text is text like any other: it is spelled with ordinary
tokens, and the tokens themselves are never allowed inside constrained output (but for EOS, where
the output may end).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sglang_lite.runtime.grammar.protocol import Row

Int = NDArray[np.int32]


class Spelling(Protocol):
    """What a table is made from; a tokenizer has it."""

    @property
    def token_bytes(self) -> Sequence[bytes]: ...
    @property
    def special_ids(self) -> frozenset[int]: ...
    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...

    def encode_as_text(self, text: str) -> list[int]: ...


class Level(NamedTuple):
    """The nodes of the token trie at one depth, children of a node side by side."""

    first: Int  # [parents + 1] node p of the level above has the children first[p]:first[p + 1]
    parent: Int  # [nodes]
    byte: NDArray[np.uint8]  # [nodes] that leads here
    token: Int  # [nodes] the token that ends here, or -1
    more_node: Int  # further tokens with the same bytes: their nodes,
    more_token: Int  # and they


class TokenTable:
    """One vocabulary.

    Args:
        tokens: the bytes of each id; b"" for those that are never allowed.
        eos: ids that end an output.
        encode: text to ids, where the text of a special token is text and nothing is added.
        names: what grammars may call special tokens by.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        eos: Iterable[int],
        encode: Callable[[str], list[int]],
        names: Mapping[int, bytes] | None = None,
    ) -> None:
        self.names = dict(names or {})
        self.stays: dict[tuple[tuple[int, ...], bytes], bool] = {}  # see `canonical`
        self.eos = tuple(sorted(set(eos)))
        self.tokens = [b"" if id in self.eos else data for id, data in enumerate(tokens)]
        self.encode = encode
        self.width = -(-len(self.tokens) // 32)
        self.longest = max(map(len, self.tokens), default=0)

    @classmethod
    def of(cls, tokenizer: Spelling) -> TokenTable:
        special = tokenizer.special_ids
        tokens = [b"" if i in special else data for i, data in enumerate(tokenizer.token_bytes)]
        names = {i: tokenizer.token_bytes[i] for i in special if i < len(tokens)}
        return cls(tokens, tokenizer.eos_token_ids, tokenizer.encode_as_text, names)

    @property
    def size(self) -> int:
        """Ids of the model, those without a token included."""
        return len(self.tokens)

    @cached_property
    def missing_bytes(self) -> bytes:
        """The bytes that no token spells by themselves."""
        alone = {data[0] for data in self.tokens if len(data) == 1}
        return bytes(byte for byte in range(256) if byte not in alone)

    def row(self, ids: Int) -> Row:
        """A mask with the bits of `ids`."""
        bits = np.zeros(self.width * 32, np.uint8)
        bits[ids] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    @cached_property
    def eos_row(self) -> Row:
        return self.row(np.array(self.eos, np.int32))

    @cached_property
    def levels(self) -> list[Level]:
        """The token trie, from the first byte on."""
        ids = np.array([id for id, data in enumerate(self.tokens) if data], np.int32)
        lengths = np.array([len(self.tokens[id]) for id in ids.tolist()], np.int64)
        text = np.frombuffer(b"".join(self.tokens[id] for id in ids.tolist()), np.uint8)
        begin = np.cumsum(lengths) - lengths
        node = np.zeros(len(ids), np.int64)  # of each token, at the depth reached
        parents, levels = 1, []
        for depth in range(self.longest):
            reach = lengths > depth
            ids, lengths, begin, node = ids[reach], lengths[reach], begin[reach], node[reach]
            keys, node = np.unique(node * 256 + text[begin + depth], return_inverse=True)
            levels.append(_level(keys, parents, node, ids, lengths == depth + 1))
            parents = len(keys)
        return levels


def _level(
    keys: NDArray[np.int64],
    parents: int,
    node: NDArray[np.intp],
    ids: Int,
    ends: NDArray[np.bool_],
) -> Level:
    parent = (keys >> 8).astype(np.int32)
    where, tokens = node[ends], ids[ends]
    token = np.full(len(keys), -1, np.int32)
    token[where[::-1]] = tokens[::-1]  # of several the first stays
    more = token[where] != tokens
    return Level(
        first=np.searchsorted(parent, np.arange(parents + 1)).astype(np.int32),
        parent=parent,
        byte=(keys & 255).astype(np.uint8),
        token=token,
        more_node=where[more].astype(np.int32),
        more_token=tokens[more],
    )
