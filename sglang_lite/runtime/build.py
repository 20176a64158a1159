"""From options to a core that is ready to step: the one place where all its parts meet."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from sglang_lite.config import EngineConfig, GrammarLimits, Resolved, resolve
from sglang_lite.runtime.core import EngineCore, Runner
from sglang_lite.runtime.grammar.compiler import Grammars
from sglang_lite.runtime.grammar.options import GrammarOptions
from sglang_lite.runtime.grammar.table import Spelling, TokenTable
from sglang_lite.runtime.scheduling.cache import PrefixCache
from sglang_lite.runtime.scheduling.intake import Limits
from sglang_lite.runtime.scheduling.layout import SHARE_FROM
from sglang_lite.runtime.scheduling.retention import RetentionLimits
from sglang_lite.runtime.scheduling.scheduler import Scheduler
from sglang_lite.wire import ModelInfo


def build_core(config: EngineConfig) -> tuple[EngineCore, ModelInfo]:
    """Open the model, decide what `config` left open, and put the runtime together.

    Raises:
        InvalidConfig: the device, the memory or an option does not allow it.
        ModelFileError: the model's files are missing or broken.
    """
    from sglang_lite.runtime.model.hub import open_model
    from sglang_lite.runtime.tokenizer import Tokenizer

    source = open_model(config.model)
    with ThreadPoolExecutor(1) as aside:  # the tokenizer is read while torch is imported
        reading = aside.submit(Tokenizer.load, source.folder)

        from sglang_lite.runtime.execution.device import probe
        from sglang_lite.runtime.execution.runner import ModelRunner
        from sglang_lite.runtime.model.config import read_facts

        resolved = resolve(config, read_facts(source.folder), probe(config.device))
        runner = ModelRunner(resolved, source.folder)
        tokenizer = reading.result()
    info = ModelInfo(
        name=config.served_model_name or source.name,
        folder=str(source.folder),
        vocab_size=runner.vocab_size,
        context_length=resolved.context_length,
        eos_token_ids=tokenizer.eos_token_ids,
        page_size=resolved.page_size,
        max_total_tokens=resolved.max_total_tokens,
    )
    return assemble_core(resolved, runner, info, tokenizer), info


def assemble_core(
    resolved: Resolved, runner: Runner, info: ModelInfo, tokenizer: Spelling
) -> EngineCore:
    """The core around any runner, real or fake."""
    config = resolved.config
    scheduler = Scheduler(
        PrefixCache(
            resolved.num_pages,
            resolved.page_size,
            enabled=not config.disable_radix_cache,
            whole_only=config.prefix_cache == "table",
            retention=RetentionLimits(
                share=config.retention_share,
                seconds=config.retention_seconds,
                clock=time.monotonic,
            ),
        ),
        Limits(
            vocab_size=info.vocab_size,
            context_length=resolved.context_length,
            max_queued_requests=config.max_queued_requests,
            eos_token_ids=frozenset(info.eos_token_ids),
        ),
        list(tokenizer.token_bytes),
        policy=config.schedule_policy,
        chunk=resolved.chunk,
        max_running=resolved.max_running_requests,
        share_from=None if config.deterministic else SHARE_FROM,
        grammars=Grammars(TokenTable.of(tokenizer), _grammar_options(config)),
        jump_forward=config.jump_forward,
    )
    return EngineCore(scheduler, runner)


def _grammar_options(config: EngineConfig) -> GrammarOptions:
    return GrammarOptions(
        engine=config.grammar_engine,
        whitespace=config.grammar_whitespace,
        cache_bytes=config.grammar_cache_mb << 20,
        queue=config.grammar_queue,
        seconds=config.grammar_compile_seconds,
        megabytes=config.grammar_compile_mb,
        limits=GrammarLimits.of(config.grammar_limits),
    )
