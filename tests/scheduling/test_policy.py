"""Who goes first, and that nobody waits for ever."""

from __future__ import annotations

import numpy as np

from sglang_lite.params import SamplingParams
from sglang_lite.runtime.scheduling.intake import Limits, accept
from sglang_lite.runtime.scheduling.policy import PATIENCE, Queues
from sglang_lite.runtime.scheduling.request import Request
from sglang_lite.wire import Submit, pack

LIMITS = Limits(
    vocab_size=10, context_length=10_000, max_queued_requests=10, eos_token_ids=frozenset()
)


class Arrivals:
    def __init__(self) -> None:
        self.count = 0

    def request(self, size: int, client: bytes = b"c") -> Request:
        self.count += 1
        message = Submit(self.count, pack(np.ones(size, np.int32)), SamplingParams())
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
