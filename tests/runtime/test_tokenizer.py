"""Tokenizers of both families, built on the spot: bytes, BOS, templates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from sglang_lite.errors import InvalidRequest, ModelFileError
from sglang_lite.runtime.tokenizer import Tokenizer

TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
PROMPT = "{% if add_generation_prompt %}[assistant]{% endif %}"


def byte_level() -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["the quick brown fox the quick"], trainer)
    return backend


def sentencepiece() -> tokenizers.Tokenizer:
    vocab = {"<unk>": 0, "\u2581the": 1, "\u2581": 2, "fox": 3}
    vocab |= {f"<0x{byte:02X}>": 4 + byte for byte in range(256)}
    backend = tokenizers.Tokenizer(models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>"))
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return backend


def save(folder: Path, **config: object) -> Path:
    byte_level().save(str(folder / "tokenizer.json"))
    known = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(known))
    (folder / "config.json").write_text(json.dumps({"vocab_size": 400, "eos_token_id": 7}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [8, 9]}))
    return folder


TOKENIZER = Tokenizer(byte_level(), {"bos_token": "<s>", "add_bos_token": True})


@given(st.text(max_size=40))
def test_decoding_in_pieces_equals_decoding_whole_equals_the_text(text: str) -> None:
    ids = TOKENIZER.encode(text, add_bos=False)
    decoder = TOKENIZER.decoder()
    pieces = [decoder.feed([id]) for id in ids] + [decoder.flush()]
    shown = text.replace("<s>", "").replace("</s>", "")
    assert "".join(pieces) == TOKENIZER.decode(ids) == shown
    assert b"".join(TOKENIZER.token_bytes[id] for id in ids) == text.encode()


def test_bytes_of_a_sentencepiece_vocabulary() -> None:
    tokenizer = Tokenizer(sentencepiece(), {})
    assert tokenizer.token_bytes[1] == b" the"
    assert tokenizer.token_bytes[4 + 0xE9] == b"\xe9"
    assert tokenizer.decode([1, 4 + 0xC3, 4 + 0xA9, 3]) == " the\u00e9fox"


def test_there_is_exactly_one_bos() -> None:
    bos = TOKENIZER.bos_token_id
    assert TOKENIZER.encode("fox")[0] == bos
    assert TOKENIZER.encode("<s>fox").count(bos) == 1
    assert bos not in TOKENIZER.encode("fox", add_bos=False)
    assert bos not in Tokenizer(byte_level(), {"bos_token": "<s>"}).encode("fox")


def test_a_folder_tells_everything(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(save(tmp_path, chat_template=TEMPLATE + PROMPT))
    assert tokenizer.vocab_size == len(tokenizer.token_bytes) == 400
    assert tokenizer.eos_token_ids == (1, 7, 8, 9)
    messages = [{"role": "user", "content": "hi"}]
    assert tokenizer.render_chat(messages) == "[user]hi</s>[assistant]"
    messages.append({"role": "assistant", "content": "I am"})
    assert tokenizer.render_chat(messages, continue_final_message=True) == (
        "[user]hi</s>[assistant]I am"
    )


def test_a_template_file_counts_more_than_the_config(tmp_path: Path) -> None:
    save(tmp_path, chat_template="old")
    (tmp_path / "chat_template.jinja").write_text("new {{ messages[0].content }}")
    assert Tokenizer.load(tmp_path).render_chat([{"role": "user", "content": "x"}]) == "new x"


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('only users may speak') }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ undefined_thing.field }}",
    ],
)
def test_a_template_can_refuse_but_do_no_harm(tmp_path: Path, template: str) -> None:
    tokenizer = Tokenizer.load(save(tmp_path, chat_template=template))
    with pytest.raises(InvalidRequest, match="chat template refuses"):
        tokenizer.render_chat([{"role": "user", "content": "x"}])


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)
    tokenizer = Tokenizer.load(save(tmp_path))
    with pytest.raises(InvalidRequest, match="no chat template"):
        tokenizer.render_chat([{"role": "user", "content": "x"}])
    with pytest.raises(InvalidRequest, match="`messages` is empty"):
        Tokenizer.load(save(tmp_path, chat_template=TEMPLATE)).render_chat([])
