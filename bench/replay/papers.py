"""The papers' servers: constants fitted to the 1-GPU figures of XDL and DLRM, and every other figure predicted.

FAE's and Hotline's papers disagree about the same baselines, so that each has a profile of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from baselines.work import DEVICE, HOST, LINK, STEP, Steps, leaves
from bench import published
from bench.published import published_name
from bench.replay import profile as profiles
from bench.replay.extrapolate import FULL, full_epoch
from bench.replay.fit import Target, Unknown, solve, whole
from bench.replay.model import Modelled, replay
from bench.replay.profile import Profile
from bench.replay.report import recorded_runs
from bench.replay.store import Work
from datasets.errors import UserError

FAE, HOTLINE = "FAE", "Hotline v1"
PROFILES = {FAE: "papers-v100", HOTLINE: "papers-v100-hotline"}


def of_link(found: Modelled) -> float:
    """What a run spends on the link."""
    return found.of(LINK)


FITTED = ("xdl", "dlrm")  # the systems whose 1-GPU figures the servers are fitted to
SLIPSTREAM_ON_HOTLINE = "slipstream on hotline"
ON_HOTLINE = ("hotline", SLIPSTREAM_ON_HOTLINE)
LAYOUT_SETTINGS = ("layout", "fae.", "hotline.", "xdl.")  # which change where rows lie, and not what is skipped
NEEDED = ("xdl", "dlrm", "fae", "slipstream", *ON_HOTLINE)
EPOCHS, MINUTE = 10, 60.0
MEAN = "geomean"  # over the sets, where a data set stands
GIB = 2**30
XDL_LINK = Unknown((LINK, "bytes", "xdl"), "per_s")
# What is fitted, ten constants: of XDL, of PyTorch with its operators on the host, and of the copies over the link.
# Work on tables is priced by the lookup and by the row, and an operator's call assumed to take some ten µs: to explain
# these times by calls, each would have to take twelve to forty times as much.
UNKNOWNS = (
    Unknown((DEVICE, "passes", "xdl"), "per_s"),
    Unknown((HOST, "rows_written", "xdl"), "each_s"),
    XDL_LINK,
    Unknown((STEP, "any"), "each_s"),
    Unknown((DEVICE, "passes"), "per_s"),
    Unknown((HOST, "rows_read"), "each_s"),
    Unknown((HOST, "rows_written"), "each_s"),
    Unknown((HOST, "lookups_updated"), "per_s"),
    Unknown((LINK, "tables"), "each_s"),
    Unknown((LINK, "bytes"), "per_s"),
)
FORWARD = 1 / 3  # of a pass: the backward one has twice the products
# Parts of a step of DLRM on one GPU that a paper's chart shows, in percent of its time.
SHARES: dict[str, Callable[[Modelled], float]] = {
    "share_mlp_forward": lambda m: FORWARD * m.where(DEVICE, "dense_forward", "dense_backward"),
    "share_embedding_forward": lambda m: m.where(HOST, "embedding_forward"),
    "share_optimizer": lambda m: (
        m.where(HOST, "embedding_update") + m.where(DEVICE, "embedding_update", "dense_update")
    ),
    "share_communication": lambda m: m.of(LINK) - m.where(LINK, "synchronize"),
    "share_embedding_sync": lambda m: sum(m.where(place, "synchronize") for place in (HOST, DEVICE, LINK)),
}
TOTALS: dict[str, Callable[[Modelled], float]] = {"train_time_10_epochs": whole, "link_time_10_epochs": of_link}
Works = Mapping[tuple[str, str], Work]  # of a full epoch, by published data set and system
Figure = Mapping[str, str]


def full_works(out: Path) -> dict[tuple[str, str], Work]:
    """A full epoch of every published set by every system that a folder has runs of. UserError where one lacks.

    Of runs of several sizes the largest at which all systems ran, with the first seed that all have.
    """
    by_size: dict[str, dict[tuple[int, int, int], dict[str, Work]]] = {dataset: {} for dataset in FULL}
    for row, work in recorded_runs(out):
        dataset, system = published_name(row["dataset"]), stands_for(row["system"], row["settings"])
        if dataset in FULL and system in NEEDED:
            size = (work.facts.inputs, work.facts.epochs, -int(row["seed"] or 0))
            by_size[dataset].setdefault(size, {})[system] = work
    found = {}
    for dataset, sizes in by_size.items():
        largest = max(sizes, key=lambda size: (len(sizes[size]), size), default=None)
        works = sizes[largest] if largest else {}
        if lacking := [system for system in NEEDED if system not in works]:
            raise UserError(
                f"{out} has no recorded runs of all systems on {dataset} with equally many inputs; the fit needs them, "
                f"and {', '.join(lacking)} is missing."
            )
        for system, work in works.items():
            found[dataset, system] = full_epoch(work, FULL[dataset])
    return found


def stands_for(system: str, settings: str) -> str | None:
    """The system of the papers that a run is one of; None for one that skips otherwise, as controls do."""
    chosen = dict(word.split("=", 1) for word in settings.split())
    if any(not key.removeprefix("slipstream.").startswith(LAYOUT_SETTINGS) for key in chosen):
        return None
    return SLIPSTREAM_ON_HOTLINE if chosen.get("slipstream.layout") == "hotline" else system


def is_fitted(figure: Figure) -> bool:
    """Whether the servers are fitted to a figure: times of XDL and DLRM on one GPU, and of DLRM's parts.

    Or to all that a mean is over.
    """
    if figure["gpus"] != "1" or figure["system"] not in FITTED or figure["dataset"] not in (*FULL, MEAN):
        return False
    return figure["metric"] in (*TOTALS, published.CHART) or (figure["system"] == "dlrm" and figure["metric"] in SHARES)


def is_flawed(figure: Figure) -> bool:
    """FAE's bars for 2 and 4 GPUs in Hotline's Fig. 15 are DLRM's bars (results/published/README.md)."""
    return (
        figure["source"] == HOTLINE
        and figure["where"] == "Fig. 15"
        and figure["system"] == "fae"
        and figure["gpus"] in ("2", "4")
    )


def epoch_s(figures: Sequence[Figure], source: str, dataset: str, system: str) -> float:
    """The published time of an epoch on one GPU, in seconds: XDL's, and another system's by its speed-up over XDL.

    Both papers' charts refer to XDL, whose bars are the same in both, and whose times are in FAE's Table 5.
    """
    xdl = _value(figures, FAE, dataset, "xdl", "train_time_10_epochs") * MINUTE / EPOCHS
    return xdl if system == "xdl" else xdl / _value(figures, source, dataset, system, published.CHART)


def _value(figures: Sequence[Figure], *wanted: str) -> float:
    keys = ("source", "dataset", "system", "metric")
    return next(float(f["value"]) for f in figures if f["gpus"] == "1" and tuple(f[key] for key in keys) == wanted)


def targets(source: str, figures: Sequence[Figure], works: Works) -> list[Target]:
    """What a paper's server is fitted to. A chart's bar of XDL is a time as well, that of FAE's Table 5."""
    found = []
    for figure in figures:
        if figure["source"] != source or not is_fitted(figure) or figure["dataset"] == MEAN:
            continue
        dataset, system, metric, value = (figure[key] for key in ("dataset", "system", "metric", "value"))
        epoch = epoch_s(figures, source, dataset, system)
        part = SHARES.get(metric) or TOTALS.get(metric) or whole
        if metric in SHARES:
            epoch *= float(value) / 100
        elif metric == "link_time_10_epochs":
            epoch = float(value) * MINUTE / EPOCHS
        elif source == FAE and metric == published.CHART and system == "xdl":
            continue  # which Table 5 says already
        found.append(Target(works[dataset, system], system, epoch, part))
    return found


def unfitted(name: str) -> Profile:
    """A profile without its fitted constants: what is known before the fit."""
    loaded = profiles.load(name)
    known = {place: constant for place, constant in loaded.constants.items() if constant.how != "fitted"}
    return replace(loaded, constants=known)


def fit_servers(works: Works) -> dict[str, Profile]:
    """Each paper's server, fitted."""
    figures, found = published.figures(), {}
    for source, name in PROFILES.items():
        unknowns = [unknown for unknown in UNKNOWNS if source == FAE or unknown != XDL_LINK]  # which only FAE shows
        wanted = targets(source, figures, works)
        found[source] = solve(unfitted(name), unknowns, wanted, f"{source}: XDL and DLRM on one GPU")
    return found


class Predictions:
    """The published metrics, as one profile models them."""

    def __init__(self, works: Works, profile: Profile) -> None:
        self._works, self._profile = works, profile

    def epoch(self, dataset: str, system: str, gpus: int) -> Modelled:
        """One epoch of the full set."""
        return replay(self._works[dataset, system], self._profile, system.split()[0], gpus)

    def value(self, figure: Figure) -> float | None:
        """What the model says about a published figure, in its unit; None where it says nothing."""
        dataset, system, metric = figure["dataset"], figure["system"], figure["metric"]
        if figure["gpus"] == "0":  # the CPU alone, of which there is no profile
            return None
        gpus = int(figure["gpus"] or 1)
        if metric == "slipstream_speedup_over" or (metric == "fae_speedup_over" and system == "xdl"):
            return self._average(metric.split("_")[0], system, gpus)
        places = list(FULL) if dataset == MEAN else [dataset]
        if any((place, system) not in self._works for place in places):
            return None
        found = [self._measure(metric, place, system, gpus) for place in places]
        values = [value for value in found if value]
        return geometric_mean(values) if values else None

    def _measure(self, metric: str, dataset: str, system: str, gpus: int) -> float | None:
        found = self.epoch(dataset, system, gpus)
        if metric in TOTALS:
            return TOTALS[metric](found) * EPOCHS / MINUTE
        if metric in SHARES:
            return 100 * SHARES[metric](found) / found.seconds
        if metric == published.CHART:
            return self.epoch(dataset, "xdl", 1).seconds / found.seconds
        if metric == "link_bytes_one_epoch_one_direction":
            return link_bytes(self._works[dataset, system].steps) / GIB
        return None

    def _average(self, system: str, baseline: str, gpus: int) -> float:
        """The papers' averages are geometric means over the four sets, as far as they can be checked."""
        ours = SLIPSTREAM_ON_HOTLINE if (system, baseline) == ("slipstream", "hotline") else system
        ratios = [self.epoch(d, baseline, gpus).seconds / self.epoch(d, ours, gpus).seconds for d in FULL]
        return geometric_mean(ratios)


def link_bytes(steps: Sequence[Steps]) -> float:
    """Bytes that come down the link: of looked-up vectors' gradients as many as of the vectors that went up."""
    return sum(
        float(amount)
        for group in steps
        for stage, amount in zip(leaves(group.tree), group.amounts.sum(axis=0), strict=True)
        if stage.kind == "link_to_host_bytes"
    )


def software_hotline(figures: Sequence[Figure]) -> list[dict[str, str]]:
    """The published speed-ups of software Hotline over XDL: the accelerator's, over XDL and over software Hotline."""
    over_xdl, over_software = (
        {
            f["dataset"]: float(f["value"])
            for f in figures
            if (f["source"], f["system"], f["gpus"], f["metric"]) == (HOTLINE, "hotline-accelerator", "1", metric)
        }
        for metric in (published.CHART, "speedup_over_software_hotline_1gpu")
    )
    common = {"source": HOTLINE, "where": "Fig. 15 / Fig. 18", "system": "hotline", "gpus": "1"}
    return [
        {**common, "dataset": dataset, "metric": published.CHART, "unit": "x", "value": str(over_xdl[dataset] / value)}
        for dataset, value in over_software.items()
    ]


def compare(works: Works, servers: Mapping[str, Profile]) -> list[dict[str, Any]]:
    """A row for each published figure that the model says something about."""
    figures = published.figures()
    rows = []
    for figure in [*figures, *software_hotline(figures)]:
        source = figure["source"]
        found = Predictions(works, servers[source if source in servers else FAE]).value(figure)
        if found is not None:
            rows.append(_row(figure, found))
    return rows


def _row(figure: Figure, modelled: float) -> dict[str, Any]:
    value = float(figure["value"])
    held_out = "mean" if figure["dataset"] == MEAN else "held out"  # of figures that are in the table themselves
    role = "fit" if is_fitted(figure) else "flawed" if is_flawed(figure) else held_out
    if (figure["metric"], figure["system"], figure["gpus"]) == (published.CHART, "xdl", "1"):
        role = "definition"  # 1 on both sides
    return {
        **{key: figure[key] for key in ("source", "where", "dataset", "system", "gpus", "metric", "unit")},
        "role": role,
        "published": value,
        "modelled": modelled,
        "error": modelled / value - 1 if value else None,
    }
