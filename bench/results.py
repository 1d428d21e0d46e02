"""The result files: CSVs that only ever grow, safe against two writers and a kill at any moment."""

from __future__ import annotations

import csv
import fcntl
import io
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.errors import UserError, printable

if TYPE_CHECKING:
    import pandas as pd

_RUNS = """
run_id status reason system settings dataset model optimizer lr batch_size precision device threads seed repeat epochs
steps samples_seen samples_trained samples_skipped row_updates_skipped prepare_s train_s data_wait_s eval_s
samples_per_s auc_last auc_best best_at_samples logloss_last accuracy_last base_rate hot_rows_share hot_inputs_share
link_to_device_bytes link_to_host_bytes net_bytes rows_read rows_written dense_flops peak_rss_bytes
config_hash code_version machine started_at notes
"""
RUNS = tuple(_RUNS.split())
_DECISIONS = (
    *("run_id", "epoch", "samples_seen", "train_s"),  # when
    *("threshold", "iterations", "sampled_inputs", "sample_drop_ratio"),  # the search; threshold: empty if none found
    *("stale_rows", "hot_rows", "stale_rows_untouched"),  # untouched: no input of the window looked the row up
    *("hot_inputs_left", "inputs_dropped"),  # what the decision was about, and what it dropped of these
)
COLUMNS = {
    "runs": RUNS,
    "evals": ("run_id", "samples_seen", "train_s", "auc", "logloss", "accuracy"),
    "phases": ("run_id", "lane", "phase", "seconds", "calls", "rows", "bytes", "flops"),
    "decisions": _DECISIONS,  # a row for each epoch in which Slipstream decided
    "steps": ("run_id", "first_step", "steps", "samples", "loss", "seconds", "data_wait_s"),
}
LONGEST = 2000  # characters of a cell that is shown: a reason can hold a whole traceback
CELLS = ("label", "pair", *RUNS)  # columns of cells.csv: which runs the last comparison in a folder is made of
STUDY_CELLS = ("policy", "size", "drop", *CELLS)  # of study_cells.csv: the runs of the last study in a folder
DERIVED = (  # replaced by each comparison, and by each study
    *("cells.csv", "compare.csv", "compare_policies.csv", "compare.md", "figures"),
    *("study_cells.csv", "study.csv", "study.md"),
)
_TEXT = """
run_id status reason system settings dataset model optimizer precision device config_hash code_version machine
started_at notes lane phase label layout policy accuracy hardware measured_on
"""
TEXT = frozenset(_TEXT.split())  # columns that are not numbers


def _cell(value: Any) -> str:
    """A value as it is written: nothing for not measured, and never a line break, which would make two rows of one."""
    return "" if value is None else " ".join(str(value).splitlines())


def _line(values: list[str] | tuple[str, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class Results:
    """The result files of one folder. UserError where they cannot be written or hold other columns."""

    def __init__(self, out: Path) -> None:
        self.out = out
        if not (out / "runs.csv").exists():
            for name in DERIVED:
                if (out / name).exists():
                    raise UserError(f"{out / name} is not one of slipbench's results; name another folder with --out.")
        try:
            (out / "runs").mkdir(parents=True, exist_ok=True)
            for table in COLUMNS:
                self._append(table, b"")
        except OSError as error:
            raise self._unwritable(error) from None

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Add a row, in the file before this returns. A column that the row lacks was not measured."""
        if extra := row.keys() - set(COLUMNS[table]):
            raise ValueError(f"{table}.csv has no column {', '.join(sorted(extra))}")
        try:
            self._append(table, _line([_cell(row.get(column)) for column in COLUMNS[table]]))
        except OSError as error:
            raise self._unwritable(error) from None

    def new_run(self, name: str) -> str:
        """Make the folder of a new run and return its id."""
        run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{name}-{secrets.token_hex(3)}"
        try:
            self.folder(run_id).mkdir(parents=True)
        except OSError as error:
            raise self._unwritable(error) from None
        return run_id

    def folder(self, run_id: str) -> Path:
        """Where the configuration and environment of a run lie."""
        return self.out / "runs" / run_id

    def write_text(self, run_id: str, name: str, text: str) -> None:
        """A file in a run's folder."""
        try:
            (self.folder(run_id) / name).write_text(text)
        except OSError as error:
            raise self._unwritable(error) from None

    def write_file(self, run_id: str, name: str, write: Callable[[Path], object]) -> None:
        """A file in a run's folder that `write` makes at the path that it is given."""
        try:
            write(self.folder(run_id) / name)
        except OSError as error:
            raise self._unwritable(error) from None

    def _append(self, table: str, data: bytes) -> None:
        path = self.out / f"{table}.csv"
        header = _line(COLUMNS[table])
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # released with the descriptor, and by the system after a kill
            size = os.fstat(descriptor).st_size
            start = os.pread(descriptor, len(header), 0)
            _check_header(path, header, start)
            if size < len(header):  # new, or killed while the header was written
                data = header[size:] + data
            elif os.pread(descriptor, 1, size - 1) != b"\n":
                # A torn row stays torn: with this many commas nobody can take it for a whole one.
                data = b"," * len(COLUMNS[table]) + b"\n" + data
            _write(descriptor, data)
        finally:
            os.close(descriptor)

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(f"cannot write results to {self.out}: {error.strerror}; free space or name another --out.")


def _check_header(path: Path, header: bytes, start: bytes) -> None:
    """UserError where a file does not start with the header, or with a part of it if it is no longer than that."""
    if start != header and not (header.startswith(start) and len(start) < len(header)):
        raise UserError(f"{path} has other columns than this version writes; name another folder with --out.")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file by what `write` puts into the path that it is given, all or nothing."""
    beside = path.with_name(f".{secrets.token_hex(4)}-{path.name}")
    try:
        write(beside)
        beside.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}.") from None
    finally:
        beside.unlink(missing_ok=True)


def read_rows(path: Path, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """Every whole row of a CSV file, as text. A torn row is left out. UserError for other columns than those named."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}.") from None
    if columns:
        header = _line(list(columns))
        _check_header(path, header, data[: len(header)])
    lines = data.decode(errors="replace").split("\n")[:-1]  # what follows the last line break is torn
    columns = columns or next(csv.reader(lines[:1]), [])
    rows = []
    for line in lines[1:]:
        try:
            values = next(csv.reader([line], strict=True), [])
        except csv.Error:  # torn within quotes
            continue
        if len(values) == len(columns):
            rows.append(dict(zip(columns, values, strict=True)))
    return rows


def read(out: Path, table: str) -> pd.DataFrame:
    """A table of a results folder: numbers as numbers, NaN for not measured. UserError for other columns."""
    return read_file(out / f"{table}.csv", COLUMNS[table])


def damaged(path: Path) -> UserError:
    """What is said of a file that was written whole and is not."""
    return UserError(f"{path} is damaged; remove it, and the command that made it writes it anew.")


def read_text(path: Path) -> pd.DataFrame:
    """A CSV that was written whole, every cell as text that can be shown. UserError where it is not whole."""
    import pandas as pd

    try:
        text = path.read_bytes().decode()
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except FileNotFoundError:
        raise UserError(f"{path} is missing; the command that makes it writes it anew.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error):
        raise damaged(path) from None
    header = lines[0] if lines else []
    ragged = any(len(line) != len(header) for line in lines)
    if not header or ragged or len(set(header)) < len(header) or not text.endswith("\n"):
        raise damaged(path)
    return pd.DataFrame(
        [[printable(cell, LONGEST) for cell in line] for line in lines[1:]], columns=header, dtype=object
    )


def read_whole(
    path: Path, columns: Sequence[str] = (), filled: Sequence[str] = (), numbers: Sequence[str] = ()
) -> pd.DataFrame:
    """As `read_file`, of a file that was written whole, or was not written. `damaged` where it is not whole.

    Nor may a number be none: of `columns` those that are no words, `numbers`, and `filled`, which every row has.
    """
    frame = read_file(path, columns)
    if path.exists():
        text = read_text(path)
        for name in {*columns, *numbers, *filled} - TEXT:
            if name not in frame or (frame[name].isna() & ((text[name] != "") | (name in filled))).any():
                raise damaged(path)
    return frame


def read_file(path: Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Any CSV file of a results folder, likewise; with the columns that it has, where none are named."""
    import pandas as pd

    rows = read_rows(path, columns)
    frame = pd.DataFrame(rows, columns=list(columns) or None, dtype=object)
    for column in frame:
        if column not in TEXT:
            frame[column] = pd.to_numeric(frame[column].replace("", None), errors="coerce")
    return frame


def finished(out: Path, config_hash: str, code_version: str) -> dict[str, str] | None:
    """The last row of this configuration and code that is done, if there is one."""
    rows = read_rows(out / "runs.csv", RUNS)
    same = [row for row in rows if row["config_hash"] == config_hash and row["code_version"] == code_version]
    return next((row for row in reversed(same) if row["status"] == "done"), None)
