"""2,000 random requests, with aborts and killed clients: free pages + tree pages = all pages.

Pages are counted by walking the free list and the tree, not by asking any counter.
"""

from __future__ import annotations

import random

from sglang_lite.config import EngineConfig
from sglang_lite.params import SamplingParams
from sglang_lite.testing import fake_core
from sglang_lite.wire import Submit, pack

REQUESTS = 2_000


def measure() -> bool:
    met = True
    for page_size in (1, 16):
        config = EngineConfig(model="fake", page_size=page_size, max_total_tokens=2048)
        core, _ = fake_core(config)
        draw = random.Random(7)
        open_ids: dict[bytes, list[int]] = {bytes([i]): [] for i in range(8)}
        for id in range(REQUESTS):
            client = draw.choice(list(open_ids))
            shared = [draw.randrange(4)] * draw.randrange(1, 300)
            prompt = shared + [draw.randrange(256) for _ in range(draw.randrange(1, 60))]
            limit = draw.randrange(0, 400)
            params = SamplingParams(max_tokens=limit, ignore_eos=True, seed=id)
            core.submit(client, Submit(id, pack(prompt), params))
            open_ids[client].append(id)
            for _ in range(draw.randrange(4)):
                core.step()
            if draw.random() < 0.2 and open_ids[client]:
                core.abort(client, draw.choice(open_ids[client]))
            if draw.random() < 0.02:
                core.drop(client)
                open_ids[client].clear()
        while not core.idle:
            core.step()
        cache = core.scheduler.cache
        free = len(set(cache.free))
        tree = sum(len(node.pages) for node in cache.tree)
        retractions = core.stats()["retractions"]
        print(
            f"page size {page_size}: free {free} + tree {tree} = {free + tree}, all "
            f"{cache.num_pages} (limit: equal), {retractions} retractions on the way"
        )
        met = met and free + tree == cache.num_pages and retractions != 0
        core.check()
    return met
