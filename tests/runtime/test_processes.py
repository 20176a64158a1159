"""A real runtime process and its clients: deaths, silence, garbage, and who pays for them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import zmq
import zmq.asyncio

from sglang_lite import wire
from sglang_lite.config import EngineConfig
from sglang_lite.errors import (
    InvalidConfig,
    InvalidRequest,
    Overloaded,
    RequestFailed,
    RuntimeUnavailable,
)
from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.client import Client
from sglang_lite.runtime.launch import WorkerProcess, start_worker

FAKE = "sglang_lite.testing:fake_core"
LONG = SamplingParams(max_tokens=3000, ignore_eos=True)


def start(model: str = "fake?eos=0", **options: Any) -> WorkerProcess:
    return start_worker(EngineConfig(model=model, **options), core=FAKE)


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess]:
    with start() as process:
        yield process


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


async def until_idle(client: Client, seconds: float = 10.0) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        stats = await client.ask("stats")
        if stats["running"] == stats["waiting"] == 0:
            return stats
        await asyncio.sleep(0.05)
    raise AssertionError(f"requests are still here: {stats}")


def test_two_clients_with_the_same_ids_hear_their_own_answers(worker: WorkerProcess) -> None:
    async def go() -> None:
        one = await Client.connect(worker.address)
        two = await Client.connect(worker.address)
        first = one.submit(list(b"abc"), SamplingParams(max_tokens=20))
        second = two.submit(list(b"xyz"), SamplingParams(max_tokens=20))
        assert first.id == second.id
        a, b = await asyncio.gather(first.completion(), second.completion())
        alone = await one.submit(list(b"xyz"), SamplingParams(max_tokens=20)).completion()
        assert b.ids == alone.ids != a.ids
        await one.close()
        await two.close()

    run(go())


def test_an_abort_ends_a_request_and_gives_its_pages_back(worker: WorkerProcess) -> None:
    async def go() -> None:
        client = await Client.connect(worker.address)
        stream = client.submit(list(b"abc"), LONG)
        async for _ in stream:
            break
        stats = await until_idle(client)
        assert stats["pages_leased"] == 0
        assert await client.ask("check") == {"sound": True}
        await client.close()

    run(go())


def test_what_is_retained_goes_with_the_program_and_with_the_client(worker: WorkerProcess) -> None:
    async def go() -> None:
        watcher = await Client.connect(worker.address)
        client = await Client.connect(worker.address)

        async def retained() -> Any:
            return (await watcher.ask("stats"))["pages_retained"]

        for program, text in enumerate([b"abcd", b"xyz"], 1):
            params = SamplingParams(max_tokens=0)
            hint = Hint(program=program, more=True)
            await client.submit(list(text), params, hint=hint).completion()
        assert await retained() == 7
        client.end_program(1)
        await client.ask("stats")
        assert await retained() == 3
        await client.close()
        for _ in range(100):
            if await retained() == 0:
                break
            await asyncio.sleep(0.02)
        assert await retained() == 0
        await watcher.close()
        client.end_program(2)  # to a runtime that is gone: nothing happens

    run(go())


def test_a_killed_client_is_noticed_and_its_requests_end(worker: WorkerProcess) -> None:
    program = (
        "import asyncio, os, signal\n"
        "from sglang_lite.runtime.client import Client\n"
        "from sglang_lite.params import SamplingParams\n"
        "async def go():\n"
        f"    client = await Client.connect({worker.address!r})\n"
        "    params = SamplingParams(max_tokens=4000, ignore_eos=True)\n"
        "    streams = [client.submit([1, 2, i], params) for i in range(3)]\n"
        "    async for _ in streams[0]:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(go())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL

    async def go() -> None:
        client = await Client.connect(worker.address)
        stats = await until_idle(client)
        assert stats["pages_leased"] == 0
        assert await client.ask("check") == {"sound": True}
        await client.close()

    run(go())


@pytest.mark.parametrize(
    "garbage",
    [[b""], [b"\xff\xff"], [b"hello", b"world"], [b"\x91\xa6submit"], [b"\x00" * 100_000]],
)
def test_garbage_harms_nobody(worker: WorkerProcess, garbage: list[bytes]) -> None:
    async def go() -> None:
        client = await Client.connect(worker.address)
        socket = zmq.asyncio.Context.instance().socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(worker.address)
        await socket.send_multipart(garbage)
        done = await client.submit(list(b"abc"), SamplingParams(max_tokens=3)).completion()
        assert len(done.ids) == 3
        socket.close()
        await client.close()

    run(go())


def test_an_id_in_use_is_refused_by_name(worker: WorkerProcess) -> None:
    async def go() -> None:
        client = await Client.connect(worker.address)
        stream = client.submit(list(b"abc"), LONG)
        again = wire.Submit(stream.id, wire.pack([1]), SamplingParams())
        client._send(again)
        with pytest.raises(InvalidRequest, match="in use"):
            await stream.completion()
        await client.close()

    run(go())


@pytest.mark.parametrize(
    ("tokens", "params", "message"),
    [
        ([], SamplingParams(), "the prompt is empty"),
        ([300], SamplingParams(), "token id 300 is out of range; ids are between 0 and 257"),
        ([-1], SamplingParams(), "token id -1 is out of range"),
        ([2**40], SamplingParams(), "token id -1 is out of range"),
        ([1] * 4096, SamplingParams(), "4096 tokens and at most 4095 fit"),
        ([1], SamplingParams(logit_bias={999: 1.0}), "`logit_bias` has token id 999"),
        ([1], SamplingParams(stop_token_ids=(258,)), "`stop_token_ids` has token id 258"),
    ],
)
def test_what_can_never_run_is_refused_with_numbers(
    worker: WorkerProcess, tokens: list[int], params: SamplingParams, message: str
) -> None:
    async def go() -> None:
        client = await Client.connect(worker.address)
        with pytest.raises(InvalidRequest, match=message):
            await client.submit(tokens, params).completion()
        await client.close()

    run(go())


def test_a_full_queue_refuses_and_the_rest_goes_on() -> None:
    async def go(worker: WorkerProcess) -> None:
        client = await Client.connect(worker.address)
        params = SamplingParams(max_tokens=3, ignore_eos=True)
        streams = [client.submit([i], params) for i in range(40)]
        ends = await asyncio.gather(*(s.completion() for s in streams), return_exceptions=True)
        refused = [end for end in ends if isinstance(end, Overloaded)]
        assert refused
        assert "--max-queued-requests" in str(refused[0])
        assert len(refused) + sum(len(getattr(end, "ids", ())) == 3 for end in ends) == 40
        await client.close()

    with start("fake?eos=0&delay=0.02", max_running_requests=2, max_queued_requests=4) as worker:
        run(go(worker))


def test_a_failed_launch_fails_its_rows_with_the_cause() -> None:
    async def go(worker: WorkerProcess) -> None:
        client = await Client.connect(worker.address)
        with pytest.raises(RequestFailed, match="told to fail"):
            await client.submit(list(b"abc"), LONG).completion()
        done = await client.submit(list(b"abc"), SamplingParams(max_tokens=3)).completion()
        assert len(done.ids) == 3
        await client.close()

    with start("fake?eos=0&fail_at=3") as worker:
        run(go(worker))


def test_two_failed_launches_end_the_runtime_and_everyone_hears_why() -> None:
    async def go(worker: WorkerProcess) -> None:
        client = await Client.connect(worker.address, process=worker.process)
        streams = [client.submit([i], LONG) for i in range(200)]  # more than two batches hold
        ends = await asyncio.gather(*(s.completion() for s in streams), return_exceptions=True)
        assert all(isinstance(end, (RequestFailed, RuntimeUnavailable)) for end in ends), ends
        assert any("two forward passes in a row failed" in str(end) for end in ends)
        assert worker.process.wait(10) == 1
        await client.close()

    with start("fake?eos=0&fail_at=1,2") as worker:
        run(go(worker))


def test_kill_9_of_the_runtime_ends_every_stream_within_two_seconds() -> None:
    async def go(worker: WorkerProcess) -> None:
        client = await Client.connect(worker.address, process=worker.process)
        streams = [client.submit([1, 2, i], LONG) for i in range(3)]
        asked = asyncio.ensure_future(client.ask("stats"))
        await asked
        worker.process.kill()
        killed = time.monotonic()
        ends = await asyncio.gather(*(s.completion() for s in streams), return_exceptions=True)
        assert time.monotonic() - killed < 2.0
        assert [type(end) for end in ends] == [RuntimeUnavailable] * 3
        assert not client.alive
        with pytest.raises(RuntimeUnavailable):
            client.submit([1], LONG)
        await client.close()

    with start("fake?eos=0&delay=0.02") as worker:
        run(go(worker))


def test_a_runtime_that_was_paused_is_not_declared_dead() -> None:
    async def go(worker: WorkerProcess) -> None:
        client = await Client.connect(worker.address, process=worker.process)
        params = SamplingParams(max_tokens=30, ignore_eos=True)
        stream = client.submit([1, 2], params)
        worker.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2.5)
        assert client.alive
        worker.process.send_signal(signal.SIGCONT)
        assert len((await stream.completion()).ids) == 30
        await client.close()

    with start() as worker:
        run(go(worker))


def test_a_client_that_does_not_read_costs_bounded_memory() -> None:
    """It asks without end and reads nothing; another client is served all the while."""

    async def go(worker: WorkerProcess) -> None:
        deaf = zmq.asyncio.Context.instance().socket(zmq.DEALER)
        deaf.setsockopt(zmq.LINGER, 0)
        deaf.setsockopt(zmq.RCVHWM, 1)
        deaf.connect(worker.address)
        await deaf.send(wire.encode(wire.Attach()))
        client = await Client.connect(worker.address)
        process = psutil.Process(worker.process.pid)
        ask = wire.encode(wire.Ask(1, "stats"))
        sizes = []
        for _ in range(20):
            for _ in range(6_000):  # some 350 bytes of answer each: the bound is passed half way
                deaf.send(ask)
            assert await client.ask("check") == {"sound": True}
            sizes.append(process.memory_info().rss)
        done = await client.submit([1], SamplingParams(max_tokens=3)).completion()
        assert len(done.ids) == 3
        assert sizes[-1] - sizes[-6] < 2 << 20, "it grows with every message that is not read"
        deaf.close()
        await client.close()

    with start() as worker:
        run(go(worker))


def children_of(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_runtime_outlives_its_parent(how: signal.Signals) -> None:
    program = (
        "import time\n"
        "from sglang_lite.config import EngineConfig\n"
        "from sglang_lite.runtime.launch import start_worker\n"
        f"worker = start_worker(EngineConfig(model='fake'), core={FAKE!r})\n"
        "print(worker.address, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        socket = Path(parent.stdout.readline().strip().removeprefix("ipc://"))
        assert socket.exists()
        children = children_of(parent.pid)
        assert children
        os.kill(parent.pid, how)
        parent.wait(10)
    gone, alive = psutil.wait_procs(children, timeout=10)
    assert gone
    assert not alive
    assert not socket.parent.exists()


def test_a_config_that_cannot_work_is_an_error_with_the_runtimes_own_words() -> None:
    with pytest.raises(InvalidConfig, match="no model '/nowhere'"):
        start_worker(EngineConfig(model="/nowhere"))


def test_nobody_at_an_address_is_an_error_not_a_wait() -> None:
    async def go() -> None:
        with pytest.raises(RuntimeUnavailable, match=r"no runtime answers at .* within 0.2 s"):
            await Client.connect("ipc:///tmp/sglang-lite-nobody", timeout=0.2)
        with pytest.raises(InvalidConfig, match="not at 'tcp"):
            await Client.connect("tcp://127.0.0.1:1")

    run(go())
