"""SGLang's names reach every one of our parameters."""

from __future__ import annotations

import msgspec
import pytest

from sglang_lite.errors import InvalidRequest
from sglang_lite.params import SamplingParams
from sglang_lite.runtime.sglang_names import OURS, RENAMED, read_sampling, to_params

VALUES = {
    "max_tokens": 7,
    "min_tokens": 2,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.1,
    "frequency_penalty": 0.2,
    "presence_penalty": -0.3,
    "repetition_penalty": 1.1,
    "logit_bias": {5: -1.0},
    "stop": ("a", "b"),
    "stop_token_ids": (3,),
    "ignore_eos": True,
    "seed": 42,
    "logprobs": 3,
}


def test_every_field_is_reached_by_its_name() -> None:
    assert VALUES.keys() == OURS
    theirs = {ours: name for name, ours in RENAMED.items()}
    for name, value in VALUES.items():
        read = read_sampling({theirs.get(name, name): value}).params
        assert getattr(read, name) == value
        default = getattr(SamplingParams(), name)
        assert value != default, "a value that shows whether it arrived"


def test_the_shapes_that_json_has() -> None:
    read = to_params({"stop": "x", "stop_token_ids": [1, 2], "logit_bias": {"7": 2}})
    assert (read.stop, read.stop_token_ids, read.logit_bias) == (("x",), (1, 2), {7: 2.0})
    assert read_sampling({"stop": None, "n": 3, "no_stop_trim": True}).n == 3
    assert read_sampling(None).params == SamplingParams()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": "hot"}, "`temperature` is 'hot'"),
        ({"temperature": float("nan")}, "`temperature` must be between"),
        ({"n": 0}, "`n` must be between 1 and 128"),
        ({"logit_bias": {"x": 1}}, "no token id"),
        ({"stop": [""]}, "a stop has 1 to"),
        ({"max_tokens": True}, "`max_tokens` is True"),
    ],
)
def test_a_bad_value_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read_sampling(given)


def test_params_survive_the_wire() -> None:
    params = to_params(VALUES)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(params), type=SamplingParams)
    assert again == params
