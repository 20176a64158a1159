"""float32 greedy text equals `transformers` on the same checkpoint, however it is scheduled.

A difference is allowed only where the reference itself is undecided: its two likeliest tokens lie
closer than 1e-3. The gap of every difference is printed.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.drive import core_of, drive
from benchmarks.workloads import Ask, Phases
from sglang_lite.runtime.model.hub import open_model
from sglang_lite.runtime.tokenizer import Tokenizer

TOKENS = 64
UNDECIDED = 1e-3
PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a small village by the sea,",
    "Q: What is 17 + 25?\nA:",
    "The three laws of thermodynamics are",
    '{"name": "Ada", "age": ',
    "Dear Sir or Madam,\n\nI am writing to",
    "1, 1, 2, 3, 5, 8, 13,",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "La r\u00e9volution fran\u00e7aise commence en",
    "SELECT name, COUNT(*) FROM users",
    "Water boils at a lower temperature on a mountain because " * 12,
)
VARIANTS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "cache off": {"disable_radix_cache": True},
    "batch 1": {"max_running_requests": 1},
    "chunk 32": {"chunked_prefill_size": 32},
    "chunk 2048": {"chunked_prefill_size": 2048},
    "page size 16": {"page_size": 16},
    "forced retraction": {"max_total_tokens": 512, "context_length": 400},
}


def measure() -> bool:
    folder = open_model("smollm2").folder
    tokenizer = Tokenizer.load(folder)
    prompts = [tokenizer.encode(prompt) for prompt in PROMPTS]
    model = _reference(folder)
    expected = [_greedy(model, prompt) for prompt in prompts]
    met = True
    phases: Phases = [[Ask(prompt, TOKENS) for prompt in prompts * 2][:16]]
    for name, options in VARIANTS.items():
        core = core_of(dtype="float32", **options)
        texts = drive(core, phases).texts
        differences = 0
        for index, text in enumerate(texts):
            gap = _gap_at_difference(model, prompts[index % 12], expected[index % 12], text)
            if gap is not None:
                differences += 1
                met = met and gap < UNDECIDED
                print(
                    f"  prompt {index % 12} differs; the reference's top-2 gap there is {gap:.2e}"
                )
        note = ""
        if name == "forced retraction":
            retractions = core.stats()["retractions"]
            met = met and retractions != 0
            note = f", {retractions} retractions"
        print(f"{name}: {len(texts) - differences} of {len(texts)} texts equal{note}")
    print(f"limit: every difference where the reference's gap is below {UNDECIDED}")
    return met


def _reference(folder: Any) -> Any:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


@torch.inference_mode()
def _greedy(model: Any, prompt: list[int]) -> list[int]:
    out = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=TOKENS,
        min_new_tokens=TOKENS,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return out[0, len(prompt) :].tolist()


@torch.inference_mode()
def _gap_at_difference(
    model: Any, prompt: list[int], expected: list[int], text: list[int]
) -> float | None:
    """The reference's top-2 gap at the first token that differs; None: none does."""
    for at, (want, got) in enumerate(zip(expected, text, strict=True)):
        if want != got:
            logits = model(torch.tensor([prompt + expected[:at]])).logits[0, -1]
            first, second = logits.topk(2).values.tolist()
            return first - second
    return None
