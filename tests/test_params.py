"""Every limit of every parameter, with the value in the message."""

from __future__ import annotations

from typing import Any

import pytest

from sglang_lite.errors import InvalidRequest
from sglang_lite.params import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("min_tokens", -1),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", 0),
        ("top_k", -2),
        ("top_k", 1 << 70),
        ("min_p", 1.5),
        ("frequency_penalty", 2.5),
        ("presence_penalty", -2.5),
        ("repetition_penalty", 0.0),
        ("seed", 1 << 63),
        ("logprobs", 101),
        ("logprobs", -1),
        ("stop", ("",)),
        ("stop", ("x" * 2000,)),
        ("stop", ("x",) * 33),
        ("stop_token_ids", (-1,)),
        ("stop_token_ids", (1 << 70,)),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {1: 101.0}),
        ("logit_bias", dict.fromkeys(range(2000), 1.0)),
    ],
)
def test_a_value_out_of_range_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"`{field}`") as caught:
        SamplingParams(**{field: value})
    assert caught.value.param == field
    assert "got" in str(caught.value)


def test_what_counts_as_greedy_and_as_penalised() -> None:
    assert SamplingParams(temperature=0).greedy
    assert SamplingParams(top_k=1).greedy
    assert not SamplingParams().greedy
    assert not SamplingParams().penalised
    for field in ("frequency_penalty", "presence_penalty"):
        assert SamplingParams(**{field: 0.5}).penalised
    assert SamplingParams(repetition_penalty=1.2).penalised
