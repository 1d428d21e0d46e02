"""Hardware profiles: what a unit of each kind of work costs, and how each constant was obtained.

A profile is a TOML file, in the package's folder `profiles` or anywhere. A constant stands in a table named by
resource and kind, `[host.rows_read]`, or by the system that it is for as well, `[host.rows_read.torchrec]`. What an
amount costs is amount · (each_s + size / per_s), where the size of a row, and of a looked-up vector or its gradient, is
its bytes (`rows_read`, `lookups_updated`, `lookups_spread`: those of the weights; `rows_written`: of the optimizer's
state as well), that of a pass the towers that it goes through, one after the other, and that of everything else is 1: a
byte, a FLOP, a weight.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from baselines.clock import COUNTERS
from baselines.registry import system_names
from baselines.work import DEVICE, HOST, KINDS, LINK, NET, STEP, Stage
from bench.replay.store import Facts
from datasets.errors import UserError, printable, unknown

FOLDER = Path(__file__).parent / "profiles"
HOW = ("fitted", "datasheet", "published", "measured", "assumed")
FABRIC = "fabric"  # between devices
THIS_MACHINE = "this-machine"  # the profile that is measured; a file for each shape of runs, kept with them
STEP_KINDS = ("plain", "cold", "hot", "mixed")  # of baselines.system.Kind, which is slow to import
ANY, BYTES = "any", "bytes"  # constants of all kinds of steps, and of both directions of the link
PLACES: dict[str, tuple[str, ...]] = {  # where a constant may stand
    **{resource: tuple(dict.fromkeys((*COUNTERS, *KINDS))) for resource in (HOST, DEVICE, LINK, NET)},
    STEP: (*STEP_KINDS, ANY),
    FABRIC: ("bytes", "trips"),
}
PLACES[LINK] += (BYTES,)
GENERAL = dict.fromkeys(STEP_KINDS, ANY) | {"link_to_device_bytes": BYTES, "link_to_host_bytes": BYTES}
SHARED = (HOST, LINK, NET)  # by all devices, unless the profile says otherwise
PASSES = "passes"
MOST_DEVICES = 1_000_000
LONGEST_S = 1e9  # that one unit of work may take
SHARABLE = (*SHARED, DEVICE, PASSES)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The cost of a unit of work: amount · (each_s + size / per_s) seconds."""

    each_s: float = 0.0
    per_s: float = math.inf  # bytes, FLOP, towers a second
    how: str
    source: str
    repeats: int = 0  # of a measurement

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise unknown("origin of a constant", self.how, HOW)
        if not (0 <= self.each_s <= LONGEST_S and self.per_s > 0 and self.repeats >= 0):
            raise UserError(f"each_s is 0 to {LONGEST_S:g}, per_s more than 0, and repeats at least 0.")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A machine, or several devices of one."""

    name: str
    summary: str
    devices: tuple[int, ...] = (1,)  # numbers of devices that are replayed unless --devices says otherwise
    # By all devices, or "passes": one process makes those of all. Of the rest each device has its own.
    shared: tuple[str, ...] = SHARED
    constants: Mapping[tuple[str, ...], Constant] = field(default_factory=dict)

    def constant(self, resource: str, kind: str, system: str) -> Constant | None:
        """The constant of a kind of work, the most special one that there is; None where it costs nothing."""
        names = [kind, GENERAL[kind]] if kind in GENERAL else [kind]
        places = [place for name in names for place in ((resource, name, system), (resource, name))]
        return next((self.constants[place] for place in places if place in self.constants), None)

    def unit_s(self, stage: Stage, facts: Facts, system: str) -> float:
        """Seconds that one unit of a stage takes."""
        constant = self.constant(stage.resource, stage.kind, system)
        if constant is None:
            return 0.0
        return constant.each_s + unit_size(stage.kind, facts) / constant.per_s


def unit_size(kind: str, facts: Facts) -> int:
    """Bytes of a row or a vector, towers of a pass; 1 of everything else."""
    match kind:
        case "rows_read" | "lookups_updated" | "lookups_spread":
            return facts.row_bytes
        case "rows_written":
            return facts.row_bytes + facts.state_bytes
        case "passes":
            return facts.towers
    return 1


def names() -> list[str]:
    """The profiles of the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Profile:
    """A profile by its name, or from a file. UserError for what is neither, and for a file that is no profile."""
    path = Path(name)
    if path.suffix == ".toml" and path.stem in (THIS_MACHINE, *names()):
        raise UserError(f"{path} has the name of another profile, which its rows would pass for; rename it.")
    if path.suffix != ".toml":
        if name not in names():
            raise unknown("hardware", name, [*names(), THIS_MACHINE])
        path = FOLDER / f"{name}.toml"
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read the hardware profile {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # of its syntax, its bytes, a number of thousands of digits
        raise UserError(f"{path} is not a TOML file: {error}") from None
    try:
        return parse(content, path.stem)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def parse(content: Mapping[str, Any], name: str) -> Profile:
    """A profile from the content of its file. UserError for a key, or a value, that does not belong there."""
    rest = dict(content)
    summary, devices = rest.pop("summary", name), rest.pop("devices", [1])
    shared = rest.pop("shared", list(SHARED))
    if not (isinstance(devices, list) and devices and all(type(n) is int and n > 0 for n in devices)):
        raise UserError("`devices` is a list of numbers of devices, such as [1, 2, 4].")
    if len(set(devices)) < len(devices) or max(devices) > MOST_DEVICES:
        raise UserError(f"`devices` names each number once, and none over {MOST_DEVICES}.")
    if not isinstance(shared, list) or any(resource not in SHARABLE for resource in shared):
        raise UserError('`shared` is a list of resources, such as ["host", "link"].')
    constants: dict[tuple[str, ...], Constant] = {}
    for resource, kinds in rest.items():
        if resource not in PLACES:
            raise unknown("resource", resource, PLACES)
        for kind, values in _table(resource, kinds).items():
            if kind not in PLACES[resource]:
                raise unknown(f"kind of work on {resource}", kind, PLACES[resource])
            place = f"{resource}.{kind}"
            common = {key: value for key, value in _table(place, values).items() if not isinstance(value, Mapping)}
            if common or not values:
                constants[resource, kind] = _constant(place, common)
            for system, own in _table(place, values).items():
                if isinstance(own, Mapping):
                    if system not in system_names():
                        raise unknown(f"system of [{place}]", system, system_names())
                    constants[resource, kind, system] = _constant(f"{place}.{system}", own)
    summary = printable(str(summary), 200)
    return Profile(name=name, summary=summary, devices=tuple(devices), shared=tuple(shared), constants=constants)


def _table(place: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{place} is a table, such as [host.rows_read] with each_s = 1e-8 below it.")
    return value


def _constant(place: str, values: Mapping[str, Any]) -> Constant:
    kinds = {"each_s": float, "per_s": float, "how": str, "source": str, "repeats": int}
    for key, value in values.items():
        if key not in kinds:
            raise unknown(f"key of [{place}]", key, kinds)
        if isinstance(value, bool) or not isinstance(value, (float, int) if kinds[key] is float else kinds[key]):
            raise UserError(f"[{place}]: {key} is {value!r}, which is no {kinds[key].__name__}.")
    for key in ("how", "source"):
        if key not in values:
            raise UserError(f"[{place}] does not say its {key}; every constant names how it was obtained, and where.")
    try:
        return Constant(**dict(values))
    except UserError as error:
        raise UserError(f"[{place}]: {error}") from None


def to_toml(profile: Profile) -> str:
    """The form that `load` reads."""
    content: dict[str, Any] = {"summary": profile.summary, "devices": list(profile.devices)}
    content["shared"] = list(profile.shared)
    for place, constant in sorted(profile.constants.items()):
        table = content
        for key in place:
            table = table.setdefault(key, {})
        defaults = {"each_s": 0.0, "per_s": math.inf, "repeats": 0}
        table |= {key: value for key, value in asdict(constant).items() if value != defaults.get(key)}
    return tomli_w.dumps(content)
