"""Readers that leave early, and a runtime that dies: nothing goes on, and nobody waits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import psutil
import pytest
from live_server import LiveServer, eventually, fake_text, tokenizer

LONG = {"prompt": "go on", "max_tokens": 4000}


@pytest.fixture
def mortal() -> Iterator[LiveServer]:
    """A server that a test may break."""
    with LiveServer("fake?delay=0.01&eos=0") as live:
        yield live


def raw_post(server: LiveServer, path: str, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request was sent and nothing was read."""
    data = httpx.Request("POST", server.url + path, json=body)
    address = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((address[0], int(address[1])))
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data.content)}\r\n\r\n"
    connection.sendall(head.encode() + data.content)
    return connection


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/generate"])
def test_a_reader_that_leaves_aborts_its_requests(
    server: LiveServer, path: str, stream: bool
) -> None:
    aborted = server.stats()["aborted"]
    body = {
        "/v1/completions": {**LONG, "n": 3},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "go"}], "n": 3},
        "/generate": {"text": "go", "sampling_params": {"max_new_tokens": 4000, "n": 3}},
    }[path]
    connection = raw_post(server, path, {**body, "stream": stream})
    assert eventually(lambda: server.stats()["running"] == 3)
    connection.close()

    assert eventually(lambda: server.stats()["running"] == 0, within=1.0)
    assert server.stats()["aborted"] == aborted + 3


def test_a_reader_that_leaves_the_queue(server: LiveServer) -> None:
    connections = [raw_post(server, "/v1/completions", {**LONG, "n": 70}) for _ in range(2)]
    assert eventually(lambda: server.stats()["waiting"] > 0)
    for connection in connections:
        connection.close()

    assert eventually(server.idle, within=2.0)


def test_more_than_the_queue_holds_is_refused(server: LiveServer) -> None:
    answer = server.post("/v1/completions", {**LONG, "prompt": ["x"] * 8, "n": 80})

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert "300" in answer.json()["error"]["message"]


def test_a_stream_closed_by_the_official_client(server: LiveServer) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        with client.completions.create(model="fake", stream=True, **LONG) as stream:  # type: ignore[call-overload]
            assert next(iter(stream)).choices[0].text
            assert server.stats()["running"] == 1

        assert eventually(lambda: server.stats()["running"] == 0, within=1.0)


def test_a_killed_runtime_is_an_error_for_everybody(mortal: LiveServer) -> None:
    ended: list[tuple[float, str]] = []

    def read(path: str, body: dict[str, Any]) -> None:
        with httpx.stream("POST", mortal.url + path, json=body, timeout=20) as answer:
            said = answer.read().decode()
        ended.append((time.monotonic(), said if answer.status_code == 200 else f"503 {said}"))

    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/completions", {**LONG, "stream": True}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "stream": True}),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 4000}, "stream": True}),
        ("/v1/completions", LONG),
    ]
    readers = [threading.Thread(target=read, args=each) for each in asked]
    for reader in readers:
        reader.start()
    assert eventually(lambda: mortal.stats()["running"] == 4)
    worker = mortal.worker
    killed = time.monotonic()
    worker.kill()
    for reader in readers:
        reader.join(10)

    assert len(ended) == 4
    assert all(at - killed < 2.0 for at, _ in ended)
    errors = [said for _, said in ended]
    assert all('"type":"service_unavailable_error"' in said for said in errors)
    assert sum(said.startswith("503") for said in errors) == 1
    assert sum(said.endswith("}}\n\n") and "[DONE]" not in said for said in errors) == 3
    assert mortal.http.get("/health").status_code == 503
    assert mortal.http.get("/v1/models").status_code == 200
    assert mortal.post("/v1/completions", LONG).status_code == 503
    assert "sglang_lite_up 0.0" in mortal.http.get("/metrics").text
    assert mortal.stop() == 1
    assert not psutil.pid_exists(worker.pid)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(signum: signal.Signals) -> None:
    with LiveServer("fake?eos=0") as live:
        port = int(live.url.rsplit(":", 1)[1])
        assert live.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status_code == 200
        worker = live.worker
        open_files = {file for file in os.listdir("/tmp") if file.startswith("sglang-lite-")}
        live.process.send_signal(signum)
        assert live.process.wait(10) == 0
        assert not worker.is_running()
        left = {file for file in os.listdir("/tmp") if file.startswith("sglang-lite-")}
        assert open_files - left, "the folder of its socket is gone"
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free again


def test_requests_in_flight_are_finished_before_the_end(mortal: LiveServer) -> None:
    found: list[httpx.Response] = []
    body = {"prompt": "last", "max_tokens": 100}
    reader = threading.Thread(target=lambda: found.append(mortal.post("/v1/completions", body)))
    reader.start()
    assert eventually(lambda: mortal.stats()["running"] == 1)
    mortal.process.terminate()
    reader.join(10)

    assert found[0].json()["choices"][0]["text"] == fake_text(tokenizer.encode("last"), 100)
    assert mortal.process.wait(10) == 0


def test_requests_that_outlast_the_drain_are_told_so() -> None:
    said: list[str] = []

    def read(url: str, stream: bool) -> None:
        body = {**LONG, "stream": stream}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=20) as answer:
            said.append(answer.read().decode())

    with LiveServer("fake?delay=0.01&eos=0", "--drain-seconds", "0.2") as live:
        readers = [threading.Thread(target=read, args=(live.url, each)) for each in (False, True)]
        for reader in readers:
            reader.start()
        assert eventually(lambda: live.stats()["running"] == 2)
        assert live.stop() == 0
        for reader in readers:
            reader.join(10)

        assert len(said) == 2
        assert all('"message":"the server is stopping."' in each for each in said)
        assert [line for line in live.lines if "serving" not in line] == []


def test_a_killed_server_takes_its_runtime_along(mortal: LiveServer) -> None:
    worker = mortal.worker
    mortal.process.kill()
    mortal.process.wait()

    assert eventually(lambda: not worker.is_running(), within=5.0)


def test_a_failed_step_is_that_requests_error() -> None:
    with LiveServer("fake?eos=0&fail_at=2") as live:
        first = live.post("/v1/completions", {"prompt": "x", "max_tokens": 5})
        second = live.post("/v1/completions", {"prompt": "x", "max_tokens": 5})

        assert first.status_code == 500
        assert first.json()["error"]["type"] == "server_error"
        assert second.json()["choices"][0]["text"] == fake_text(tokenizer.encode("x"), 5)


def test_a_port_in_use_is_one_line_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "sglang_lite", "serve", "--port", port],
            capture_output=True,
            text=True,
            timeout=20,
        )

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --port {port} on 127.0.0.1 cannot be listened on")
    assert done.stderr.count("\n") == 1
