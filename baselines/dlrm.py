"""`dlrm`: the CPU-GPU hybrid of Intel-optimised DLRM (Kalamkar et al., SC'20; used so by FAE and Hotline).

Rows and their optimizer on the host, the dense network on the device; looked-up vectors go up, their gradients come
down, and one fused, multi-threaded pass updates the rows.
"""

from __future__ import annotations

from baselines.job import Job
from baselines.placement import Placement
from baselines.system import System
from datasets.settings import Setting

SUMMARY = "Intel-optimised DLRM hybrid: rows and their optimizer on the host, the dense network on the device"
SETTINGS: tuple[Setting, ...] = ()


def build(job: Job) -> System:
    """The base placement, in order, nothing skipped."""
    return System(Placement(job))
