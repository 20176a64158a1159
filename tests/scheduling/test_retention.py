"""What a program waits for is evicted last, for as long as it waits, and never claims a page."""

from __future__ import annotations

import numpy as np
import pytest

from sglang_lite.params import Hint
from sglang_lite.runtime.scheduling.cache import PrefixCache
from sglang_lite.runtime.scheduling.retention import RetentionLimits


class Desk:
    """A cache of 12 pages of one token, its clock, and requests that come and go at once."""

    def __init__(self, share: float = 1.0, seconds: float = 10.0, *, whole: bool = False) -> None:
        self.now = 0.0
        limits = RetentionLimits(share=share, seconds=seconds, clock=lambda: self.now)
        self.cache = PrefixCache(12, 1, retention=limits, whole_only=whole)

    def serve(
        self,
        text: str,
        client: bytes = b"c",
        *,
        program: int = 1,
        group: int = 0,
        more: bool = False,
        steps: int = 0,
        retain_ms: int = 0,
    ) -> None:
        tokens = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        lease = self.cache.acquire(tokens)
        assert self.cache.extend(lease, len(tokens) - lease.count), "retention blocks nothing"
        self.cache.publish(lease, tokens, 1, leaving=True)
        hint = Hint(
            program=program, group=group, more=more, steps_to_next=steps, retain_ms=retain_ms
        )
        self.cache.retention.note(client, hint, lease.node)
        self.cache.release(lease)
        self.cache.check()

    def cached(self, text: str) -> int:
        return self.cache.peek(np.frombuffer(text.encode(), np.uint8).astype(np.int32), "")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.cache.retention.lapse()
        self.cache.check()

    @property
    def retained(self) -> int:
        return self.cache.stats()["pages_retained"]


def test_what_nobody_waits_for_goes_first_though_it_is_newer() -> None:
    desk = Desk()
    desk.serve("wait", more=True)
    desk.serve("done", program=2)
    desk.serve("traffic", program=3)
    assert (desk.cached("wait"), desk.cached("done")) == (4, 1)
    assert desk.retained == 4


def test_what_a_program_is_done_with_goes_before_what_nothing_is_known_of() -> None:
    desk = Desk()
    desk.serve("old", program=0)
    desk.serve("done", program=1)
    desk.serve("more", program=2, more=True)
    desk.serve("1234", program=0)
    assert [desk.cached(text) for text in ("old", "done", "more")] == [3, 1, 4]
    desk.serve("d", program=0)  # somebody came for it: it is not done with
    desk.serve("5", program=0)
    assert [desk.cached(text) for text in ("old", "done", "more")] == [2, 1, 4]


def test_what_is_left_of_an_ended_program_goes_first() -> None:
    desk = Desk()
    desk.serve("old", program=0)
    desk.serve("here", program=1, more=True)
    desk.cache.retention.end(b"c", 1)
    desk.serve("1234567", program=0)
    assert [desk.cached(text) for text in ("old", "here")] == [3, 2]


def test_a_shared_beginning_is_not_done_with_as_long_as_others_hang_below_it() -> None:
    desk = Desk()
    desk.serve("head1", program=1)
    desk.serve("head2", program=2)
    desk.serve("34", program=0)
    desk.serve("567890", program=0)
    assert [desk.cached(text) for text in ("head1", "head2", "34")] == [4, 4, 2]


def test_retained_texts_give_way_too_the_one_continued_last_before_the_others() -> None:
    desk = Desk()
    desk.serve("abc", program=1, more=True, steps=1)
    desk.serve("def", program=2, more=True, steps=5)
    desk.serve("ghi", program=3, more=True)
    desk.serve("jkl", program=4, more=True)
    desk.serve("1234", program=5)
    assert [desk.cached(text) for text in ("abc", "def", "ghi", "jkl")] == [2, 0, 3, 3]
    desk.serve("56789", program=5)
    assert [desk.cached(text) for text in ("abc", "ghi", "jkl")] == [1, 3, 3]
    desk.serve("12345678", program=5)
    assert [desk.cached(text) for text in ("abc", "ghi", "jkl")] == [0, 1, 3], "then the oldest"
    assert desk.retained == 4


def test_a_share_of_the_pool_is_the_most_and_the_oldest_lapses() -> None:
    desk = Desk(share=0.5)
    desk.serve("abcd", program=1, more=True)
    desk.serve("efgh", program=2, more=True)
    assert desk.retained == 4
    desk.serve("12345", program=3)
    assert (desk.cached("abcd"), desk.cached("efgh")) == (3, 4)
    desk.serve("1234567", program=4, more=True)
    assert desk.retained == 0, "it is larger than the share by itself"


def test_no_share_is_no_retention() -> None:
    desk = Desk(share=0.0)
    desk.serve("abcd", more=True)
    assert desk.retained == 0


def test_a_text_that_programs_share_counts_once() -> None:
    desk = Desk()
    desk.serve("headone", program=1, more=True)
    desk.serve("headtwo", program=2, more=True)
    assert desk.retained == 10
    desk.cache.retention.end(b"c", 1)
    assert desk.retained == 7


def test_it_lapses_after_the_time_of_the_hint_or_of_the_runtime() -> None:
    desk = Desk(seconds=10.0)
    desk.serve("ab", program=1, more=True, retain_ms=3_000)
    desk.serve("cde", program=2, more=True)
    desk.serve("fghi", program=3, more=True, retain_ms=60_000)
    assert desk.retained == 9
    desk.pass_time(3.0)
    assert desk.retained == 7
    desk.pass_time(6.9)
    assert desk.retained == 7
    desk.pass_time(0.1)
    assert desk.retained == 0


def test_the_continuation_answers_the_wish() -> None:
    desk = Desk()
    desk.serve("turn", more=True)
    desk.serve("turns", more=True)
    assert desk.retained == 5
    assert [len(node.marks) for node in desk.cache.tree if node.marks] == [1]
    desk.serve("turnses")
    assert desk.retained == 0


def test_neither_another_program_nor_a_branch_answers_it() -> None:
    desk = Desk()
    desk.serve("fork", program=1, more=True)
    desk.serve("fork2", program=2)
    desk.serve("forks", b"other", program=1)
    desk.serve("fork1", program=1, group=1)
    assert desk.retained == 4, "siblings of the branch, and the join, read it too"
    desk.serve("forkjoin", program=1)
    assert desk.retained == 0


def test_it_ends_with_the_program_and_with_the_client() -> None:
    desk = Desk()
    desk.serve("ab", program=1, more=True)
    desk.serve("cd", program=1, group=3, more=True)
    desk.serve("ef", program=2, more=True)
    desk.serve("gh", b"other", program=1, more=True)
    desk.cache.retention.end(b"c", 1)
    assert desk.retained == 4
    desk.cache.retention.end(b"c", 7)
    desk.cache.retention.end(b"c")
    assert desk.retained == 2
    desk.cache.retention.end(b"other")
    assert desk.retained == 0
    desk.cache.check()


def test_what_is_left_of_a_text_is_still_waited_for() -> None:
    desk = Desk()
    desk.serve("turn", more=True)
    desk.serve("turnturn", more=True)  # the mark is at a second node
    desk.serve("123456789", program=2)
    assert (desk.cached("turn"), desk.retained) == (3, 3)
    desk.serve("321", program=2)
    assert (desk.cached("turn"), desk.cached("123456789")) == (3, 6), "and not evicted before this"
    desk.serve("x" * 12, program=2)
    assert desk.retained == 0


def test_branches_that_shrink_to_one_text_leave_one_mark() -> None:
    desk = Desk()
    for end in "abc":
        desk.serve("fork" + end, group=1, more=True)
    assert desk.retained == 7
    desk.serve("123456789", program=2)
    assert (desk.cached("fork"), desk.retained) == (3, 3)


def test_a_table_finds_whole_texts_only() -> None:
    desk = Desk(whole=True)
    desk.serve("few shots")
    assert desk.cached("few shots and more") == 9
    assert desk.cached("few shot") == desk.cached("few shock") == 0
    desk.serve("few")
    assert desk.cached("few shock") == 3, "the end of another text"
    desk.serve("fewer")
    assert desk.cached("few more") == 3, "though a longer text has the same node below it"
    desk.cache.flush()
    desk.serve("few")
    desk.serve("few shots")
    assert desk.cached("few more") == 3
    desk.serve("123", program=2)
    desk.serve("few", program=2)
    desk.serve("1234", program=2)
    assert desk.cached("few shots") == 3, "a text that has lost its end is none"


@pytest.mark.parametrize("size", [1, 2])
def test_marks_cost_the_heap_no_more_than_pins_do(size: int) -> None:
    desk = Desk()
    for turn in range(2_000):
        desk.serve("abcdef"[: size + turn % 2], more=True)
    assert len(desk.cache.tree._leaves) < 500
