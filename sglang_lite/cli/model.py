"""`model`: what is here, and fetching what is not."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sglang_lite.runtime.model import hub


def fetch_model(name: str) -> None:
    source = _fetch(name)
    Console().print(f"{source.name} is in {source.folder}", soft_wrap=True, highlight=False)


def print_path(name: str) -> None:
    """The folder alone on stdout, for use in other commands."""
    source = _fetch(name)
    Console(soft_wrap=True, highlight=False, markup=False).print(str(source.folder))


def list_models() -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    here = hub.cached_models()
    for source in here:
        console.print(f"{source.name:24} {source.folder}")
    names = {source.name for source in here}
    for known in hub.known_models():
        if known.name not in names:
            console.print(f"{known.name:24} {known.title}, not fetched yet")


def _fetch(name: str) -> hub.ModelSource:
    """The model, with bars on stderr for what takes long."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(bars[what], completed=done, total=total)

        return hub.fetch(name, report)
