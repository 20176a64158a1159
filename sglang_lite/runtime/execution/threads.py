"""How many threads compute, while other programs use the same cores.

A forward pass is hundreds of short parallel regions, and each ends when its slowest thread does.
A thread that shares its core with another program is asleep for milliseconds at a time, and all
others spin until it comes back: one busy program can make a step forty times as long. So the
cores that others keep busy are left to them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import psutil

LOOK_EVERY = 0.25  # seconds
SPARE = 0.3  # of a core, that others may use before one is left to them


class Usage(NamedTuple):
    """Seconds since some moment."""

    clock: float
    busy: float  # of all cores this process may use, by any program
    own: float  # of these, by this process


def usage() -> Usage:
    """What the system has counted up to now."""
    every, own = psutil.cpu_times(percpu=True), psutil.Process().cpu_times()
    # What runs at a low priority (`nice`) counts as well: it gives way to one of our threads, but
    # not to two that the system has put on one core because they never sleep.
    busy = sum(
        each.user + each.system + getattr(each, "nice", 0.0)
        for at, each in enumerate(every)
        if at in _usable()
    )
    return Usage(time.monotonic(), busy, own.user + own.system)


class Threads:
    """Decides, a few times a second, how many threads the next step is to use.

    Args:
        most: threads to use while nobody else needs a core.
        apply: sets the number of threads.
        read: what the cores have been used for.
    """

    def __init__(
        self, most: int, apply: Callable[[int], None], read: Callable[[], Usage] = usage
    ) -> None:
        self.most, self.now = most, most
        self._apply, self._read = apply, read
        self._cores = len(_usable())
        self._last = read()
        apply(most)

    def adapt(self, now: float) -> None:
        """Look around, if it is time to: `now` is the monotonic clock's."""
        if now - self._last.clock < LOOK_EVERY:
            return
        before, self._last = self._last, self._read()
        elapsed = self._last.clock - before.clock
        others = ((self._last.busy - before.busy) - (self._last.own - before.own)) / elapsed
        wanted = min(self.most, max(1, self._cores - math.ceil(max(0.0, others - SPARE))))
        if wanted != self.now:
            self.now = wanted
            self._apply(wanted)


@cache
def _usable() -> frozenset[int]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
