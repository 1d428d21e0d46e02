"""The page: what stands on it, that it needs nothing else, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from bench.cli import main
from bench.compare import write_tables
from bench.plot import REPLAYED
from bench.report import answer, grid
from bench.report.page import RULES, rules
from bench.report.source import load
from bench.results import CELLS, STUDY_CELLS, read_file
from bench.summary import modelled_seconds
from tests.bench.reports import HOSTILE, SHOWN, Element, comparison, few_figures, hostile, parse, write_folder

SECTIONS = [
    "What was compared, and the answer", "Speed-ups", "Skip policies", "Study", "Failed runs", "Figures",
    "Rules of the clock", "Environment", "Files",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def draws_few_figures() -> Iterator[None]:
    """Fewer figures for all tests here."""
    with few_figures():
        yield


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report, made of one comparison with a failed run that says hostile things."""
    folder = tmp_path_factory.mktemp("report") / "out"
    out = write_folder(folder, hostile(), env={"processor": HOSTILE, "gpus": []})
    assert main(["report", "--out", str(out)]) == 0
    return out


@pytest.fixture
def folder(drawn: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may spoil."""
    return Path(shutil.copytree(drawn, tmp_path / "out"))


@pytest.fixture(scope="module")
def page(drawn: Path) -> Element:
    """Its page."""
    return parse(drawn / "report.html")


def said_of(out: Path) -> tuple[str, str]:
    """The sentences on time and on accuracy of a folder's comparison."""
    found = load(out)
    return answer.time(found), answer.accuracy(found)


def table(page: Element, caption: str) -> list[dict[str, str]]:
    """The rows of a table by its caption, each by the headings of its columns."""
    (found,) = (one for one in page.all("table") if next(one.all("caption")).text == caption)
    names = [heading.text.strip() for heading in found.all("th") if "aria-sort" in heading.attributes]
    body = next(found.all("tbody"))
    return [dict(zip(names, (c.text for c in row.all("th", "td")), strict=True)) for row in body.all("tr")]


def test_sections_come_in_order(page: Element) -> None:
    assert [heading.text for heading in page.all("h2")] == SECTIONS
    levels = [int(heading.tag[1]) for heading in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_page_needs_nothing_but_itself(page: Element, drawn: Path) -> None:
    policy = next(meta["content"] for meta in page.all("meta") if meta["http-equiv"] == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert all(element["src"].startswith("data:image/png;base64,") for element in page.all("img"))
    assert not [element for element in page.all("script", "iframe", "object") if element["src"]]
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert "http:" not in (text := (drawn / "report.html").read_text()) and "https:" not in text and "url(" not in text


def test_links_lead_somewhere(page: Element, drawn: Path) -> None:
    targets = [link["href"] for link in page.all("a")]
    ids = [element["id"] for element in page.all() if element["id"]]
    assert len(ids) == len(set(ids))
    assert all(target[1:] in ids if target.startswith("#") else (drawn / target).is_file() for target in targets)
    csvs = sorted(path.name for path in drawn.glob("*.csv"))
    assert [target for target in targets if target.endswith(".csv")] == csvs and "compare.csv" in csvs
    assert {element["aria-labelledby"] for element in page.all()} - {""} <= set(ids)


def test_tables_have_captions_and_sortable_headings(page: Element) -> None:
    tables = list(page.all("table"))
    assert len(tables) == 5
    for one in tables:
        assert next(one.all("caption")).text
        headings = [heading for heading in one.all("th") if heading["scope"] == "col"]
        assert headings and all(heading["aria-sort"] == "none" for heading in headings)
        buttons = [next(heading.all("button")) for heading in headings]
        assert all("disabled" in button.attributes for button in buttons)  # until the script is there to sort
        for row in next(one.all("tbody")).all("tr"):
            assert len(list(row.all("th", "td"))) == len(headings)
            assert [heading["scope"] for heading in row.all("th")] == ["row"]


def test_speedups_stand_with_their_intervals_pairs_and_verdicts(page: Element) -> None:
    rows = {row["system"]: row for row in table(page, "synthetic: against dlrm")}
    assert rows["xdl"]["speed-up [95 %]"] == "0.50 [0.50, 0.50]"
    assert (rows["xdl"]["n pairs"], rows["xdl"]["verdict on time"], rows["xdl"]["runs"]) == ("3", "slower", "3")
    assert rows["slipstream"]["verdict on time"] == "faster"
    assert rows["dlrm"]["verdict on time"] == "baseline" and rows["dlrm"]["speed-up [95 %]"] == ""


def test_measured_and_published_numbers_stand_in_groups_of_their_own(page: Element) -> None:
    groups = {g.text: int(g["colspan"]) for g in page.all("th") if g["scope"] == "colgroup"}
    assert groups == {"time, measured here": 1, "published, on GPU servers": 1, "accuracy, measured here": 4}
    rows = {row["system"]: row for row in table(page, "synthetic: speed-ups over dlrm by source")}
    assert rows["slipstream"]["speed-up [95 %]"] == "2.00 [2.00, 2.00]"
    assert rows["slipstream"]["speed-up (source)"] == "2.40 (Slipstream abstract)"
    assert rows["dlrm"]["speed-up [95 %]"] == "1"


def test_answer_is_what_the_verdicts_say(page: Element) -> None:
    (box,) = (element for element in page.all("div") if element["class"] == "answer")
    time, accuracy = (paragraph.text for paragraph in box.all("p"))
    assert time == (
        "In training time against dlrm (in brackets the speed-up), on synthetic slipstream (2.00) and slipstream "
        "skip=random (1.90) are faster, while xdl (0.50) is slower, 1 shows no significant difference, 1 has too few "
        "pairs of runs to tell, and 1 has no finished pair of runs."
    )
    assert accuracy.startswith(
        "On the test split, skipping stale inputs shows, against skipping as many at random, no significant difference "
        "in AUC on synthetic (fae's layout "
    )
    assert "; against not skipping at all, a lower AUC on synthetic (fae's layout −0.0" in accuracy


def test_answer_of_two_seeds_decides_nothing(tmp_path: Path) -> None:
    time, accuracy = said_of(write_folder(tmp_path / "out", comparison(num_seeds=2)))
    assert time.endswith("none is shown to be faster, while 4 have too few pairs of runs to tell.")
    assert "a difference in AUC that too few seeds can judge" in accuracy and "lower" not in accuracy


def test_answer_without_slipstream_is_about_the_baseline(tmp_path: Path) -> None:
    rows = [row for row in comparison() if row["system"] != "slipstream"]
    _, accuracy = said_of(write_folder(tmp_path / "out", rows))
    assert accuracy == ("On the test split against dlrm, on synthetic 1 of 1 show no significant difference in AUC.")


def test_answer_of_one_system_is_that_there_is_none(tmp_path: Path) -> None:
    rows = [row for row in comparison() if row["system"] == "dlrm"]
    time, accuracy = said_of(write_folder(tmp_path / "out", rows))
    assert "Only dlrm was run" in time and "no finished pair of runs whose accuracy could be compared" in accuracy


def test_answer_over_data_sets_has_the_geometric_mean(tmp_path: Path) -> None:
    other = [{**row, "dataset": "kuairand", "train_s": row["train_s"] * 2} for row in comparison()]
    out = write_folder(tmp_path / "out", [*comparison(), *other])
    assert "; in the geometric mean over them slipstream (2.00)" in said_of(out)[0]
    over = grid.over_sets(load(out))
    assert over and over.title == "geometric mean over synthetic and kuairand: against dlrm"
    names = [column.name for column in over.columns]
    rows = {row[0].text: dict(zip(names, (cell.text for cell in row), strict=True)) for row in over.rows}
    assert (rows["xdl"]["n data sets"], rows["xdl"]["verdict on time"]) == ("2", "slower")


def test_failed_runs_stand_with_their_reason(page: Element) -> None:
    (row,) = table(page, "Runs that are not done; they are in no mean")
    assert (row["system"], row["status"], row["reason"]) == ("fae", "failed", SHOWN)
    speed = {row["system"]: row for row in table(page, "synthetic: against dlrm")}
    assert (speed["fae"]["verdict on time"], speed["fae"]["runs"]) == ("no finished run", "1 failed")
    assert speed["fae"]["speed-up [95 %]"] == speed["fae"]["AUC"] == ""


def test_foreign_text_is_text(page: Element, drawn: Path) -> None:
    assert len(list(page.all("script"))) == 1 and not [e for e in page.all() if e["onerror"]]
    (row,) = table(page, "Runs that are not done; they are in no mean")
    assert row["notes"] == SHOWN and row["settings"] == f"skip={SHOWN}"
    assert f"hotline:{SHOWN}" in [row["system"] for row in table(page, "Notes of the runs")]
    assert SHOWN in [fact.text for fact in page.all("dd")]
    assert "\u202e" not in (drawn / "report.html").read_text()


def test_figures_have_captions_and_texts(page: Element) -> None:
    figures = list(page.all("figure"))
    captions = [next(one.all("figcaption")).text for one in figures]
    assert [text.split(";")[0] for text in captions] == [
        "Further right is faster", "Shorter is better",
        "Further right is more accurate",
    ]  # fmt: skip
    assert "the baseline is dlrm" in captions[0] and "n = 1 to 3 pairs" in captions[0]
    alternatives = [next(one.all("img"))["alt"] for one in figures]
    assert alternatives[0].startswith(
        "Speed-up of each system over the baseline, on synthetic: xdl 0.50, slipstream 2.00"
    )
    assert "stale on fae +0.0" in alternatives[2] or "stale on fae −0.0" in alternatives[2]
    assert all(int(next(one.all("img"))["width"]) > 100 for one in figures)


def test_missing_and_damaged_figures_are_drawn(folder: Path) -> None:
    before = (folder / "report.html").read_bytes()
    (folder / "figures" / "speedup-synthetic.png").unlink()
    (folder / "figures" / "skip-policies-synthetic.png").write_bytes(b"no picture")
    assert main(["report", "--out", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == before


def test_figures_that_are_there_are_taken(folder: Path) -> None:
    times = {path: path.stat().st_mtime_ns for path in (folder / "figures").iterdir()}
    assert main(["report", "--out", str(folder)]) == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "figures").iterdir()} == times


def test_rules_of_the_clock_are_the_packages(page: Element) -> None:
    written = rules(RULES.read_text())
    assert len(written) == 10 and all(written)
    section = next(one for one in page.all("section") if one["aria-labelledby"] == "clock")
    assert [item.text for item in section.all("li")] == [rule.replace("`", "") for rule in written]


def test_equal_environments_stand_once(page: Element, folder: Path) -> None:
    def kinds(page: Element) -> list[str]:
        section = next(one for one in page.all("section") if one["aria-labelledby"] == "environment")
        return [heading.text for heading in section.all("h3")]

    assert kinds(page) == ["17 of 17 runs"]
    (folder / "runs" / "run-3" / "env.json").write_text('{"python": "3.12"}')
    (folder / "runs" / "run-4" / "env.json").unlink()
    assert main(["report", "--out", str(folder)]) == 0
    assert kinds(parse(folder / "report.html")) == ["15 of 17 runs", "1 of 17 runs", "1 of 17 runs"]


def test_modelled_speedups_stand_beside_the_measured_ones(folder: Path) -> None:
    lines = [f"run-{run},a server,{devices},{1 + run // 3}.0," for run in range(6) for devices in (1, 2)]
    (folder / "replay.csv").write_text("\n".join([",".join(REPLAYED), *lines, ""]))
    (folder / "papers.csv").write_text(f'source,value\nFAE,12.5\nFAE,\n"{"x" * 3000}",-0.25\n')
    assert main(["report", "--out", str(folder)]) == 0
    page = parse(folder / "report.html")
    rows = {row["system"]: row for row in table(page, "synthetic: speed-ups over dlrm by source")}
    assert rows["xdl"]["2 devices"] == "0.50"
    assert rows["slipstream"]["1 device"] == ""
    assert [g["colspan"] for g in page.all("th") if g.text == "modelled on a server"] == ["2"]
    assert [row["value"] for row in table(page, "papers.csv")] == ["12.5", "", "−0.25"]
    assert len(table(page, "replay.csv")) == 12


def test_modelled_is_the_run_on_this_machine_and_a_full_epoch_elsewhere() -> None:
    replay = pd.DataFrame(
        [("this-machine", 2.0, 900.0), ("papers-v100", 3.0, 700.0), ("papers-v100", 3.0, None)],
        columns=["hardware", "modelled_s", "modelled_full_epoch_s"],
    )
    assert modelled_seconds(replay).tolist() == [2, 700, 3]


def test_an_earlier_comparison_s_policies_are_gone(folder: Path) -> None:
    assert "skipping stale inputs" in (folder / "report.html").read_text()
    cells = read_file(folder / "cells.csv", CELLS)
    write_tables(cells[cells["system"] != "slipstream"], folder, "dlrm")
    assert main(["report", "--out", str(folder)]) == 0
    assert "skipping stale inputs" not in (folder / "report.html").read_text()


def test_figures_older_than_their_csvs_are_drawn_anew(drawn: Path) -> None:
    figure = next((drawn / "figures").glob("speedup-*.png"))
    before = figure.stat().st_mtime_ns
    (drawn / "cells.csv").touch()
    assert main(["report", "--out", str(drawn)]) == 0
    assert figure.stat().st_mtime_ns > before


def test_equal_results_give_equal_pages(drawn: Path, folder: Path) -> None:
    assert main(["report", "--out", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == (drawn / "report.html").read_bytes()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _word(path: Path) -> None:
    """A word where a number has to be, in every row."""
    header, *lines = path.read_text().splitlines()
    at = header.split(",").index("train_s")
    values = [line.split(",") for line in lines]
    path.write_text("\n".join([header, *(",".join([*v[:at], "fast", *v[at + 1 :]]) for v in values), ""]))


def _noise(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 4)


def _header(path: Path) -> None:
    path.write_text(path.read_text().replace("label", "lable", 1))


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("runs.csv", Path.unlink, "there are no results in"),
        ("phases.csv", Path.unlink, "phases.csv is missing"),
        ("compare.csv", Path.unlink, "there is no comparison in"),
        ("cells.csv", Path.unlink, "cells.csv is missing"),
        ("compare.csv", _cut, "compare.csv is damaged"),
        ("compare.csv", _noise, "compare.csv is damaged"),
        ("compare.csv", _header, "compare.csv is damaged"),
        ("compare_policies.csv", _word, "compare_policies.csv is damaged"),
        ("compare_policies.csv", _cut, "compare_policies.csv is damaged"),
        ("cells.csv", _header, "cells.csv is damaged"),
        ("runs.csv", _noise, "runs.csv has other columns"),
        ("evals.csv", _noise, "evals.csv has other columns"),
        ("runs.csv", _cut, "cells.csv names runs that runs.csv lacks"),
        ("replay.csv", _noise, "replay.csv is damaged"),
        ("papers.csv", lambda path: path.write_text("a,b\n1\n"), "papers.csv is damaged"),
        ("replay.csv", lambda path: path.write_text(f"{','.join(REPLAYED)}\nrun-0,a,1,fast,9\n"), "damaged"),
        ("replay.csv", lambda path: path.write_text("what,how\nno,1\n"), "replay.csv"),
    ],
)
def test_missing_and_damaged_csvs_are_refused(
    folder: Path, name: str, spoil: Callable[[Path], object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "report.html").read_bytes()
    spoil(folder / name)
    assert main(["report", "--out", str(folder)]) == 2
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1
    assert (folder / "report.html").read_bytes() == before


def test_empty_and_missing_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in (tmp_path, tmp_path / "nowhere"):
        assert main(["report", "--out", str(out)]) == 2
        said = capsys.readouterr().err
        assert f"there are no results in {out}" in said and len(said.splitlines()) == 1


def test_the_folder_s_study_and_the_model_s_errors_stand_on_the_page(folder: Path) -> None:
    cells = read_file(folder / "cells.csv", CELLS).head(4)
    cells = cells.assign(policy=["none", "stale"] * 2, size=9000, drop=[None, 0.3] * 2, seed=[0, 0, 1, 1], epochs=1)
    cells.to_csv(folder / "study_cells.csv", index=False, columns=list(STUDY_CELLS))
    (folder / "papers.csv").write_text(
        "role,metric,error,reason\nheld out,train_time_10_epochs,0.5,why\nfit,train_time_10_epochs,9,\n"
    )
    assert main(["report", "--out", str(folder)]) == 0
    page = parse(folder / "report.html")
    (title,) = [caption.text for caption in page.all("caption") if "9,000 training inputs" in caption.text]
    assert [row["policy"] for row in table(page, title)] == ["none", "stale"]
    assert any("median absolute errors: times 50% (goal 15%, n = 1)" in one.text for one in page.all("p"))
