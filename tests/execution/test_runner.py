"""The runner against transformers, however the tokens are cut, paged, shared and batched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from batches import Row, Run, make_batch
from checkpoints import logprobs, runner, save
from stories import Story

TOKENS = [int(token) for token in np.random.default_rng(7).integers(0, 97, 70)]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    folder = tmp_path_factory.mktemp("llama")
    return folder, logprobs(save(folder), TOKENS).numpy()


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("chunks", [[70], [1] * 70, [16, 16, 38], [33, 1, 1, 35]])
def test_chunks_and_pages_change_nothing(
    llama: tuple[Path, np.ndarray], page_size: int, chunks: list[int]
) -> None:
    folder, expected = llama
    story = Story(runner(folder, page_size=page_size), page_size=page_size)

    found = story.logprobs(TOKENS, chunks, 97)

    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert story.runner.computed_tokens == 70


@pytest.mark.parametrize("backend", ["segments", "reference", "fixed"])
def test_greedy_tokens_stay_on_the_device(llama: tuple[Path, np.ndarray], backend: str) -> None:
    """A token id of -1 is the one drawn last in that slot."""
    folder, expected = llama
    story = Story(runner(folder, attention_backend=backend), slot=3)
    first = story.step(TOKENS, logprobs=2)
    assert first.tokens.tolist() == [expected[-1].argmax()]
    np.testing.assert_allclose(first.logprobs, [expected[-1].max()], atol=1e-3)
    assert first.top_ids[0].tolist() == np.argsort(-expected[-1])[:2].tolist()

    drawn = [int(first.tokens[0]), *(int(story.step([-1]).tokens[0]) for _ in range(5))]

    again = Story(runner(folder))
    again.step(TOKENS, draws=False)
    assert drawn[1:] == [int(again.step([token]).tokens[0]) for token in drawn[:-1]]


def test_rows_share_a_run_that_one_of_them_writes(llama: tuple[Path, np.ndarray]) -> None:
    """Two rows with a common prefix of 40, computed by the first in the same batch."""
    folder, expected = llama
    other = [*TOKENS[:40], *TOKENS[:9]]
    rows = [
        Row(0, 0, TOKENS, draws=False, scored=dict.fromkeys(range(69), 5)),
        Row(1, 40, other[40:], logprobs=0),
    ]
    runs = [
        Run(0, 40, list(range(1, 41)), [0, 1]),
        Run(40, 30, list(range(50, 80)), [0]),
        Run(40, 9, list(range(80, 89)), [1]),
    ]
    model = runner(folder)
    batch = make_batch(rows, runs, 1)
    model.forward(batch)

    found = model.sample(batch).wait()

    np.testing.assert_allclose(found.scores, expected[:69, 5], atol=1e-3)
    alone = Story(runner(folder)).step(other, logprobs=0)
    assert found.tokens.tolist() == alone.tokens.tolist()
    np.testing.assert_allclose(found.logprobs, alone.logprobs, atol=1e-4)


def test_part_of_a_page_is_copied(llama: tuple[Path, np.ndarray]) -> None:
    """Row 1 starts with the first 5 tokens of row 0's page, copied before it attends."""
    folder, _ = llama
    model = runner(folder, page_size=16)
    rows = [Row(0, 0, TOKENS[:9]), Row(1, 5, TOKENS[20:24])]
    runs = [Run(0, 9, [3], [0]), Run(0, 9, [7], [1])]
    copies = [(3 * 16 + offset, 7 * 16 + offset) for offset in range(5)]
    batch = make_batch(rows, runs, 16, copies=copies)
    model.forward(batch)

    found = model.sample(batch).wait()

    alone = Story(runner(folder)).step(TOKENS[:5] + TOKENS[20:24])
    assert found.tokens[1] == alone.tokens[0]


def test_a_row_of_nan_fails_alone(llama: tuple[Path, np.ndarray]) -> None:
    folder, _ = llama
    model = runner(folder)
    with torch.inference_mode():
        model.cache[:, 50] = float("nan")
    rows = [Row(0, 3, TOKENS[:1]), Row(1, 2, TOKENS[:1])]
    runs = [Run(0, 4, [49, 50, 51, 52], [0]), Run(0, 3, [1, 2, 3], [1])]
    batch = make_batch(rows, runs, 1)
    model.forward(batch)

    found = model.sample(batch).wait()

    assert found.ok.tolist() == [False, True]


def test_a_batch_that_draws_nothing(llama: tuple[Path, np.ndarray]) -> None:
    found = Story(runner(llama[0])).step(TOKENS, draws=False)

    assert len(found.tokens) == len(found.scores) == 0


def test_logprobs_of_the_deterministic_mode_are_bitwise_equal(
    llama: tuple[Path, np.ndarray],
) -> None:
    folder, expected = llama
    model = runner(folder, deterministic=True)
    alone = Story(model).logprobs(TOKENS, [70], 97)
    np.testing.assert_allclose(alone, expected, atol=1e-3)

    for slot, chunks in enumerate([[1] * 70, [16, 16, 38], [65, 5]], start=1):
        found = Story(model, slot).logprobs(TOKENS, chunks, 97)
        np.testing.assert_array_equal(found, alone)

    rows = [Row(0, 0, TOKENS[20:40]), Row(1, 0, TOKENS, draws=False), Row(2, 0, TOKENS[3:6])]
    rows[1].scored = dict.fromkeys(range(70), 5)
    runs = [
        Run(0, 20, list(range(1, 21)), [0]),
        Run(0, 70, list(range(30, 100)), [1]),
        Run(0, 3, [105, 104, 103], [2]),
    ]
    batch = make_batch(rows, runs, 1)
    model.forward(batch)
    np.testing.assert_array_equal(model.sample(batch).wait().scores, alone[:, 5])


def test_bfloat16_is_close(llama: tuple[Path, np.ndarray]) -> None:
    folder, expected = llama
    story = Story(runner(folder, dtype="bfloat16"))

    found = story.logprobs(TOKENS, [30, 1, 39], 97)

    assert np.abs(found - expected).mean() < 0.1


@pytest.mark.model
def test_smollm2_says_what_transformers_says(smollm2_folder: Path) -> None:
    """64 greedy tokens, each the likeliest by transformers after those before it."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm2_folder)
    ours = runner(smollm2_folder)
    for slot, text in enumerate(["The capital of France is", "def fibonacci(n):\n    "]):
        prompt = tokenizer(text).input_ids
        story = Story(ours, slot)
        found = [int(story.step(prompt).tokens[0])]
        while len(found) < 64:
            found.append(int(story.step([-1]).tokens[0]))

        theirs = logprobs(model, prompt + found[:-1])[len(prompt) - 1 :]

        for at, (token, likeliest) in enumerate(zip(found, theirs.argmax(-1), strict=True)):
            gap = float(theirs[at, likeliest] - theirs[at, token])
            assert gap < 1e-3, f"{text!r} parts at {at}, where the gap is {gap:.6f}"


@pytest.mark.model
def test_smollm2_is_bitwise_repeatable(smollm2_folder: Path) -> None:
    """Real sizes meet other matrix kernels than tiny ones."""
    model = runner(smollm2_folder, deterministic=True)
    tokens = np.random.default_rng(0).integers(10, 49_000, 80).tolist()
    scored = []
    for slot, chunks in enumerate([[80], [1] * 20 + [60], [64, 16], [7, 33, 40]]):
        scored.append(Story(model, slot).scores(tokens, chunks))
    for found in scored[1:]:
        np.testing.assert_array_equal(found, scored[0])
