"""The raw files of KuaiRand-Pure as tables: the official ones, as users download them, or their Parquet copy.

The copy was made from the official files, and cuts where this module cuts: impressions from 25 April on, and of what
was shown before, for each user, how much it was and the last 50 videos. So both forms give the same tables.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from datasets import text
from datasets.errors import UserError, printable
from datasets.layout import EMPTY, Field, Layout, quoted
from datasets.pace import Report
from datasets.writer import StoreWriter

LABEL = "is_click"
FIRST_DAY = 20220425  # of the impressions, in Beijing, as the files' `date`; what was shown before is history
KEPT = 50  # videos of a user's history, at most
IMPRESSION_COLUMNS = ("user_id", "video_id", "date", "hourmin", "time_ms", "tab", LABEL)
NUMBERS = ("user_id", "video_id", "date", "hourmin", "time_ms", LABEL, "video_duration", "history_len", "last_time_ms")
LISTS = ("watch_seq", "long_watch_seq")
REQUIRED = ("user_id", "video_id", "date", "time_ms")
KEYS = {"users": "user_id", "videos": "video_id", "histories": "user_id"}

Form = Mapping[str, tuple[str, ...]]  # what the files hold → their names
COPY: Form = {
    "impressions": ("splits_val.parquet", "splits_test.parquet"),
    "users": ("user_features.parquet",),
    "videos": ("item_features.parquet",),
    "histories": ("user_sequences.parquet",),
}
OFFICIAL: Form = {
    "impressions": ("log_standard_4_22_to_5_08_pure.csv",),
    "users": ("user_features_pure.csv",),
    "videos": ("video_features_basic_pure.csv",),
    "histories": ("log_standard_4_08_to_4_21_pure.csv",),
}
FORMS = {"the official files": OFFICIAL, "the Parquet copy": COPY}  # the first that is whole is taken
PLACES = ("", "data", "KuaiRand-Pure", "KuaiRand-Pure/data")  # in the --source folder

WRONG_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # Arrow's words
ID = (r"\A[0-9]{1,18}\z", pa.int64(), "a whole number of at least 0")
NUMBER = (r"\A[0-9]{1,18}(\.[0-9]{1,18})?\z", pa.float64(), "a number of at least 0 or nothing")

_USED = {
    "user_id": Field(name="user_id", low=0),
    "video_id": Field(name="video_id", low=0),
    "date": Field(name="date", low=0),
    "hourmin": Field(name="hourmin", low=0, high=2359),
    "time_ms": Field(name="time_ms", low=0),
    LABEL: Field(name=LABEL, low=0, high=1, empty=True),
    "long_view": Field(name="long_view", low=0, high=1),
    "is_rand": Field(name="is_rand", low=0, high=1),
    "tab": Field(name="tab", empty=True),
}
LOG_NAMES = (
    "user_id",
    "video_id",
    "date",
    "hourmin",
    "time_ms",
    "is_click",
    "is_like",
    "is_follow",
    "is_comment",
    "is_forward",
    "is_hate",
    "long_view",
    "play_time_ms",
    "duration_ms",
    "profile_stay_time",
    "comment_stay_time",
    "is_profile_enter",
    "is_rand",
    "tab",
)
LOG = Layout(
    what="a log of KuaiRand-Pure",
    fields=tuple(_USED.get(name) or Field(name=name, empty=True) for name in LOG_NAMES),
    header=True,
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The columns of users, videos and histories; a file of which nothing is wanted need not be there."""

    users: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()
    histories: tuple[str, ...] = ()

    def columns(self, role: str) -> tuple[str, ...]:
        """The columns of a role's table, its key among them; none where it is not wanted."""
        if role == "impressions":
            return IMPRESSION_COLUMNS
        columns: tuple[str, ...] = getattr(self, role)
        return (KEYS[role], *columns) if columns else ()


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What a data set is made from, the same in both forms. A table that was not wanted has no columns."""

    impressions: pd.DataFrame  # from FIRST_DAY on, in the order of time, with a label or without
    users: pd.DataFrame
    videos: pd.DataFrame
    histories: pd.DataFrame  # of what was shown to a user before FIRST_DAY; its lists oldest first, KEPT at most


def read(name: str, sources: Sequence[Path], wanted: Wanted, writer: StoreWriter, report: Report) -> Tables:
    """The wanted tables, from the folder that --source names. UserError for what is missing or cannot be."""
    roles = [role for role in COPY if wanted.columns(role)]
    what, paths = _find(name, sources, roles)
    report(f"{name}: reading {what}")
    made = (_read_official if FORMS[what] is OFFICIAL else _read_copy)(paths, wanted, writer)
    tables = {role: made.get(role, pd.DataFrame()) for role in COPY}
    for role, key in KEYS.items():
        if role in made and tables[role][key].duplicated().any():
            twice = tables[role][key][tables[role][key].duplicated()].iloc[0]
            raise UserError(f"{paths[role][0]}: {key} {twice} occurs twice; copy the file again.")
    tables["impressions"] = tables["impressions"].sort_values(["time_ms", "user_id", "video_id"], kind="stable")
    return Tables(**tables)


def _find(name: str, sources: Sequence[Path], roles: Sequence[str]) -> tuple[str, dict[str, list[Path]]]:
    """Which form the folder holds whole, and the paths of its files by role."""
    if len(sources) != 1 or not sources[0].is_dir():
        files = "; or ".join(", ".join(file for role in roles for file in form[role]) for form in FORMS.values())
        found = ", ".join(map(str, sources))
        raise UserError(f"{name} takes one --source, the folder that holds {files}; got '{found}'.")
    missing: dict[str, list[str]] = {}
    for what, form in FORMS.items():
        names = [file for role in roles for file in form[role]]
        for place in (sources[0] / at for at in PLACES):
            found_here = {file: path for file in names if (path := _there(place, file, form))}
            lacking = [file for file in names if file not in found_here]
            if not lacking:
                return what, {role: [found_here[file] for file in form[role]] for role in roles}
            if what not in missing or len(lacking) < len(missing[what]):
                missing[what] = lacking
    raise UserError(f"{sources[0]} does not hold KuaiRand-Pure whole: {_lacking(missing, roles)}; give either form.")


def _lacking(missing: Mapping[str, Sequence[str]], roles: Sequence[str]) -> str:
    """Which files of which form are missing; nothing of a form that is not there at all, if the other is in part."""
    sizes = {what: sum(len(form[role]) for role in roles) for what, form in FORMS.items()}
    begun = {what: files for what, files in missing.items() if len(files) < sizes[what]}
    return ", ".join(
        f"of {what} {' and '.join(files)} {'is' if len(files) == 1 else 'are'} missing"
        for what, files in (begun or missing).items()
    )


def _there(folder: Path, file: str, form: Form) -> Path | None:
    """The file in the folder, plain or, of the official ones, compressed."""
    names = (file, f"{file}.gz") if form is OFFICIAL else (file,)
    try:
        return next((folder / name for name in names if (folder / name).exists()), None)
    except OSError as error:
        raise UserError(f"{folder} cannot be read ({error.strerror}).") from None


# --- the Parquet copy


def _read_copy(paths: Mapping[str, Sequence[Path]], wanted: Wanted, writer: StoreWriter) -> dict[str, pd.DataFrame]:
    return {
        role: pd.concat([_read_parquet(path, wanted.columns(role), writer) for path in files], ignore_index=True)
        for role, files in paths.items()
    }


def _read_parquet(path: Path, columns: Sequence[str], writer: StoreWriter) -> pd.DataFrame:
    """The named columns of a Parquet file, and no others. UserError names the file and what it lacks."""
    _check_is_file(path)
    try:
        lacking = [name for name in columns if name not in pq.read_schema(path).names]
        if lacking:
            raise UserError(f"{path} has no column {', '.join(lacking)}; is it KuaiRand-Pure's?")
        table = pq.read_table(path, columns=list(columns))
        _check_types(path, table)
        frame = table.to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        shown = printable(str(error), 200)
        raise UserError(f"{path} cannot be read as Parquet ({shown}); copy it again.") from error
    bad = _first_bad(frame)
    if bad:
        raise _damaged(path, bad[0], f"row {bad[1]} has {bad[2]}")
    writer.add_source(path)
    return frame


def _check_is_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path} is not a file; put KuaiRand-Pure's file in its place.")


def _check_types(path: Path, table: pa.Table) -> None:
    """UserError for a column of another kind than what is done with it needs."""
    for field in table.schema:
        kind = field.type
        if field.name in LISTS:
            good, wanted = pa.types.is_list(kind) or pa.types.is_large_list(kind), "lists"
            if good and len(pc.list_flatten(table[field.name])):
                good, wanted = pa.types.is_integer(kind.value_type), "lists of whole numbers"
                good &= not pc.list_flatten(table[field.name]).null_count
        elif field.name in NUMBERS:
            good, wanted = pa.types.is_integer(kind) or pa.types.is_floating(kind), "numbers"
        else:
            good, wanted = not pa.types.is_nested(kind), "single values"
        if not good and not (pa.types.is_null(kind) and field.name not in REQUIRED):
            raise _damaged(path, field.name, f"expected {wanted}, found {kind}")


def _first_bad(frame: pd.DataFrame) -> tuple[str, int, object] | None:
    """(column, row, what is found) of the first value that cannot be."""
    bad = {name: frame[name].isna() for name in REQUIRED if name in frame}
    if "date" in frame:
        dates = frame["date"].drop_duplicates()
        good = dates[pd.to_datetime(dates.astype(str), format="%Y%m%d", errors="coerce").notna()]
        minutes = frame["hourmin"].astype("Float64")
        bad["date"] |= ~frame["date"].isin(good)
        bad["hourmin"] = ~(minutes.between(0, 2359) & (minutes % 100 < 60)).fillna(True)
        bad[LABEL] = ~(frame[LABEL].isin((0, 1)) | frame[LABEL].isna())
    if "video_duration" in frame:
        bad["video_duration"] = frame["video_duration"].astype("Float64").isin((np.inf, -np.inf))
    for name, which in bad.items():
        if which.any():
            row = int(which.to_numpy(dtype=bool).argmax())
            value = frame[name].iloc[row]
            return name, row, "nothing" if pd.isna(value) else value
    return None


def _damaged(path: Path, column: str, what: str) -> UserError:
    return UserError(f"{path}, column {column}: {what}; is it KuaiRand-Pure's? Copy it again.")


# --- the official files


def _read_official(paths: Mapping[str, Sequence[Path]], wanted: Wanted, writer: StoreWriter) -> dict[str, pd.DataFrame]:
    """The tables of the official files. The logs are cut by date, whatever their names say."""
    made = {
        role: _read_csv(paths[role][0], wanted.columns(role), writer) for role in ("users", "videos") if role in paths
    }
    logs = [_read_log(path, writer) for role in ("histories", "impressions") for path in paths.get(role, ())]
    log = pd.concat(logs, ignore_index=True)
    before, random = log["date"] < FIRST_DAY, log["is_rand"] == 1
    writer.drop("shown at random", int((random & ~before).sum()))
    made["impressions"] = log.loc[~before & ~random, list(IMPRESSION_COLUMNS)]
    if "histories" in paths:
        made["histories"] = histories(log[before & ~random])[list(wanted.columns("histories"))]
    return made


def _read_log(path: Path, writer: StoreWriter) -> pd.DataFrame:
    """The columns of a log that are used: those of an impression, and what `_read_official` cuts and counts by."""
    _check_is_file(path)
    used = [LOG.columns[name] for name in _USED]
    blocks = [block.values[:, used] for block in text.read([path], LOG)]
    values = np.concatenate([np.empty((0, len(used)), np.int64), *blocks])
    frame = pd.DataFrame({name: values[:, at] for at, name in enumerate(_USED)})
    for name in (LABEL, "tab"):
        frame[name] = frame[name].astype("Int64").mask(frame[name] == EMPTY)
    bad = _first_bad(frame)
    if bad:
        expected = {"date": "a day like 20220425", "hourmin": "a time of day like 2359"}
        raise _bad_cell(path, bad[1], bad[0], expected.get(bad[0], "another value"), str(bad[2]))
    writer.add_source(path)
    return frame


def histories(log: pd.DataFrame) -> pd.DataFrame:
    """What was shown to each user, as the copy's `user_sequences.parquet` has it."""
    log = log.sort_values(["user_id", "time_ms", "video_id"], kind="stable")
    users, codes = np.unique(log["user_id"].to_numpy(), return_inverse=True)
    counts = np.bincount(codes, minlength=len(users))
    videos, long = log["video_id"].to_numpy(), log["long_view"].to_numpy() == 1
    return pd.DataFrame(
        {
            "user_id": users,
            "history_len": counts,
            "last_time_ms": log["time_ms"].to_numpy()[np.cumsum(counts) - 1],
            "watch_seq": _last(videos, codes, len(users)),
            "long_watch_seq": _last(videos[long], codes[long], len(users)),
        }
    )


def _last(videos: np.ndarray, users: np.ndarray, num_users: int) -> pd.Series:
    """Per user, the last KEPT of the videos [n]; `users` [n] is in ascending order."""
    counts = np.bincount(users, minlength=num_users)
    to_end = np.cumsum(counts)[users] - np.arange(len(users))
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, KEPT))]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, videos[to_end <= KEPT]).to_pandas()


def _read_csv(path: Path, columns: Sequence[str], writer: StoreWriter) -> pd.DataFrame:
    """The named columns of a table of features, as text but for NUMBERS. UserError names file, line and column."""
    _check_is_file(path)
    try:
        with text.opened(path) as file:
            data = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); is it downloaded whole?") from None
    names = next(csv.reader([data.split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()]), [])
    for state, count in (("has no", 0), ("has more than one", 2)):
        wrong = [name for name in columns if min(names.count(name), 2) == count]
        if wrong:
            raise UserError(f"{path}, line 1: {state} column {', '.join(wrong)}; is it KuaiRand-Pure's?")
    try:
        table = pacsv.read_csv(
            pa.BufferReader(data),
            # one thread, for only then does Arrow know the number of a bad line
            read_options=pacsv.ReadOptions(use_threads=False),
            parse_options=pacsv.ParseOptions(ignore_empty_lines=False),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=list(columns),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException as error:
        raise _not_csv(path, error) from None
    frame = pd.DataFrame({name: _parsed(path, name, table[name]) for name in columns})
    if "tag" in frame:
        frame["tag"] = frame["tag"].fillna("unknown")  # as in the copy, so that both forms give the same ids
    writer.add_source(path)
    return frame


def _not_csv(path: Path, error: Exception) -> UserError:
    wide = WRONG_WIDTH.search(str(error))
    if wide:
        return UserError(f"{path}, line {wide[1]}: expected {wide[2]} columns separated by commas, found {wide[3]}.")
    return UserError(f"{path} cannot be read as CSV ({printable(str(error), 200)}); download it again.")


def _parsed(path: Path, name: str, column: pa.ChunkedArray) -> pd.Series:
    """A column of text as what it is used as."""
    if name not in NUMBERS:
        return column.to_pandas()
    pattern, kind, expected = ID if name in KEYS.values() else NUMBER
    good = pc.match_substring_regex(column, pattern).fill_null(kind is not ID[1]).to_numpy(zero_copy_only=False)
    if not good.all():
        row = int(np.argmin(good))
        raise _bad_cell(path, row, name, expected, column[row].as_py() or "")
    return pc.cast(column, kind).to_pandas()


def _bad_cell(path: Path, row: int, column: str, expected: str, found: str) -> UserError:
    """The refusal of a value, with the number of its line: the first is the header's."""
    return UserError(f"{path}, line {row + 2:,}: column {column}: expected {expected}, found {quoted(found)}.")
