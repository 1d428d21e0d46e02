"""Short measurements of the parts that systems are made of: how long a part takes, and what it recorded meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import torch

from baselines import hotset
from baselines.devices import HOST as CPU
from baselines.devices import synchronize
from baselines.hot_placement import HotPlacement
from baselines.hotline import HotlinePlacement
from baselines.job import Job
from baselines.placement import Placement
from baselines.registry import load_system
from baselines.work import DEVICE, HOST, LINK, NET, STEP, WorkRecorder
from baselines.xdl import Xdl, distinct
from bench.replay.fit import Target, Unknown, solve
from bench.replay.model import replay
from bench.replay.profile import ANY, Constant, Profile
from bench.replay.store import Work, facts_of
from datasets.loader import Batch, batches
from datasets.store import Split

REPEATS = 48  # of each part
FEW = 8  # inputs of a mini-batch that is little but overhead
PARTED = 4  # a mini-batch over the µ-batch that tells what a pass costs from what its inputs cost
Part = Callable[[Batch], Any]
ROWS = ("rows_read", "rows_written", "lookups_updated")  # kinds of work on rows


@dataclass(frozen=True)
class Stopwatch:
    """Times parts of one job."""

    job: Job
    source: str

    def measure(self, parts: Mapping[str, Part], size: int = 0, repeats: int = REPEATS) -> dict[str, Target]:
        """The mean time of each part, and its work; all parts take turns, with a mini-batch in each round.

        The mean, since a run's time is a sum: of an answer from another process it is a quarter above the median.
        `size` is that of the mini-batches, the job's where it is 0. The loader reads ahead meanwhile, as in a run.
        """
        clock, facts = self.job.clock, facts_of(self.job, None)
        recorders = {name: WorkRecorder() for name in parts}
        spent: dict[str, list[float]] = {name: [] for name in parts}
        for number, batch in enumerate(self._batches(repeats + 1, size or self.job.batch_size)):
            for name, part in parts.items():
                clock.work = recorders[name] if number else WorkRecorder()  # the first round warms up
                start = time.perf_counter()
                with clock.run():
                    part(batch)
                    clock.end_step("plain", steps=0)
                synchronize(self.job.device)
                spent[name].append(time.perf_counter() - start)
        return {
            name: Target(Work(facts, tuple(recorders[name].steps())), "", repeats * fmean(spent[name][1:]))
            for name in parts
        }

    def _batches(self, number: int, size: int) -> Iterator[Batch]:
        split = self.job.train
        size = min(size, len(split))
        whole = len(split) // size * size
        rounds = -(-number * size // whole)
        inputs = np.concatenate([np.random.default_rng(r).permutation(len(split))[:whole] for r in range(rounds)])
        yield from batches(split, inputs[: number * size], size)

    def solve(
        self, profile: Profile, unknowns: Sequence[Unknown], parts: Mapping[str, Target], system: str = ""
    ) -> Profile:
        """The profile with the unknowns that explain the measured parts, as measured constants."""
        wanted = {unknown.place for unknown in unknowns}
        known = {place: constant for place, constant in profile.constants.items() if place not in wanted}
        targets = [replace(target, system=system) for target in parts.values()]
        found = solve(replace(profile, constants=known), unknowns, targets, self.source).constants
        measured = {place: replace(found[place], how="measured", repeats=REPEATS) for place in wanted}
        return replace(profile, constants={**known, **measured})

    def overhead(
        self, profile: Profile, train: Part, kind: str, system: str = "", parts: Mapping[str, Part] | None = None
    ) -> Profile:
        """The profile with what a step takes beside its counted work, seen in mini-batches of a few inputs.

        Of those too, its `parts` are measured; as they are modelled without: calls that cost something however few the
        inputs would count twice, here and in what an input was found to cost.
        """
        found = self.measure({"train": train, **(parts or {})}, FEW)
        target = found.pop("train")
        beside = sum(part.seconds for part in found.values()) or replay(target.work, profile, system).seconds
        rest = (target.seconds - beside) / REPEATS
        if rest <= 0 and kind != ANY:  # then that of any step holds
            return profile
        place = (STEP, kind, system) if system else (STEP, kind)
        constant = Constant(each_s=max(rest, 0.0), how="measured", source=self.source, repeats=REPEATS)
        return replace(profile, constants={**profile.constants, place: constant})


def each(kind: str, *resources: str, system: str = "") -> list[Unknown]:
    """An unknown cost by number, of a kind on each of the resources."""
    return [Unknown((resource, kind, system) if system else (resource, kind), "each_s") for resource in resources]


def base(watch: Stopwatch, profile: Profile) -> Profile:
    """Rows and the dense network, in steps of `dlrm`."""
    with closing(Placement(watch.job)) as placement:
        found = watch.measure(_parts_of_step(placement))
        del found["lookup_again"]  # of rows that are in the caches already
        unknowns = [unknown for kind in ROWS for unknown in each(kind, HOST)]
        unknowns += [*each("dense_flops", DEVICE), *each("passes", DEVICE), *each("dense_weights", DEVICE)]
        if watch.job.device != CPU:
            unknowns += [*each("bytes", LINK), *each("link_copies", LINK)]
        profile = watch.solve(profile, unknowns, found)
        return watch.overhead(_mirrored(profile, watch.job), placement.train, ANY, parts=_step(placement))


def _mirrored(profile: Profile, job: Job) -> Profile:
    """What the host takes for rows and the device for the network, for the other as well, where both are one CPU."""
    if job.device != CPU:
        return profile
    other = {HOST: DEVICE, DEVICE: HOST}
    mirrored = {(other[place], *kind): constant for (place, *kind), constant in profile.constants.items()}
    return replace(profile, constants={**mirrored, **profile.constants})


def _parts_of_step(placement: Placement) -> dict[str, Part]:
    """Lookup, dense network and updates of one mini-batch, each of which leaves its result for the next."""
    kept: dict[str, torch.Tensor] = {}

    def lookup(batch: Batch) -> None:
        kept["vectors"] = placement.lookup(batch.ids)

    def backward(batch: Batch) -> None:
        _, kept["grads"] = placement.dense.backward(placement.to_device(batch), kept["vectors"])

    def backward_of_part(batch: Batch) -> None:
        """Leaves nothing: a µ-batch, of which a pass costs more an input."""
        part = slice(max(1, len(batch) // PARTED))
        placement.dense.backward(placement.to_device(batch.select(part)), kept["vectors"][part])

    def update(batch: Batch) -> None:
        placement.update(batch.ids, kept["grads"])

    def lookup_again(batch: Batch) -> None:
        """Every lookup twice, for the next part: a placement may keep something of the last lookup."""
        placement.lookup(torch.cat([batch.ids, batch.ids]))

    def update_again(batch: Batch) -> None:
        """Every lookup twice: as many rows as before, which tells the cost of a row from that of a lookup."""
        ids = torch.cat([batch.ids, batch.ids])
        placement.update(ids, torch.cat([kept["grads"], kept["grads"]]))

    def step(batch: Batch) -> None:
        placement.dense.step()

    return {
        "lookup": lookup, "backward": backward, "part": backward_of_part,
        "update": update, "lookup_again": lookup_again, "again": update_again, "step": step,
    }  # fmt: skip


def _step(placement: Placement) -> dict[str, Part]:
    """The parts that make up a step, each once."""
    extra = ("part", "lookup_again", "again")
    return {name: part for name, part in _parts_of_step(placement).items() if name not in extra}


def hot_rows(watch: Stopwatch, profile: Profile, system: str) -> Profile:
    """Steps of hot inputs alone, whose rows are few and so nearer, and the classification of inputs."""
    job, rows = watch.job, _popular_rows(watch.job)
    inputs, marks = np.arange(len(job.train)), np.zeros(job.schema.num_rows, bool)
    marks[rows] = True

    def classify(batch: Batch) -> None:
        hotset.hot_inputs(job.train, inputs, marks)
        job.clock.count(lookups_scanned=len(inputs) * job.schema.num_lookups)

    scan = watch.measure({"classify": classify})
    split = job.train
    hot = hotset.hot_inputs(split, inputs, marks)
    profile = watch.solve(profile, each("lookups_scanned", HOST), scan)
    if not hot.any():  # then no run of this shape has a step of hot inputs
        return _mirrored_scan(profile, job)
    on_hot = replace(job, train=Split(split.schema, split.dense[hot], split.ids[hot], split.labels[hot]))
    with closing(HotPlacement(on_hot)) as placement:
        placement.place(rows)
        placement.hot_is_current = True
        own = replace(watch, job=on_hot)
        found = own.measure(_parts_of_step(placement))
        unknowns = [*each("lookups_placed", HOST), *(unknown for kind in ROWS for unknown in each(kind, DEVICE))]
        profile = watch.solve(profile, unknowns, {name: found[name] for name in ("lookup", "update", "again")})
        return own.overhead(_mirrored_scan(profile, job), placement.train, "hot", parts=_step(placement))


def _popular_rows(job: Job) -> np.ndarray:
    """The hot rows as the systems choose them: the most accessed ones, as many as the job's budget takes."""
    inputs = np.arange(len(job.train))
    counts = hotset.count_accesses(job.train, inputs)
    return hotset.hot_rows(counts, hotset.budget_rows(job, job.train, inputs, counts), job.schema.reserved_rows)


def _mirrored_scan(profile: Profile, job: Job) -> Profile:
    """The device's scan of snapshots costs as much a row as a lookup does on the host, where both are one CPU."""
    if job.device != CPU:
        return profile
    scan = profile.constants[HOST, "lookups_scanned"]
    return replace(profile, constants={**profile.constants, (DEVICE, "lookups_scanned"): scan})


def hotline(watch: Stopwatch, profile: Profile, system: str) -> Profile:
    """The splitting of mini-batches and the staging of cold rows."""
    job = watch.job
    with closing(HotlinePlacement(job)) as placement:
        placement.move_hot(_popular_rows(job))

        def split(batch: Batch) -> None:
            parted, _, number = placement._split(batch)
            parted.select(slice(number)), parted.select(slice(number, None))
            job.clock.count(lookups_split=batch.ids.numel())

        def stage(batch: Batch) -> None:
            placement._stage(batch.ids.flatten(), placement.slots[batch.ids].flatten())

        found = watch.measure({"split": split, "stage": stage})
        unknowns = [*each("lookups_split", HOST), *each("lookups_unique", HOST)]
        return watch.overhead(watch.solve(profile, unknowns, found), placement.train, "mixed")


def servers(watch: Stopwatch, profile: Profile, system: str) -> Profile:
    """What a worker asks its servers for, and what it does with the answers, in the order of a step.

    What `dlrm` does as well is measured another time: beside processes that share the caches and the memory.
    """
    clock = watch.job.clock
    with closing(_built(watch.job, system)) as placement:
        assert isinstance(placement, Xdl)
        kept: dict[str, torch.Tensor] = {}

        def find(batch: Batch) -> None:
            kept["rows"], kept["where"] = distinct(batch.ids)
            clock.count(lookups_unique=batch.ids.numel())

        def trip(batch: Batch) -> None:
            placement.servers.read(kept["rows"][:1])

        def pull(batch: Batch) -> None:
            kept["vectors"], dense = placement.servers.pull(kept["rows"])
            placement._set_dense(dense)
            clock.count(rows_read=len(kept["rows"]))

        def spread(batch: Batch) -> None:
            kept["pooled"] = placement._pooled(kept["vectors"], kept["where"])
            clock.count(lookups_spread=batch.ids.numel())

        def backward(batch: Batch) -> None:
            pooled = placement.link.to_device(kept["pooled"])
            _, grads = placement.dense.backward(placement.to_device(batch), pooled)
            kept["grads"] = placement.link.to_host(grads)

        def backward_of_part(batch: Batch) -> None:
            part = slice(max(1, len(batch) // PARTED))
            placement.dense.backward(placement.to_device(batch.select(part)), kept["pooled"][part])
            placement.dense.network.zero_grad(set_to_none=True)

        def summed(batch: Batch) -> None:
            kept["summed"] = placement._summed(kept["where"], kept["grads"], len(kept["rows"]))

        def push(batch: Batch) -> None:
            placement._push(kept["rows"], kept["summed"])

        step: dict[str, Part] = {
            "find": find, "pull": pull, "spread": spread, "backward": backward, "summed": summed, "push": push,
        }  # fmt: skip
        found = watch.measure({**step, "trip": trip, "part": backward_of_part})
        network = clock.dense_on
        kinds = [(NET, "net_trips"), (NET, "net_bytes"), (network, "dense_flops"), (network, "passes")]
        kinds += [(HOST, kind) for kind in ("lookups_unique", "lookups_spread", "lookups_updated", "rows_written")]
        unknowns = [unknown for resource, kind in kinds for unknown in each(kind, resource, system=system)]
        profile = watch.solve(profile, unknowns, found, system)
        return watch.overhead(profile, placement.train, ANY, system, step)


def torchrec(watch: Stopwatch, profile: Profile, system: str) -> Profile:
    """TorchRec's own lookup, and its backward pass with the optimizer in it."""
    with closing(_built(watch.job, system)) as placement:
        found = watch.measure(_step(placement))  # without `again`: its backward pass goes with the last lookup, once
        unknowns = [unknown for kind in ROWS for unknown in each(kind, DEVICE, system=system)]
        profile = watch.solve(profile, unknowns, {name: found[name] for name in ("lookup", "update")}, system)
        return watch.overhead(profile, placement.train, ANY, system, _step(placement))


def _built(job: Job, system: str) -> Placement:
    placement: Placement = load_system(system).build(job).placement
    return placement


# What is measured for a system beside `base`. A system of another package has a function `measure` in its module.
Measure = Callable[[Stopwatch, Profile, str], Profile]
MEASURED: dict[str, tuple[Measure, ...]] = {
    "xdl": (servers,),
    "xdl-cpu": (servers,),
    "torchrec": (torchrec,),
    "fae": (hot_rows,),
    "hotline": (hotline,),
    "slipstream": (hot_rows, hotline),
}


def measures(system: str) -> tuple[Measure, ...]:
    """What is measured for a system beside the parts of `dlrm`; nothing for one that says nothing about it."""
    own = getattr(load_system(system), "measure", None)
    return MEASURED.get(system, () if own is None else (own,))
