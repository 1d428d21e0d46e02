"""`slipstream`: skip the hot inputs whose rows have gone stale (Maboud et al., DATE 2025, arXiv 2404.04270).

It sits on another system's layout, FAE's or Hotline's, and changes nothing of its placement and schedule; what it adds
is the skip in `slipstream.skip`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from baselines import fae, hotline, hotset
from baselines.job import Job
from baselines.system import System
from datasets.errors import UserError
from datasets.schema import Schema
from datasets.settings import Setting
from slipstream.policies import POLICIES
from slipstream.skip import StaleSkip

SUMMARY = "Slipstream: on FAE's or Hotline's layout, skips hot inputs whose rows have stopped changing"
LAYOUTS: dict[str, Callable[[Job], System]] = {"fae": fae.build, "hotline": hotline.build}
OWN_SETTINGS = (
    Setting(key="slipstream.layout", default="fae", choices=tuple(LAYOUTS), help="the system whose layout it uses"),
    Setting(key="skip", default="stale", choices=(*POLICIES, "none"), help="which hot inputs are dropped"),
    Setting(
        key="skip.what",
        default="inputs",
        choices=("inputs", "updates"),
        help="inputs: not trained at all; updates: trained, but the gradients of stale rows are thrown away",
    ),
    Setting(
        key="stale",
        default="all",
        choices=("all", "touched-only"),
        help="touched-only: a row that no input of the window looked up is not stale",
    ),
    Setting(key="slipstream.drop", default=0.3, low=0.0, high=1.0, help="D, the share of hot inputs to drop"),
    Setting(key="slipstream.tolerance", default=0.02, low=0.0, high=1.0, help="how far from D is near enough"),
    Setting(key="slipstream.t_max", default=1.0, low=0.0, help="the largest threshold T"),
    Setting(
        key="slipstream.alpha",
        default=0,
        low=0,
        help="stale lookups, in each sequence, that make an input stale; 0: all",
    ),
    Setting(key="slipstream.start", default=0.035, low=0.0, high=1.0, help="snapshot A, in shares of hot mini-batches"),
    Setting(key="slipstream.window", default=0.03, low=0.0, high=1.0, help="from A to snapshot B, likewise (p)"),
    Setting(key="slipstream.sample", default=0.001, low=0.0, high=1.0, help="share of hot inputs that T is sought on"),
)
# The authors' code. Ours are wider and closer, since other optimizers move rows further than SGD.
PAPER = {"slipstream.t_max": 0.1, "slipstream.tolerance": 0.08}
SETTINGS = tuple({s.key: s for s in (*OWN_SETTINGS, *fae.SETTINGS, *hotline.SETTINGS)}.values())


def check(settings: Mapping[str, Any]) -> None:
    """UserError for settings that do not fit, or not together."""
    if settings["skip.what"] == "updates" and settings["skip"] != "stale":
        raise UserError(f"skip.what=updates goes with skip=stale only, not with skip={settings['skip']}.")
    hotset.check(settings)


def check_alpha(schema: Schema, alpha: int) -> None:
    """UserError for an alpha that no input could reach in each of its sequences."""
    shortest = min(part.stop - part.start for part in schema.sequences)
    if alpha > shortest:
        of = "an input" if len(schema.sequences) == 1 else "an input's shortest sequence"
        raise UserError(f"slipstream.alpha is {alpha}, more than the {shortest} lookups of {of}; 0 means all of them.")


def build(job: Job) -> System:
    """The layout's system, with skipping."""
    settings = job.settings
    check(settings)
    check_alpha(job.schema, settings["slipstream.alpha"])
    layout = LAYOUTS[settings["slipstream.layout"]](job)
    return layout if settings["skip"] == "none" else replace(layout, skip=StaleSkip(job, layout))
