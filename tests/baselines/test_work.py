"""Recorded work: the arithmetic of trees, how steps become trees, and that nothing counted is lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from baselines.clock import COUNTERS
from baselines.registry import SYSTEMS
from baselines.work import (
    BETWEEN,
    HOST,
    LINK,
    STEP,
    Par,
    Seq,
    Stage,
    Steps,
    Tree,
    WorkRecorder,
    from_plain,
    leaves,
    seconds,
    spent,
    to_plain,
    totals,
)
from bench.loop import train
from bench.outcome import Outcome
from tests.small import Notebook, build, hot_settings, make_job

A, B, C = Stage(HOST, "rows_read", "a"), Stage(LINK, "link_copies", "b"), Stage("device", "dense_flops", "c")
stages = st.sampled_from([A, B, C])
trees: st.SearchStrategy[Tree] = st.recursive(
    stages,
    lambda inner: st.builds(lambda kind, parts: kind(tuple(parts)), st.sampled_from([Seq, Par]), st.lists(inner)),
    max_leaves=8,
)


def by_hand(tree: Tree, each: list[float]) -> float:
    """The time of one step, by the definition; takes the leaves' seconds from the front of the list."""
    if isinstance(tree, Stage):
        return each.pop(0)
    parts = [by_hand(part, each) for part in tree.parts]
    return sum(parts) if isinstance(tree, Seq) else max(parts, default=0.0)


@given(trees, st.data())
def test_a_sequence_takes_the_sum_and_side_by_side_the_longest(tree: Tree, data: st.DataObject) -> None:
    whole = st.integers(0, 1000).map(float)  # whole numbers, so that the order of a sum does not matter
    each = data.draw(arrays(np.float64, (3, len(leaves(tree))), elements=whole))
    assert seconds(tree, each).tolist() == [by_hand(tree, row.tolist()) for row in each]
    waited = spent(tree, each)
    assert ((waited == each) | (waited == 0)).all()


@given(trees)
def test_trees_survive_json(tree: Tree) -> None:
    assert from_plain(to_plain(tree)) == tree


@pytest.mark.parametrize("plain", [{"sequence": []}, ["host", "rows_read"], "host", {"par": [{"sequence": []}]}])
def test_what_is_no_tree_is_refused(plain: object) -> None:
    with pytest.raises(ValueError, match="not a tree"):
        from_plain(plain)


def test_steps_that_look_alike_share_a_tree() -> None:
    recorder = WorkRecorder()
    for amount in (3, 4):
        recorder.add(A, amount)
        recorder.add(A, 1)
        recorder.add(B, 2)
        recorder.close("plain")
    recorder.close(BETWEEN)  # nothing happened
    recorder.add(B, 5)
    recorder.close("plain")
    first, second = recorder.steps()
    assert (first.name, first.tree, first.amounts.tolist()) == ("plain", Seq((A, B)), [[4, 2], [5, 2]])
    assert (second.tree, second.amounts.tolist()) == (Seq((B,)), [[5]])
    assert totals([first, second]) == {(HOST, "rows_read"): 9, (LINK, "link_copies"): 9}


def test_what_is_forked_runs_beside_the_main_lane_until_it_is_waited_for() -> None:
    recorder = WorkRecorder()
    recorder.add(A, 1)
    recorder.fork()
    recorder.add(B, 2, side=True)
    recorder.add(A, 3)
    recorder.join()
    recorder.add(C, 4)
    recorder.close("mixed")
    (steps,) = recorder.steps()
    assert steps.tree == Seq((Seq((A,)), Par((Seq((A,)), Seq((B,)))), Seq((C,))))
    assert steps.amounts.tolist() == [[1, 3, 2, 4]]
    assert seconds(steps.tree, steps.amounts.astype(float)).tolist() == [1 + max(3, 2) + 4]


def test_when_the_side_lane_counts_makes_no_difference() -> None:
    found = []
    for late in (False, True):
        recorder = WorkRecorder()
        recorder.fork()
        for side in (late, not late):
            recorder.add(B if side else A, 2, side=side)
        recorder.join()
        recorder.close("mixed")
        found += [(steps.tree, steps.amounts.tolist()) for steps in recorder.steps()]
    assert found[0] == found[1]


def recorded(system: str, settings: dict[str, str]) -> tuple[Counter[str], list[Steps], Outcome]:
    """Train a small job with the training loop: the clock's totals, the recorded steps and the outcome."""
    job = make_job(system, settings={**hot_settings(system), **settings}, num_inputs=32 * 18 + 11)
    built = build(system, job)
    outcome = Outcome(job.clock)
    try:
        train(job, built, outcome, Notebook(), test=job.validation, warmup_steps=1)
    finally:
        built.placement.close()
    return job.clock.totals, list(job.clock.work.steps()), outcome


@pytest.mark.parametrize(
    ("system", "settings"),
    [*((name, {}) for name in SYSTEMS), ("slipstream", {"slipstream.layout": "hotline"})],
    ids=lambda value: str(value) if isinstance(value, str) else "".join(value.values()),
)
def test_the_trees_hold_all_that_was_counted(system: str, settings: dict[str, str]) -> None:
    counted, steps, outcome = recorded(system, settings)
    in_trees: Counter[str] = Counter()
    for (resource, kind), amount in totals(steps).items():
        in_trees[kind if resource != STEP else STEP] += amount
    assert {name: in_trees[name] for name in COUNTERS} == {name: counted[name] for name in COUNTERS}
    assert in_trees[STEP] == outcome.steps


def names(steps: list[Steps]) -> set[str]:
    return {group.name for group in steps}


def test_fae_records_its_kinds_of_steps_and_its_swaps_by_themselves() -> None:
    _, steps, _ = recorded("fae", {})
    assert names(steps) == {"cold", "hot", BETWEEN}
    between = {stage.phase for group in steps if group.name == BETWEEN for stage in leaves(group.tree)}
    assert {"synchronize", "validation"} <= between
    assert "synchronize" not in {s.phase for group in steps if group.name != BETWEEN for s in leaves(group.tree)}


def test_hotline_gathers_beside_the_popular_part() -> None:
    _, steps, _ = recorded("hotline", {})
    assert names(steps) == {"cold", "mixed", BETWEEN}
    par = [
        part for group in steps if group.name == "mixed" and isinstance(group.tree, Seq) for part in group.tree.parts
    ]
    beside = [part for part in par if isinstance(part, Par)]
    assert beside
    for part in beside:
        main, side = part.parts
        assert {stage.phase for stage in leaves(side)} == {"stage"}
        assert "stage" not in {stage.phase for stage in leaves(main)}


def test_the_same_run_records_the_same_work() -> None:
    first, second = (recorded("hotline", {})[1] for _ in range(2))
    assert [(g.name, g.tree, g.amounts.tolist()) for g in first] == [
        (g.name, g.tree, g.amounts.tolist()) for g in second
    ]
