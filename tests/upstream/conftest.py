"""One runtime for all the programs here: a real process and real scheduling, a made-up model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sglang_lite as sgl
from sglang_lite.utils import launch_server_cmd, terminate_process, wait_for_server

COMMAND = (
    "python3 -m sglang_lite serve --model fake?eos=0 "
    "--core sglang_lite.testing:fake_core --host 127.0.0.1"
)


@pytest.fixture(scope="session")
def server() -> Iterator[sgl.Runtime]:
    runtime = sgl.Runtime(model_path="fake?eos=0", core="sglang_lite.testing:fake_core")
    yield runtime
    runtime.shutdown()


@pytest.fixture
def runtime(server: sgl.Runtime) -> Iterator[sgl.Runtime]:
    """The default backend for as long as a test runs."""
    sgl.set_default_backend(server)
    yield server
    sgl.set_default_backend(None)


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """Where an HTTP server answers."""
    process, port = launch_server_cmd(COMMAND)
    wait_for_server(f"http://localhost:{port}", timeout=60)
    yield port
    terminate_process(process)
    assert process.poll() is not None
