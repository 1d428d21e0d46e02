"""The entry point: runs a command, and turns every mistake into one sentence and an exit status."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress

from bench import env, interrupts

OK, FAILED, MISTAKE = 0, 1, 2  # exit statuses: done; a run or a command failed; the user has to change something
LOST = (errno.EPIPE, errno.ENOSPC, errno.EIO)  # what becomes of writing to a pipe, a disk, a terminal


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    try:
        with interrupts.handled(last=args is None), warnings.catch_warnings():
            if os.environ.get("SLIPBENCH_DEBUG") != "1":
                warnings.simplefilter("ignore")  # libraries': for those who write code, with paths of theirs
            return _run(list(sys.argv[1:] if args is None else args))
    except KeyboardInterrupt:
        return say("interrupted.", FAILED)


def _run(arguments: list[str]) -> int:
    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is imported, below; why: bench/rules.md, rule 10
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if conflict := env.datasets_conflict():  # then nothing below can be imported
        return say(conflict, MISTAKE)
    import click

    from bench.commands import cli
    from datasets.errors import UserError

    try:
        status = cli.main(arguments, prog_name="slipbench", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
        return int(status or OK)
    except UserError as error:
        return say(str(error), MISTAKE)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return MISTAKE
    except click.ClickException as error:  # of the command line itself
        return say(error.format_message(), MISTAKE)
    except click.Abort:
        return say("interrupted.", FAILED)
    except Exception as error:  # a defect: the sentence for people, the traceback for who asks for it
        if isinstance(error, OSError) and error.errno in LOST and error.filename is None:
            _drop_output()
            gone = error.errno == errno.EPIPE  # whoever read the output has left, such as `head`
            return FAILED if gone else say(f"cannot write the output: {error.strerror}.", FAILED)
        if os.environ.get("SLIPBENCH_DEBUG") == "1":
            traceback.print_exc()
        first = (str(error).splitlines() or [""])[0]
        return say(f"{type(error).__name__}: {first} (SLIPBENCH_DEBUG=1 shows where)", FAILED)


def _drop_output() -> None:
    """Throw away what could not be printed, so that Python does not try again at its end."""
    with suppress(OSError, AttributeError):  # of a stdout that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(sentence: str, status: int) -> int:
    """Print a sentence on standard error and return the status."""
    with suppress(OSError):  # of a terminal that was closed
        print(f"slipbench: {sentence}", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
