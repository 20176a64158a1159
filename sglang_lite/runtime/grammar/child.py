"""The compiling process: jobs come in on stdin, results go out on stdout, each with its length.

It may use so much address space and, for each job, so much CPU time; the system ends it when it
takes more, and whoever asked starts another. It runs at the lowest priority, knows neither the
model nor torch, and ends with stdin.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time

from sglang_lite.runtime.grammar import frames, jobs, work


def main(seconds: int, megabytes: int) -> None:
    with contextlib.suppress(OSError):
        os.nice(19)
    # Where the system knows no such limit (macOS), the clock of whoever asked is left.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    requests = sys.stdin.buffer
    while data := frames.read(requests):
        _allow(seconds)
        try:
            result: jobs.Result = work.compile_job(jobs.decode_job(data))
        except RecursionError:
            result = jobs.Refused("GrammarTooLarge", "it is nested too deep to be compiled.", None)
        except Exception as error:  # noqa: BLE001 - whoever asked must hear of it
            said = f"{type(error).__name__}: {error}"
            result = jobs.Broke(f"compiling failed with {said}")
            if jobs.short_of_memory(said):
                reason = f"compiling it needs more than {megabytes} MiB (--grammar-compile-mb)."
                result = jobs.Refused("GrammarTooLarge", reason, None)
        answers.write(frames.framed(jobs.encode(result)))
        answers.flush()


def _allow(seconds: int) -> None:
    """So many seconds of CPU time from now; the limit counts from the start of the process."""
    until = int(time.process_time()) + 1 + seconds
    with contextlib.suppress(OSError, ValueError):
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]  # inherited; it cannot be raised
        if most != resource.RLIM_INFINITY:
            until = min(until, most)
        resource.setrlimit(resource.RLIMIT_CPU, (until, most))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
