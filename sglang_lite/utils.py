"""What programs written for SGLang import from its `utils`."""

from __future__ import annotations

import hashlib
import html
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from sglang_lite.errors import InvalidRequest, RuntimeUnavailable
from sglang_lite.processes import launch_server_cmd, terminate_process, wait_for_server

__all__ = [
    "download_and_cache_file",
    "dump_state_text",
    "launch_server_cmd",
    "print_highlight",
    "read_jsonl",
    "terminate_process",
    "wait_for_server",
]

RULE = "=" * 40


def read_jsonl(filename: str | os.PathLike[str]) -> Iterator[Any]:
    """What each line holds; empty lines and those that begin with # are passed over.

    Raises:
        InvalidRequest: a line is not JSON.
    """
    with open(filename, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.startswith("#") or not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise InvalidRequest(f"{filename}:{number} is not JSON: {error}.") from None


def dump_state_text(
    filename: str | os.PathLike[str], states: Sequence[Any], mode: str = "w"
) -> None:
    """Write the texts of program states (or texts) to a file, to be read by people.

    Of a program that failed it is the error, so that the others are not lost.
    """
    with open(filename, mode, encoding="utf-8") as file:
        for index, state in enumerate(states):
            text = _text_of(state)
            file.write(f"{RULE} {index} {RULE}\n{text}\n{RULE}{RULE}\n\n")


def _text_of(state: Any) -> str:
    if not hasattr(state, "text"):
        return str(state)
    try:
        return str(state.text())
    except Exception as error:  # noqa: BLE001 - whatever the program raised
        return f"{type(error).__name__}: {error}"


def download_and_cache_file(url: str, filename: str | os.PathLike[str] | None = None) -> str:
    """The path of a file that has what `url` has; it is fetched if it is not there yet.

    Args:
        filename: where to keep it; None: in the cache, under $SGLANG_LITE_CACHE or
            ~/.cache/sglang_lite.

    Raises:
        RuntimeUnavailable: it cannot be fetched.
    """
    place = _cached(url) if filename is None else Path(filename)
    if place.exists():
        return str(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: others may look for it meanwhile.
    handle, part = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            _fetch(url, file)
        os.replace(part, place)
    except BaseException:
        os.unlink(part)
        raise
    return str(place)


def print_highlight(text: object) -> None:
    """Print, in a notebook so that it stands out."""
    notebook = sys.modules.get("IPython")
    if notebook is None or notebook.get_ipython() is None:
        print(text)  # noqa: T201 - it says so
        return
    from IPython.display import HTML, display  # type: ignore[import-not-found] # it is there

    lines = html.escape(str(text)).replace("\n", "<br>")
    display(HTML(f"<strong style='color: #00008b'>{lines}</strong>"))


def _cached(url: str) -> Path:
    root = os.environ.get("SGLANG_LITE_CACHE")
    base = Path(root).expanduser() if root else Path.home() / ".cache" / "sglang_lite"
    key = hashlib.sha256(url.encode()).hexdigest()[:12]
    name = Path(httpx.URL(url).path).name or "file"
    return base / "files" / f"{key}-{name}"


def _fetch(url: str, file: Any) -> None:
    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=30) as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                file.write(chunk)
    except httpx.HTTPError as error:
        raise RuntimeUnavailable(f"{url} cannot be fetched: {error}") from error
