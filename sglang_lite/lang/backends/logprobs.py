"""The texts of the tokens in SGLang's triples (logprob, id, text)."""

from __future__ import annotations

from typing import Any

ROWS = ("input_token_logprobs", "output_token_logprobs")
TOPS = ("input_top_logprobs", "output_top_logprobs")


def with_texts(meta: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """`meta` with the text of each token that it names."""

    def named(triples: list[Any]) -> list[Any]:
        return [
            [logprob, id, tokenizer.decode([id], skip_special_tokens=False)]
            for logprob, id, _ in triples
        ]

    rows = {name: named(meta[name]) for name in ROWS if name in meta}
    tops = {name: [named(each or []) for each in meta[name]] for name in TOPS if name in meta}
    return {**meta, **rows, **tops}
