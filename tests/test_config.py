"""Options: what is left open is decided once, and what cannot be is refused with numbers."""

from __future__ import annotations

import pytest

from sglang_lite.config import EngineConfig, Machine, ModelFacts, resolve
from sglang_lite.errors import InvalidConfig

MODEL = ModelFacts(context_length=8192, parameters=135_000_000, kv_elements_per_token=11_520)
CPU = Machine(device="cpu", free_bytes=8 << 30, cores=4, fast_bfloat16=False)


def test_what_is_left_open_is_decided_from_facts() -> None:
    resolved = resolve(EngineConfig(), MODEL, CPU)
    assert (resolved.dtype, resolved.page_size, resolved.threads) == ("float32", 1, 4)
    weights, share = 135_000_000 * 4, int((8 << 30) * 0.6)
    assert resolved.max_total_tokens == (share - weights) // (11_520 * 4)
    assert resolved.context_length == 8192
    fast = Machine(device="cpu", free_bytes=8 << 30, cores=4, fast_bfloat16=True)
    assert resolve(EngineConfig(), MODEL, fast).dtype == "bfloat16"


def test_what_is_given_is_kept() -> None:
    config = EngineConfig(
        dtype="bfloat16",
        page_size=16,
        max_total_tokens=1000,
        context_length=500,
        max_running_requests=3,
        chunked_prefill_size=32,
        threads=1,
    )
    resolved = resolve(config, MODEL, CPU)
    assert (resolved.num_pages, resolved.max_total_tokens) == (62, 992)
    assert (resolved.context_length, resolved.max_running_requests) == (500, 3)
    assert (resolved.chunk, resolved.threads, resolved.dtype) == (32, 1, "bfloat16")
    assert "992 tokens in pages of 16" in resolved.describe()


def test_the_pool_bounds_the_context() -> None:
    assert resolve(EngineConfig(max_total_tokens=300), MODEL, CPU).context_length == 300


def test_a_model_that_does_not_fit_is_refused_with_numbers() -> None:
    small = Machine(device="cpu", free_bytes=600 << 20, cores=1, fast_bfloat16=False)
    with pytest.raises(InvalidConfig, match=r"weights need 514 MiB.*60% of the 600 MiB free"):
        resolve(EngineConfig(), MODEL, small)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"page_size": 0}, r"--page-size is between 1 and 256, got 0"),
        ({"mem_fraction_static": 1.5}, r"--mem-fraction-static is between 0 and 1, got 1.5"),
        ({"dtype": "int3"}, r"--dtype is one of auto, bfloat16, float32, got 'int3'"),
        ({"schedule_policy": "luck"}, r"--schedule-policy is one of lpm, fcfs, dfs, pri"),
        ({"prefix_cache": "trie"}, r"--prefix-cache is one of tree, table, got 'trie'"),
        ({"retention_share": 1.5}, r"--retention-share is between 0 and 1, got 1.5"),
        ({"retention_seconds": -1}, r"--retention-seconds is between 0 and 3600, got -1"),
        ({"max_total_tokens": -1}, r"--max-total-tokens is at least 1, got -1"),
        ({"chunked": 1}, r"unknown option 'chunked'; the options are"),
    ],
)
def test_a_bad_option_is_named_with_its_range(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        EngineConfig.of(options)
