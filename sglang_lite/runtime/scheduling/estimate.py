"""How many pages requests are going to need: a guess that learns from being wrong.

Most requests end before their `max_tokens`, so only a share of what they may still draw is set
aside. The share falls while all goes well and jumps when a row had to be retracted.
"""

from __future__ import annotations

from collections.abc import Iterable

from sglang_lite.runtime.scheduling.request import Request

FIRST, LEAST = 0.5, 0.1
EASE, JUMP = 0.998, 0.3


class Estimate:
    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.share = FIRST

    def relax(self) -> None:
        self.share = max(LEAST, self.share * EASE)

    def tighten(self) -> None:
        self.share = min(1.0, self.share + JUMP)

    def pages(self, request: Request, held: int, *, full: bool = False) -> int:
        """Pages `request` is going to need beside the `held` ones; `full`: at the very most."""
        left = request.left if full else int(request.left * self.share)
        return max(0, -(-(request.known + left) // self.page_size) - held)

    def reserved(self, running: Iterable[Request]) -> int:
        return sum(self.pages(each, each.lease.count) for each in running if each.lease)
