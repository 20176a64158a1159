"""The tokenizer inside a GGUF file, written as tokenizer.json and its companions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sglang_lite.errors import ModelFileError

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def _split(pattern: str) -> dict[str, Any]:
    cut = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut, _BYTES | {"use_regex": False}]}


_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# How text is cut before merges is only named in a GGUF file, and transformers does not read the
# name. None: what transformers writes is right.
PRE_TOKENIZERS: dict[str, dict[str, Any] | None] = {
    "default": None,
    "gpt-2": None,
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            _BYTES | {"use_regex": True},
        ],
    },
    "llama-bpe": _split(_WORDS % "{1,3}"),
    "qwen2": _split(_WORDS % ""),
}


def write_tokenizer(source: Path, pre_tokenizer: str, folder: Path) -> None:
    """Write the tokenizer of the GGUF file `source` into `folder`.

    Raises:
        ModelFileError: the file holds no tokenizer, or one that is not known here.
    """
    if pre_tokenizer not in PRE_TOKENIZERS:
        raise ModelFileError(
            f"{source}: pre-tokenizer {pre_tokenizer!r} is not supported, only "
            f"{', '.join(PRE_TOKENIZERS)}; use the model's safetensors checkpoint."
        )
    # Seconds of import, needed once in the life of a model.
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
    except Exception as error:
        raise ModelFileError(f"{source} holds no tokenizer that can be read: {error}.") from error
    tokenizer.save_pretrained(str(folder))
    cut = PRE_TOKENIZERS[pre_tokenizer]
    if cut is not None:
        path = folder / "tokenizer.json"
        written = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(written | {"pre_tokenizer": cut}, ensure_ascii=False), "utf-8")
