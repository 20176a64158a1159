from __future__ import annotations

import pytest

from sglang_lite.runtime.execution import threads
from sglang_lite.runtime.execution.threads import LOOK_EVERY, Threads, Usage, usage


class Machine:
    """A machine of `cores`, on which others use `others` cores and we use `own`."""

    def __init__(self, others: float = 0.0, own: float = 2.0) -> None:
        self.others, self.own = others, own
        self.seen = Usage(0.0, 0.0, 0.0)

    def read(self) -> Usage:
        clock = self.seen.clock + LOOK_EVERY
        busy = self.seen.busy + LOOK_EVERY * (self.others + self.own)
        self.seen = Usage(clock, busy, self.seen.own + LOOK_EVERY * self.own)
        return self.seen


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_usable", lambda: frozenset(range(4)))


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize(
    ("others", "wanted"),
    [(0.0, 4), (0.25, 4), (0.5, 3), (1.2, 3), (1.5, 2), (2.9, 1), (40.0, 1)],
)
def test_what_others_need_is_left_to_them(others: float, wanted: int) -> None:
    machine, applied = Machine(others), list[int]()
    some = Threads(4, applied.append, machine.read)
    some.adapt(machine.seen.clock + LOOK_EVERY)
    assert some.now == wanted
    assert applied == ([4] if wanted == 4 else [4, wanted])


@pytest.mark.usefixtures("cores")
def test_it_takes_them_back_and_looks_only_now_and_then() -> None:
    machine, applied = Machine(2.0), list[int]()
    some = Threads(2, applied.append, machine.read)
    some.adapt(machine.seen.clock + LOOK_EVERY / 2)
    assert applied == [2]
    machine.others = 3.0
    some.adapt(machine.seen.clock + LOOK_EVERY)
    machine.others = 0.0
    some.adapt(machine.seen.clock + LOOK_EVERY)
    assert applied == [2, 1, 2]


def test_the_system_counts_what_we_use() -> None:
    before = usage()
    while usage().own < before.own + 0.05:
        pass
    after = usage()
    assert after.clock > before.clock
    assert after.busy > before.busy
