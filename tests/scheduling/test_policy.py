"""Who goes first, and that nobody waits for ever."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.scheduling.intake import Limits, accept
from sglang_lite.runtime.scheduling.policy import POLICIES, dfs
from sglang_lite.runtime.scheduling.queues import PATIENCE, Queues
from sglang_lite.runtime.scheduling.request import Request
from sglang_lite.wire import Submit, pack

LIMITS = Limits(
    vocab_size=10, context_length=10_000, max_queued_requests=10, eos_token_ids=frozenset()
)


class Arrivals:
    def __init__(self) -> None:
        self.count = 0

    def request(
        self,
        size: int = 50,
        client: bytes = b"c",
        *,
        text: str = "",
        namespace: str = "",
        **hint: int,
    ) -> Request:
        self.count += 1
        tokens = [int(digit) for digit in text] or np.ones(size, np.int32)
        message = Submit(
            self.count, pack(tokens), SamplingParams(), namespace=namespace, hint=Hint(**hint)
        )
        return accept((client, self.count), message, LIMITS, self.count)


def admit(queues: Queues, cached: dict[Request, int], most: int) -> list[Request]:
    """Take the first `most` requests that the queues offer."""
    taken: list[Request] = []
    for request in queues.turns(lambda r: cached.get(r, 0)):
        if len(taken) == most:
            break
        queues.remove(request)
        taken.append(request)
    return taken


def test_lpm_prefers_what_is_cached_and_fcfs_does_not() -> None:
    for policy, expected in (("lpm", [1, 2, 0]), ("fcfs", [0, 1, 2])):
        new, queues = Arrivals(), Queues(policy)
        requests = [new.request(50) for _ in range(3)]
        for request in requests:
            queues.add(request)
        cached = {requests[1]: 40, requests[2]: 30}
        assert admit(queues, cached, 3) == [requests[i] for i in expected]


def test_a_request_that_was_passed_over_often_goes_first() -> None:
    new, queues = Arrivals(), Queues("lpm")
    unlucky = new.request(50)
    queues.add(unlucky)
    cached: dict[Request, int] = {}
    for turn in range(PATIENCE + 2):
        lucky = new.request(50)
        cached[lucky] = 40
        queues.add(lucky)
        taken = admit(queues, cached, 1)
        if taken == [unlucky]:
            assert turn == PATIENCE
            return
    raise AssertionError("it starves")


def test_clients_share_by_tokens_not_by_requests() -> None:
    new, queues = Arrivals(), Queues("fcfs")
    for _ in range(40):
        queues.add(new.request(2_000, b"long"))
    for _ in range(400):
        queues.add(new.request(100, b"short"))
    tokens: dict[bytes, int] = {b"long": 0, b"short": 0}
    for _ in range(150):
        for request in admit(queues, {}, 1):
            tokens[request.key[0]] += request.known
    assert 0.7 < tokens[b"long"] / tokens[b"short"] < 1.4


def test_a_client_that_is_alone_gets_everything() -> None:
    new, queues = Arrivals(), Queues("lpm")
    for _ in range(200):
        queues.add(new.request(700))
    assert len(admit(queues, {}, 1000)) == 128, "a policy looks at the oldest of a queue"
    assert len(admit(queues, {}, 1000)) == 72
    assert len(queues) == 0


def test_a_request_can_leave_while_it_waits() -> None:
    queues, new = Queues("lpm"), Arrivals()
    first, second = new.request(5), new.request(5)
    queues.add(first)
    queues.add(second)
    queues.remove(first)
    assert list(queues) == [second]
    queues.remove(second)
    assert admit(queues, {}, 1) == []


def test_dfs_finishes_a_subtree_before_it_begins_another() -> None:
    new = Arrivals()
    texts = ["11", "225", "1133", "2261", "2262", "2263", "227", "2261"]
    waiting = [new.request(text=text) for text in texts]
    order = [texts[waiting.index(request)] for request in dfs(waiting, lambda request: 0)]
    assert order == ["2261", "2261", "2262", "2263", "225", "227", "11", "1133"]


def test_dfs_goes_on_where_something_is_cached() -> None:
    new = Arrivals()
    texts = ["31", "32", "33", "11", "12"]
    waiting = [new.request(text=text) for text in texts]
    cached = {"11": 1, "12": 1}
    order = dfs(waiting, lambda request: cached.get(texts[waiting.index(request)], 0))
    assert [texts[waiting.index(request)] for request in order] == ["11", "12", "31", "32", "33"]


def test_dfs_knows_that_namespaces_share_nothing() -> None:
    new = Arrivals()
    one = new.request(text="1111", namespace="a")
    others = [new.request(text="1111", namespace="b"), new.request(text="1112", namespace="b")]
    assert dfs([one, *others], lambda request: 0) == [*others, one]


def test_priority_is_heeded_and_starves_nobody() -> None:
    new, queues = Arrivals(), Queues("priority")
    low = new.request(priority=-1)
    some = [new.request(), new.request(priority=5), new.request()]
    for request in (low, *some):
        queues.add(request)
    assert admit(queues, {}, 3) == [some[1], some[0], some[2]]
    for turn in range(PATIENCE):
        queues.add(new.request(priority=9))
        if admit(queues, {}, 1) == [low]:
            assert turn == PATIENCE - 3
            return
    raise AssertionError("it starves")


def test_random_is_the_same_each_time_and_not_the_order_of_arrival() -> None:
    orders = []
    for _ in range(2):
        new, queues = Arrivals(), Queues("random")
        for _ in range(20):
            queues.add(new.request())
        orders.append([request.arrival for request in admit(queues, {}, 20)])
    assert orders[0] == orders[1]
    assert sorted(orders[0]) != orders[0]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_branches_of_a_group_are_admitted_one_after_another(policy: str) -> None:
    new, queues = Arrivals(), Queues(policy)
    groups = []
    for each in range(12):
        request = new.request(text=f"{each % 3}{each}", program=1 + each % 2, group=1 + each % 3)
        groups.append(request.group)
        queues.add(request)
    order = []
    while len(queues):  # however many a plan has room for
        order += [request.group for request in admit(queues, {}, 1 + len(queues) % 3)]
    assert sorted(order) == sorted(groups)
    assert sum(one != other for one, other in pairwise(order)) == len(set(groups)) - 1


def test_the_same_numbers_of_another_client_or_of_no_program_are_no_group() -> None:
    new, queues = Arrivals(), Queues("fcfs")
    requests = [
        new.request(program=1, group=1),
        new.request(),
        new.request(program=1, group=1),
        new.request(group=1),
        new.request(),
        new.request(group=1),
    ]
    for request in requests:
        queues.add(request)
    queues.add(new.request(client=b"d", program=1, group=1))
    mine = [request for request in admit(queues, {}, 7) if request.key[0] == b"c"]
    assert mine == [requests[i] for i in (0, 2, 1, 3, 4, 5)]


def test_a_group_is_followed_only_as_long_as_nothing_comes_between() -> None:
    new, queues = Arrivals(), Queues("fcfs")
    requests = [new.request(program=1, group=1), new.request(), new.request()]
    for request in requests:
        queues.add(request)
    assert admit(queues, {}, 2) == requests[:2]
    queues.add(new.request(program=1, group=1))
    assert admit(queues, {}, 1) == [requests[2]]


def test_a_group_without_end_does_not_starve_its_client_nor_others() -> None:
    new, queues = Arrivals(), Queues("fcfs")
    queues.add(new.request(program=1, group=1))
    unlucky, other = new.request(), new.request(client=b"d")
    queues.add(unlucky)
    queues.add(other)
    waits = {unlucky: 0, other: 0}
    for turn in range(3 * PATIENCE):
        queues.add(new.request(program=1, group=1))
        for request in admit(queues, {}, 1):
            if request in waits:
                waits[request] = turn
    assert 0 < waits[other] < 20
    assert PATIENCE <= waits[unlucky] <= PATIENCE + 2
