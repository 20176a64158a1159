"""Every attention backend against the oracle, over random batches that share runs."""

from __future__ import annotations

import pytest
import torch
from batches import Row, Run, make_batch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lite.errors import InvalidConfig
from sglang_lite.kernels.protocol import ATTENTION, LINEAR, Geometry, attention, linear
from sglang_lite.kernels.reference import ReferenceAttention
from sglang_lite.runtime.scheduling.batch import Batch


class Pages:
    """Hands out pages that are nowhere near each other."""

    def __init__(self) -> None:
        self.next = 0

    def take(self, tokens: int, page_size: int) -> list[int]:
        first, self.next = self.next, self.next + -(-tokens // page_size)
        return [1 + index * 7 % 499 for index in range(first, self.next)]


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, int]:
    """Families of rows below a common prefix, which one of them may be writing right now."""
    page_size = draw(st.sampled_from([1, 4]))
    pages, rows, runs = Pages(), [], []
    for _ in range(draw(st.integers(1, 3))):
        first_row, count = len(rows), draw(st.integers(1, 4))
        common = draw(st.integers(0, 3)) * page_size
        inner = draw(st.integers(0, 2)) * page_size if count > 2 else 0
        family = list(range(first_row, first_row + count))
        depth = {row: common + (inner if row - first_row >= count - 2 else 0) for row in family}
        if common:
            runs.append(Run(0, common, pages.take(common, page_size), family))
        if inner:
            runs.append(Run(common, inner, pages.take(inner, page_size), family[-2:]))
        for row in family:
            writes = row == first_row and depth[row] > 0 and draw(st.booleans())
            start = draw(st.integers(0, depth[row] - 1)) if writes else depth[row]
            # More than a few new tokens are another kernel's.
            lengths = st.integers(1, 6) | st.sampled_from([15, 16, 20])
            own = draw(lengths) if not writes else draw(st.integers(0, 5))
            past = 0 if writes else draw(st.integers(0, 9))
            length = depth[row] - start + own if writes else own
            start += past
            private = start + length - depth[row]
            cut = draw(st.integers(0, private // page_size)) * page_size
            for begin, size in ((0, cut), (cut, private - cut)):
                if size:
                    runs.append(Run(depth[row] + begin, size, pages.take(size, page_size), [row]))
            rows.append(Row(row, start, [0] * length))
    order = draw(st.permutations(range(len(runs))))
    return make_batch(rows, [runs[index] for index in order], page_size), page_size


@pytest.mark.parametrize("name", [name for name in ATTENTION if name != "reference"])
@given(made=batches(), sharing=st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 1)]))
@settings(max_examples=60, deadline=None)
def test_every_backend_equals_the_oracle(
    name: str, made: tuple[Batch, int], sharing: tuple[int, int]
) -> None:
    batch, page_size = made
    geometry = Geometry(sharing[0], sharing[1], 16, page_size)
    random = torch.Generator().manual_seed(len(batch.tokens))
    cache = torch.randn(501 * page_size, 2, geometry.kv_heads, 16, generator=random)
    cache[:page_size] = float("nan")  # page 0 belongs to nobody
    queries = torch.randn(len(batch.tokens), geometry.heads, 16, generator=random)
    own = cache[torch.from_numpy(batch.write).long()]

    oracle, backend = ReferenceAttention(geometry), attention(name)(geometry)
    expected = oracle.attend(oracle.plan(batch), queries, own, cache)
    found = backend.attend(backend.plan(batch), queries, own, cache)

    torch.testing.assert_close(found, expected, atol=2e-6, rtol=2e-5)


def test_what_a_row_does_not_read_cannot_hurt_it() -> None:
    """NaN in one row's keys stays in that row, although rows are padded and computed together."""
    rows = [Row(0, 5, [0]), Row(1, 9, [0]), Row(2, 3, [0] * 4)]
    runs = [
        Run(0, 6, list(range(1, 7)), [0]),
        Run(0, 10, list(range(11, 21)), [1]),
        Run(0, 7, list(range(31, 38)), [2]),
    ]
    batch = make_batch(rows, runs, 1)
    cache = torch.randn(40, 2, 1, 8)
    cache[11:21] = float("nan")
    queries, own = torch.randn(6, 2, 8), cache[torch.from_numpy(batch.write).long()]
    for name in ATTENTION:
        backend = attention(name)(Geometry(2, 1, 8, 1))

        out = backend.attend(backend.plan(batch), queries, own, cache)

        assert out.isfinite().all(dim=(1, 2)).tolist() == [True, False, True, True, True, True]


@pytest.mark.parametrize("name", list(LINEAR))
@pytest.mark.parametrize("rows", [0, 1, 3, 40])
def test_every_linear_backend_multiplies(name: str, rows: int) -> None:
    weight, bias = torch.randn(24, 16), torch.randn(24)
    x, residual = torch.randn(rows, 16), torch.randn(rows, 24)
    expected = x @ weight.T + bias

    layer = linear(name)(weight, bias)

    torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(layer(x, residual), expected + residual, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(linear(name)(weight)(x), expected - bias, atol=1e-5, rtol=1e-5)


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidConfig, match=r"auto, segments, fixed.*got 'fast'"):
        attention("fast")
