from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglang_lite.config import ModelFacts
from sglang_lite.errors import ModelFileError
from sglang_lite.runtime.model.config import read_config, read_facts

RAW: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 50,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
}


def write(folder: Path, **changes: Any) -> Path:
    raw = {name: value for name, value in (RAW | changes).items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


def test_facts_for_sizing(tmp_path: Path) -> None:
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 2 * 64

    facts = read_facts(write(tmp_path))

    assert facts == ModelFacts(
        context_length=256,
        parameters=3 * layer + 2 * 50 * 64 + 64,
        kv_elements_per_token=2 * 3 * 2 * 16,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": 5e4, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 5e4, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e4}},
    ],
)
def test_old_and_new_names_of_the_rotation(tmp_path: Path, changes: dict[str, Any]) -> None:
    rope = read_config(write(tmp_path, **changes)).rope

    assert (rope.kind, rope.factor, rope.theta) == ("linear", 2.0, 5e4)


def test_every_end_of_text_counts(tmp_path: Path) -> None:
    write(tmp_path, eos_token_id=2)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 2]}')

    assert read_config(tmp_path).eos_ids == (2, 7)


def test_context_ends_with_a_sliding_window(tmp_path: Path) -> None:
    write(tmp_path, architectures=["MistralForCausalLM"], sliding_window=100)
    assert read_config(tmp_path).context == 100

    write(tmp_path, sliding_window=100, use_sliding_window=False)
    assert read_config(tmp_path).context == 256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"architectures": ["GPT2LMHeadModel"]},
            "'GPT2LMHeadModel' is not supported, only one of Llama",
        ),
        ({"architectures": ...}, r"'\(none\)' is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic'"),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor 0\.5"),
        ({"rope_parameters": {"full": {"rope_theta": 1.0}}}, "one rotation for all layers"),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ({"hidden_size": ...}, "has no 'hidden_size'"),
        ({"hidden_size": "wide"}, "wrong kind"),
    ],
)
def test_what_would_compute_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelFileError, match=message):
        read_config(write(tmp_path, **changes))


def test_a_config_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="does not exist"):
        read_config(tmp_path)
    for text in ("{", "[]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ModelFileError, match=r"config\.json"):
            read_config(tmp_path)
