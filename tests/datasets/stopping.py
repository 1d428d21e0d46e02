"""Preparations that are stopped at a chosen moment: by an exception, or by `kill -9`.

`python -m tests.datasets.stopping JOBS` makes, for each line of a file, a preparation that kills its own process.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from datasets import text, vocabulary, writer
from datasets.store import prepare

BEFORE, AFTER = "before", "after"


class Stopped(BaseException):
    """Nothing that anybody catches."""


@dataclass(frozen=True)
class Moment:
    """Before or after a call of a function, counted from 1: `module:name` or `module:class.name`."""

    function: str
    call: int
    side: str = AFTER


@dataclass(frozen=True)
class Job:
    """A preparation."""

    dataset: str
    sources: Sequence[str]
    options: dict[str, Any]
    root: str

    def run(self, report: Callable[[str], None] = lambda line: None) -> Path:
        """Prepare; the set's folder."""
        return prepare(self.dataset, [Path(path) for path in self.sources], self.options, Path(self.root), report).path


@contextmanager
def small_parts() -> Iterator[None]:
    """Blocks of a few lines, each of them a part, and no wait for the disk, which `kill -9` does not need."""
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(os, "fsync", lambda file: None))
        patches.enter_context(mock.patch.object(text, "BLOCK_BYTES", 2000))
        patches.enter_context(mock.patch.object(vocabulary, "BLOCK", 16))
        patches.enter_context(mock.patch.object(writer, "PART_S", 0.0))
        yield


@contextmanager
def stopping(moment: Moment, stop: Callable[[], None]) -> Iterator[None]:
    """Within, `stop` is called at the moment."""
    module, _, path = moment.function.partition(":")
    owner = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    real, calls = getattr(owner, name), 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        at = calls
        if at == moment.call and moment.side == BEFORE:
            stop()
        result = real(*args, **kwargs)
        if at == moment.call and moment.side == AFTER:
            stop()
        return result

    with mock.patch.object(owner, name, counted):
        yield


def raise_stopped() -> None:
    """The exception."""
    raise Stopped


def kill() -> None:
    """What no process survives, and after which it does nothing more."""
    os.kill(os.getpid(), signal.SIGKILL)


def stopped(job: Job, moment: Moment, report: Callable[[str], None] = lambda line: None) -> bool:
    """Run until the moment; whether it came."""
    try:
        with stopping(moment, raise_stopped):
            job.run(report)
    except Stopped:
        return True
    return False


def write_jobs(path: Path, jobs: Sequence[tuple[Job, Moment]]) -> None:
    """A file for `main`."""
    path.write_text("".join(json.dumps([asdict(job), asdict(moment)]) + "\n" for job, moment in jobs))


def main(path: Path) -> None:
    """Kill each preparation of the file at its moment; one line each: whether the moment came."""
    with small_parts():
        for line in path.read_text().splitlines():
            job, moment = (kind(**fields) for kind, fields in zip((Job, Moment), json.loads(line), strict=True))
            child = os.fork()  # this process has no threads, and a start takes longer than a preparation
            if not child:
                with stopping(moment, kill):
                    job.run()
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
