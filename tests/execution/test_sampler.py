from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from batches import Row, entering_of, ints, sampling_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lite.runtime.execution import noise
from sglang_lite.runtime.execution.sampler import Draw, Sampler
from sglang_lite.runtime.scheduling.batch import Allowed

VOCAB = 2_000


def row(**options: object) -> Row:
    return Row(slot=0, start=0, tokens=[0], **options)  # type: ignore[arg-type]


def draw(logits: np.ndarray, rows: list[Row], sampler: Sampler | None = None) -> Draw:
    sampler = sampler or Sampler(8, logits.shape[1], "cpu")
    slots = ints(range(len(rows)))
    return sampler.draw(torch.from_numpy(logits.astype(np.float32)), sampling_of(rows), slots)


def some_logits(rows: int = 1, vocab: int = VOCAB, spread: float = 2.0) -> np.ndarray:
    return np.random.default_rng(rows + vocab).normal(0, spread, (rows, vocab)).astype(np.float32)


def allowed(logits: np.ndarray, temperature: float, k: int, p: float, min_p: float) -> set[int]:
    """The tokens that temperature, top-k, top-p and min-p leave, as their papers say."""
    probabilities = np.exp((logits - logits.max()).astype(np.float64) / temperature)
    order = np.argsort(-probabilities, kind="stable")[: min(k, len(logits))]
    share = probabilities[order] / probabilities[order].sum()
    order = order[: int((np.cumsum(share) - share < p).sum())]
    kept = probabilities[order] >= min_p * probabilities[order[0]]
    return {int(token) for token in order[kept]}


@given(
    vocab=st.sampled_from([5, 70, VOCAB]),
    spread=st.sampled_from([0.1, 2.0, 8.0]),
    temperature=st.sampled_from([0.5, 1.0, 3.0]),
    k=st.sampled_from([2, 3, 60, 100, 1_500, 1 << 30]),
    p=st.sampled_from([0.01, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.1, 0.9]),
)
@settings(max_examples=80, deadline=None)
def test_filters_leave_what_the_reference_leaves(
    vocab: int, spread: float, temperature: float, k: int, p: float, min_p: float
) -> None:
    logits = some_logits(1, vocab, spread)
    options = {"temperature": temperature, "top_k": k, "top_p": p, "min_p": min_p}
    expected = allowed(logits[0], temperature, k, p, min_p)

    found = draw(
        np.repeat(logits, 12, 0), [row(seed=seed, **options) for seed in range(12)]
    ).tokens.tolist()

    assert set(found) <= expected
    if len(expected) == 1:
        assert found == [logits.argmax()] * 12


def test_a_filter_keeps_the_last_token_it_may() -> None:
    """Four tokens of probability 0.4, 0.3, 0.2, 0.1: the third is the last to reach 0.85."""
    logits = np.log(np.array([[0.1, 0.4, 0.2, 0.3]]))

    found = draw(
        np.repeat(logits, 300, 0), [row(temperature=1, top_p=0.85, seed=s) for s in range(300)]
    )

    assert set(found.tokens.tolist()) == {1, 2, 3}


def test_draws_follow_the_distribution() -> None:
    probabilities = np.array([0.5, 0.25, 0.15, 0.1])
    logits = np.log(probabilities)[None].repeat(4_000, 0)

    found = draw(logits, [row(temperature=1, seed=seed) for seed in range(4_000)]).tokens

    frequency = np.bincount(found.numpy(), minlength=4) / 4_000
    np.testing.assert_allclose(frequency, probabilities, atol=0.03)


def test_noise_is_gumbel_and_differs_by_seed_position_and_token() -> None:
    ids = torch.arange(50_000, dtype=torch.int32)
    seeds, positions = np.array([1, 1, 2], np.uint64), ints([5, 6, 5])

    found = noise.gumbel(torch.from_numpy(noise.keys(seeds, positions))[:, None], ids).squeeze()

    assert found.isfinite().all()
    assert found.mean(1) == pytest.approx([0.5772] * 3, abs=0.02)
    assert found.std(1) == pytest.approx([1.2825] * 3, abs=0.02)
    assert (torch.corrcoef(found) - torch.eye(3)).abs().max() < 0.02
    assert (found[0, 1:] * found[0, :-1]).mean() == pytest.approx(0.5772**2, abs=0.03)


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    logits = some_logits(3)
    mine = row(temperature=0.9, top_p=0.95, seed=7)
    others = [row(temperature=2.0, seed=1), row(top_k=3, temperature=1.0)]

    alone = draw(logits[:1], [mine]).tokens[0]
    together = draw(logits[[1, 0, 2]], [others[0], mine, others[1]]).tokens[1]

    assert alone == together
    again = [draw(logits[:1], [row(temperature=0.9, seed=seed)]).tokens[0] for seed in range(20)]
    assert len(set(map(int, again))) > 5


def test_greedy_takes_the_likeliest_whatever_else_is_asked() -> None:
    logits = some_logits(3)
    rows = [row(), row(top_p=0.1), row(temperature=5.0, top_k=1)]

    assert draw(logits, rows).tokens.tolist() == logits.argmax(1).tolist()


def test_logprobs_are_those_of_the_model() -> None:
    """Before temperature, filters, penalties and bias, and only where asked for."""
    logits = some_logits(3)
    expected = torch.from_numpy(logits).log_softmax(-1)
    rows = [row(logprobs=2, bias={3: 100.0}), row(), row(logprobs=0, temperature=3.0, top_k=5)]

    found = draw(logits.copy(), rows)

    assert found.tokens[0] == 3
    assert found.logprobs[0] == pytest.approx(float(expected[0, 3]), abs=1e-4)
    assert found.top_ids[0].tolist() == expected[0].topk(2).indices.tolist()
    torch.testing.assert_close(found.top_logprobs[0], expected[0].topk(2).values)
    assert found.logprobs[1].isnan()
    assert found.logprobs[2] == expected[2, found.tokens[2]]


def test_a_forbidden_token_is_never_drawn() -> None:
    logits = some_logits(2)
    best = logits.argmax(1)
    rows = [row(bias={int(best[0]): -np.inf}), row(temperature=0.01, bias={int(best[1]): -np.inf})]

    found = draw(logits.copy(), rows).tokens.numpy()

    assert (found != best).all()


def test_rows_that_are_not_finite_are_not_ok() -> None:
    logits = some_logits(4)
    logits[0, 5], logits[1, 5], logits[2, 5] = np.nan, np.inf, -np.inf

    found = draw(logits, [row(temperature=1), row(), row(top_p=0.5, temperature=1), row()])

    assert found.ok.tolist() == [False, False, False, True]
    assert ((found.tokens >= 0) & (found.tokens < VOCAB)).all()


def test_penalties_count_what_was_said() -> None:
    """Repetition counts prompt and output, frequency and presence the output alone."""
    sampler = Sampler(8, 6, "cpu")
    logits = np.array([[2.0, 1.9, 1.0, -1.0, 0.0, 0.0]])
    rows = [row(frequency=0.5, presence=0.2, repetition=2.0)]
    sampler.enter(entering_of({0: ([0, 1, 3, 1], 2)}), ints([0]))

    # Token 0: 2 / 2. Token 1: 1.9 / 2 - 0.5 - 0.2. Token 3: -1 * 2 - 0.7. So token 2, still at 1.
    lower = np.array([-0.01, 0, 0, 0, 0, 0])
    assert draw(logits + lower, rows, sampler).tokens[0] == 2
    # Then token 2: 1 / 2 - 0.7, and token 0 is the largest.
    assert draw(logits, rows, sampler).tokens[0] == 0
    # Entering again forgets all that.
    sampler.enter(entering_of({0: ([4], 1)}), ints([0]))
    assert draw(logits, rows, sampler).tokens[0] == 0
    assert draw(logits, rows, sampler).tokens[0] == 1


def test_penalties_of_one_row_leave_the_others() -> None:
    sampler = Sampler(8, VOCAB, "cpu")
    logits = some_logits(2)
    sampler.enter(entering_of({1: ([int(logits[1].argmax())], 0)}), ints([0, 1]))

    found = draw(logits.copy(), [row(), row(presence=2.0, frequency=2.0)], sampler).tokens

    assert found[0] == logits[0].argmax()
    assert found[1] != logits[1].argmax()


def constrained(ids: dict[int, set[int]], few: set[int], vocab: int) -> Allowed:
    """What rows may draw: those in `few` as lists, the others as masks."""
    wide = sorted(ids.keys() - few)
    bits = np.zeros((len(wide), -(-vocab // 32) * 32), np.uint8)
    for at, index in enumerate(wide):
        bits[at, list(ids[index])] = 1
    lists = [np.array(sorted(ids[index]), np.int32) for index in sorted(few)]
    return Allowed(
        row=ints(wide),
        bits=np.packbits(bits, axis=1, bitorder="little").view(np.int32),
        few_row=ints(sorted(few)),
        few_indptr=np.cumsum([0, *map(len, lists)]).astype(np.int32),
        few_ids=np.concatenate([np.empty(0, np.int32), *lists]),
    )


@given(
    data=st.data(),
    vocab=st.sampled_from([40, 257, VOCAB]),
    temperature=st.sampled_from([0.0, 0.7, 2.0]),
    k=st.sampled_from([3, 1 << 30]),
    p=st.sampled_from([0.5, 1.0]),
    min_p=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=80, deadline=None)
def test_a_constrained_row_draws_from_what_is_left_and_its_neighbours_are_free(
    data: st.DataObject, vocab: int, temperature: float, k: int, p: float, min_p: float
) -> None:
    """As a mask or as a list of ids, the draw is that of the masked logits alone."""
    ids = data.draw(st.sets(st.integers(0, vocab - 1), min_size=1, max_size=30))
    logits = some_logits(3, vocab)
    options = {"temperature": temperature, "top_k": k, "top_p": p, "min_p": min_p}
    rows = [row(seed=seed, **options) for seed in (1, 2, 3)]

    def tokens(few: set[int]) -> list[int]:
        sampling = replace(sampling_of(rows), allowed=constrained({0: ids, 2: ids}, few, vocab))
        sampler = Sampler(8, vocab, "cpu")
        drawn = sampler.draw(torch.from_numpy(logits.copy()), sampling, ints(range(3)))
        return drawn.tokens.tolist()

    masked = logits.copy()
    out = [id for id in range(vocab) if id not in ids]
    masked[0, out] = masked[2, out] = -np.inf
    want = draw(masked, rows).tokens.tolist()

    assert tokens(set()) == want
    assert tokens({0, 2}) == want
    assert tokens({2}) == want
    assert {want[0], want[2]} <= ids


def test_logprobs_of_a_constrained_draw_are_the_models_own() -> None:
    logits = some_logits(1, 50)
    sampling = sampling_of([row(temperature=0, logprobs=2)])
    sampling = replace(sampling, allowed=constrained({0: {3}}, {0}, 50))
    drawn = Sampler(8, 50, "cpu").draw(torch.from_numpy(logits.copy()), sampling, ints([0]))
    model = torch.from_numpy(logits).log_softmax(-1)[0]
    assert drawn.tokens.tolist() == [3]
    assert drawn.logprobs[0].item() == pytest.approx(model[3].item(), abs=1e-6)
    assert drawn.top_ids[0].tolist() == model.topk(2).indices.tolist()
