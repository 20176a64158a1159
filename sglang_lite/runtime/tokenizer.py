"""Text to token ids and back, and the bytes each token stands for.

Built on `tokenizers` and files of a model folder alone. Decoding goes by way of bytes: a token's
bytes do not depend on its neighbours, so text comes out the same whole or in pieces, and stop
strings and grammars see what the reader sees.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import tokenizers

from sglang_lite.errors import InvalidRequest, ModelFileError
from sglang_lite.runtime.chat import ChatTemplate


class Tokenizer:
    """The tokenizer of a model folder.

    Args:
        backend: what splits text; special tokens in a text are recognised.
        config: `tokenizer_config.json`.
        eos_token_ids: every id that ends a text.
        vocab_size: ids are valid below this: the model's, which may be larger than the file's.
        template: the chat template's source, if the model has one.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        config: Mapping[str, Any],
        *,
        eos_token_ids: tuple[int, ...] = (),
        vocab_size: int | None = None,
        template: str | None = None,
    ) -> None:
        self._backend = backend
        backend.no_truncation()
        backend.no_padding()
        added = backend.get_added_tokens_decoder()
        self.vocab_size = vocab_size or backend.get_vocab_size(with_added_tokens=True)
        self.special_ids = frozenset(id for id, token in added.items() if token.special)
        self.token_bytes: Sequence[bytes] = _token_bytes(backend, self.vocab_size)
        bos = _content(config.get("bos_token"))
        self.bos_token_id: int | None = backend.token_to_id(bos) if bos else None
        self.add_bos = self._adds_bos(config)
        eos = _content(config.get("eos_token"))
        own = (backend.token_to_id(eos),) if eos else ()
        ids = (*eos_token_ids, *own)
        self.eos_token_ids = tuple(sorted({id for id in ids if id is not None}))
        self._template = ChatTemplate(template, _special_texts(config)) if template else None

    @classmethod
    def load(cls, folder: str | Path) -> Tokenizer:
        """The tokenizer of a model folder.

        Raises:
            ModelFileError: `tokenizer.json` is missing or cannot be read.
        """
        folder = Path(folder)
        file = folder / "tokenizer.json"
        try:
            backend = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:
            raise ModelFileError(f"{file} cannot be read as a tokenizer: {error}") from error
        config = _read(folder / "tokenizer_config.json")
        model, generation = _read(folder / "config.json"), _read(folder / "generation_config.json")
        eos = [*_ids(generation.get("eos_token_id")), *_ids(model.get("eos_token_id"))]
        return cls(
            backend,
            config,
            eos_token_ids=tuple(eos),
            vocab_size=model.get("vocab_size"),
            template=_template(folder, config),
        )

    def encode(self, text: str, *, add_bos: bool = True) -> list[int]:
        """The ids of `text`; with `add_bos`, exactly one BOS in front where the model wants one."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        if add_bos and self.add_bos and self.bos_token_id is not None:
            return ids if ids[:1] == [self.bos_token_id] else [self.bos_token_id, *ids]
        return ids

    def encode_as_text(self, text: str) -> list[int]:
        """The ids of `text` alone, where even the text of a special token is text."""
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        return ids

    @cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        """A second backend, which recognises no special tokens: that is a switch of the whole."""
        plain = tokenizers.Tokenizer.from_str(self._backend.to_str())
        plain.encode_special_tokens = True
        return plain

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `ids`; bytes that are not UTF-8 show as U+FFFD."""
        decoder = self.decoder(skip_special_tokens=skip_special_tokens)
        return decoder.feed(ids) + decoder.flush()

    def decoder(self, *, skip_special_tokens: bool = True) -> TextDecoder:
        hidden = self.special_ids if skip_special_tokens else frozenset[int]()
        return TextDecoder(self.token_bytes, hidden)

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt text for a conversation, by the model's own template.

        Raises:
            InvalidRequest: the model has no template, or it refuses the messages.
        """
        if self._template is None:
            raise InvalidRequest(
                "this model has no chat template; send a plain prompt to /v1/completions.",
                param="messages",
            )
        return self._template.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            **variables,
        )

    def _adds_bos(self, config: Mapping[str, Any]) -> bool:
        if self.bos_token_id is None:
            return False
        wanted = config.get("add_bos_token")
        if wanted is not None:
            return bool(wanted)
        return self.bos_token_id in self._backend.encode("", add_special_tokens=True).ids


class TextDecoder:
    """Ids to text, piece by piece: only whole characters come out."""

    def __init__(self, token_bytes: Sequence[bytes], hidden: frozenset[int]) -> None:
        self._bytes, self._hidden = token_bytes, hidden
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, ids: Iterable[int]) -> str:
        return self._utf8.decode(b"".join(self._bytes[i] for i in ids if i not in self._hidden))

    def flush(self) -> str:
        """What is left of a character cut in two, as U+FFFD."""
        return self._utf8.decode(b"", final=True)


def _token_bytes(backend: tokenizers.Tokenizer, vocab_size: int) -> list[bytes]:
    """The bytes of each id below `vocab_size`; none for an id without a token."""
    state = backend.decoder.__getstate__() if backend.decoder else b"{}"
    described = state if isinstance(state, bytes) else str(state).encode()
    byte_level = b'"ByteLevel"' in described
    alphabet = {char: byte for byte, char in _byte_characters().items()}
    out = [b""] * vocab_size
    added = backend.get_added_tokens_decoder()
    for token, id in backend.get_vocab(with_added_tokens=True).items():
        if id >= vocab_size:
            continue
        if id in added:
            out[id] = added[id].content.encode()
        elif byte_level:
            out[id] = bytes(alphabet[char] for char in token if char in alphabet)
        elif len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            out[id] = bytes([int(token[3:5], 16)])
        else:
            out[id] = token.replace("\u2581", " ").encode()
    return out


def _byte_characters() -> dict[int, str]:
    """The printable character that byte-level BPE writes for each byte (GPT-2's table)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in shown}
    hidden = (byte for byte in range(256) if byte not in table)
    return table | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ModelFileError(f"{file} is not a JSON object: {error}") from error


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    if (file := folder / "chat_template.jinja").exists():
        return file.read_text(encoding="utf-8")
    source = config.get("chat_template")
    if isinstance(source, list):  # several named ones
        named = {each["name"]: each["template"] for each in source}
        source = named.get("default")
    return source if isinstance(source, str) else None


def _content(token: Any) -> str | None:
    """A special token's text, from either of the two shapes the config files use."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _special_texts(config: Mapping[str, Any]) -> dict[str, str]:
    named = {key: _content(value) for key, value in config.items() if key.endswith("_token")}
    return {key: text for key, text in named.items() if text is not None}


def _ids(value: Any) -> list[int]:
    if isinstance(value, int):
        return [value]
    return list(value) if isinstance(value, list) else []
