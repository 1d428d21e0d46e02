"""The entry point: runs a command, and turns every mistake into one sentence and an exit status."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from bench import env

OK, FAILED, MISTAKE = 0, 1, 2  # exit statuses: done; a run or a command failed; the user has to change something


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    arguments = list(sys.argv[1:] if args is None else args)
    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is imported, below; why: ARCHITECTURE.md, rule 10
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if conflict := env.datasets_conflict():  # then nothing below can be imported
        return say(conflict, MISTAKE)
    import click

    from bench.commands import cli
    from datasets.errors import UserError

    try:
        status = cli.main(arguments, prog_name="slipbench", standalone_mode=False)
        sys.stdout.flush()
        return int(status or OK)
    except UserError as error:
        return say(str(error), MISTAKE)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return MISTAKE
    except click.ClickException as error:  # of the command line itself
        return say(error.format_message(), MISTAKE)
    except (KeyboardInterrupt, click.Abort):
        return say("interrupted.", FAILED)
    except BrokenPipeError:  # whoever read the output has left, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # a defect: the sentence for people, the traceback for who asks for it
        if os.environ.get("SLIPBENCH_DEBUG") == "1":
            traceback.print_exc()
        first = (str(error).splitlines() or [""])[0]
        return say(f"{type(error).__name__}: {first} (SLIPBENCH_DEBUG=1 shows where)", FAILED)


def say(sentence: str, status: int) -> int:
    """Print a sentence on standard error and return the status."""
    print(f"slipbench: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
