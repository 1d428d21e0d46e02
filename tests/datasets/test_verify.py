"""`data verify`: what was made is confirmed, whatever was changed since is named."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from datasets.errors import UserError
from datasets.store import prepare
from datasets.verify import verify


def test_a_set_as_it_was_made_is_confirmed(toy: SimpleNamespace, root: Path) -> None:
    toy.NEEDS_SOURCE = False
    made = prepare("toy")
    assert verify("toy") == (
        f"toy: 9 files, {sum(f['bytes'] for f in made.meta['files'].values()):,} bytes, all as they were made "
        f"(fingerprint {made.fingerprint})"
    )


@pytest.mark.parametrize("part", ["dense", "labels"])
def test_a_value_that_could_be_is_found_by_its_checksum(toy: SimpleNamespace, root: Path, part: str) -> None:
    toy.NEEDS_SOURCE = False
    path = prepare("toy").path / f"train_{part}.npy"
    array = np.load(path)
    array[0], array[1] = array[1].copy(), array[0].copy()
    array[0] = array[0] * 0 + 1 - array[0] if part == "labels" else array[0] + 1
    np.save(path, array)
    with pytest.raises(UserError, match=rf"(train_{part}\.npy is not what was made|was changed).*data prepare toy"):
        verify("toy")


@pytest.mark.parametrize(
    "change",
    [
        {"options": {}},
        {"options": {"rows": 20, "bogus": 1}},
        {"options": {"rows": "many"}},
        {"splits": {"positives": 10**30}},
    ],
)
def test_metadata_that_was_changed_is_named(toy: SimpleNamespace, root: Path, change: dict[str, Any]) -> None:
    toy.NEEDS_SOURCE = False
    path = prepare("toy").path / "meta.json"
    meta = json.loads(path.read_text())
    if "splits" in change:
        meta["splits"]["test"] |= change["splits"]
    else:
        meta |= change
    path.write_text(json.dumps(meta))
    with pytest.raises(UserError, match=r"meta\.json was changed: it says .*data prepare toy"):
        verify("toy")


def test_a_link_in_the_place_of_the_work_folder_is_refused(toy: SimpleNamespace, root: Path, tmp_path: Path) -> None:
    toy.NEEDS_SOURCE = False
    precious = tmp_path / "mine" / "precious"
    precious.parent.mkdir()
    precious.write_text("years")
    root.mkdir(exist_ok=True)
    (root / ".toy.partial").symlink_to(precious.parent)
    with pytest.raises(UserError, match=r"\.toy\.partial is in the way .* remove it"):
        prepare("toy")
    assert precious.read_text() == "years"


def test_a_set_that_was_moved_away_by_a_kill_goes_back(toy: SimpleNamespace, root: Path) -> None:
    toy.NEEDS_SOURCE = False
    made = prepare("toy")
    old = root / ".toy.abcd.old"
    old.mkdir()
    made.path.rename(old / "toy")
    toy.write = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare("toy")
    assert (root / "toy" / "meta.json").exists() and not old.exists()
