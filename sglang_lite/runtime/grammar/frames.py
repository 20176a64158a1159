"""Messages on a pipe, each with its length in front."""

from __future__ import annotations

from typing import IO


def read(stream: IO[bytes]) -> bytes:
    """The next message; nothing at the stream's end."""
    size = stream.read(4)
    return stream.read(int.from_bytes(size, "little")) if len(size) == 4 else b""


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data
