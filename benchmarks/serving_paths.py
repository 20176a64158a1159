"""W1 to W5 on the real small model, in this process: `make bench`.

Prints, for each workload, seconds, prompt tokens computed against the optimum, and output tokens a
second. Figures depend on the machine and on what else it does; quote ratios of paired runs.
"""

from __future__ import annotations

import argparse
import statistics
import time

from rich.console import Console
from rich.table import Table

from benchmarks.drive import core_of, drive
from benchmarks.machine import load, peak_mib, wait_until_calm
from benchmarks.workloads import WORKLOADS, distinct_tokens, make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--page-size", type=int)
    parser.add_argument("--chunk", type=int, dest="chunked_prefill_size")
    options = vars(parser.parse_args())
    names, repeat = options.pop("names"), options.pop("repeat")

    begin = time.perf_counter()
    core = core_of(**options)
    start = time.perf_counter() - begin
    table = Table("workload", "requests", "prompt", "optimum", "computed", "over", "out/s", "s")
    for name in names:
        phases = make(name)
        asks = [ask for phase in phases for ask in phase]
        runs = []
        for _ in range(repeat):
            core.flush()
            wait_until_calm()
            runs.append(drive(core, phases))
        seconds = statistics.median(run.seconds for run in runs)
        optimum = distinct_tokens(ask.prompt for ask in asks)
        computed = runs[0].prefill_tokens
        table.add_row(
            name,
            str(len(asks)),
            f"{sum(len(ask.prompt) for ask in asks):,}",
            f"{optimum:,}",
            f"{computed:,}",
            f"{computed / optimum - 1:.1%}",
            f"{sum(ask.max_new for ask in asks) / seconds:.1f}",
            f"{seconds:.2f}",
        )
    console = Console()
    console.print(table)
    console.print(f"start {start:.1f} s, peak {peak_mib():,.0f} MiB, {load()}")


if __name__ == "__main__":
    main()
